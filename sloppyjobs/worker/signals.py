"""What signals mean to a worker: the first one drains, a second one releases what runs at once.

A terminal, systemd or ``timeout`` may send one request to stop to several processes, or to one process twice. So
signals within a second of the first count as one. Workers under a supervisor may get signals from both: only the
supervisor makes them release, by a signal of its own.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

STOP = (signal.SIGTERM, signal.SIGINT)
RELEASE = signal.SIGUSR2
"""What a supervisor sends to workers that are draining already."""

SAME_SIGNAL_SECONDS = 1.0
"""Signals within this time of the first count as one."""

Stop = Callable[[int, bool], None]
"""Called with the signal's number, and whether to release what runs at once."""

_supervised = False


def set_supervised() -> None:
    """This process is a child of a supervisor, which alone says when to release at once."""
    global _supervised  # noqa: PLW0603 - a property of the process
    _supervised = True


class StopRequests:
    """Tells a second request to stop from the same one that came twice."""

    def __init__(self) -> None:
        self._first_at: float | None = None

    def __call__(self) -> bool | None:
        """False for the first request, True for another one, None for the same one."""
        now = time.monotonic()
        if self._first_at is None:
            self._first_at = now
            return False
        # Since the first, not the last: somebody may press Ctrl-C again and again.
        return None if now - self._first_at < SAME_SIGNAL_SECONDS else True


@contextmanager
def handled(stop: Stop) -> Iterator[None]:
    """Let signals call ``stop``; the previous handlers are restored afterwards.

    Only the main thread can have handlers; elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    requests = StopRequests()

    def requested(number: int, _frame: Any) -> None:
        second = requests()
        if second is None or (second and _supervised):
            return
        stop(number, second)

    def release(number: int, _frame: Any) -> None:
        stop(number, True)

    handlers = dict.fromkeys(STOP, requested) | ({RELEASE: release} if _supervised else {})
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
