"""Calls that are made later, in a thread of their own: slow ones delay neither settlements nor claims."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class DeferredCalls(Generic[T]):
    """Calls ``call`` with what is put, in order. The thread starts with the first item.

    At most ``limit`` items wait, 0 for any number; what comes when it is full is refused. ``call`` must not raise.
    """

    def __init__(self, name: str, call: Callable[[T], None], *, limit: int = 0) -> None:
        self._name = name
        self._call = call
        self._items: queue.Queue[T | None] = queue.Queue(limit)
        self._thread: threading.Thread | None = None

    def put(self, item: T) -> bool:
        """Queue an item; False where the queue is full. From one thread at a time."""
        try:
            self._items.put_nowait(item)
        except queue.Full:
            return False
        if self._thread is None:
            thread = threading.Thread(target=self._repeat, name=self._name, daemon=True)
            # Where it cannot be had now, the next item asks again.
            thread.start()
            self._thread = thread
        return True

    def close(self, timeout: float) -> None:
        """Finish the calls that are queued, for so many seconds at most."""
        if self._thread is None:
            return
        try:
            self._items.put(None, timeout=timeout)
        except queue.Full:
            return
        self._thread.join(timeout)
        self._thread = None

    def _repeat(self) -> None:
        while (item := self._items.get()) is not None:
            self._call(item)
