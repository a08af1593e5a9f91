"""What signals mean to a worker: the first one drains, a second one gives back at once.

A terminal, systemd or ``timeout`` may send one request to stop to several processes, or to one process twice. So
signals that come close together are one. How close is no question between a supervisor and its workers, who may be
told by both: only the supervisor makes its workers give back, by a signal of its own.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

STOP = (signal.SIGTERM, signal.SIGINT)
GIVE_BACK = signal.SIGUSR2
"""What a supervisor sends to workers that are draining already."""

SAME_SIGNAL_SECONDS = 1.0
"""Signals that come closer together are one."""

Stop = Callable[[int, bool], None]
"""Called with the signal's number, and whether to give back at once."""

_supervised = False


def supervised_from_now_on() -> None:
    """This process is a child of a supervisor, which alone says when to give back at once."""
    global _supervised  # noqa: PLW0603 - what a process is, it is as a whole
    _supervised = True


class Repeated:
    """Tells a second request to stop from the same one that came twice."""

    def __init__(self) -> None:
        self._first_at: float | None = None
        self._last_at = 0.0

    def __call__(self) -> bool | None:
        """False for the first request, True for another one, None for the same one."""
        now = time.monotonic()
        since, self._last_at = now - self._last_at, now
        if self._first_at is None:
            self._first_at = now
            return False
        return None if since < SAME_SIGNAL_SECONDS else True


@contextmanager
def handled(stop: Stop) -> Iterator[None]:
    """Let signals call ``stop``; the handlers that were there before come back afterwards.

    Only the main thread can have handlers; elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    repeated = Repeated()

    def requested(number: int, _frame: Any) -> None:
        again = repeated()
        if again is None or (again and _supervised):
            return
        stop(number, again)

    def give_back(number: int, _frame: Any) -> None:
        stop(number, True)

    handlers = dict.fromkeys(STOP, requested) | ({GIVE_BACK: give_back} if _supervised else {})
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
