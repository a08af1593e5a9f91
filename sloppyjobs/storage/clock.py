"""The clock in force: the database's own, unless a test injects one."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Protocol

from sloppyjobs.domain import options


class Clock(Protocol):
    """One method: what time it is."""

    def now(self) -> datetime:
        """The current instant, aware."""
        ...


class FakeClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, start: datetime | str) -> None:
        self._lock = threading.Lock()
        self._now = options.instant("start", start)

    def now(self) -> datetime:
        """The instant at which the clock stands."""
        with self._lock:
            return self._now

    def advance(self, by: float | timedelta) -> datetime:
        """Move forward by seconds or a ``timedelta``, and return the new instant."""
        seconds = options.seconds("by", by, least=-options.LONGEST)
        step = by if isinstance(by, timedelta) else timedelta(seconds=seconds)
        with self._lock:
            self._now += step
            return self._now

    def set(self, instant: datetime | str) -> None:
        """Jump to an instant, backwards too."""
        moment = options.instant("instant", instant)
        with self._lock:
            self._now = moment
