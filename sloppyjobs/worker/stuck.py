"""Handlers that go on although their attempt has ended, such as after a timeout that they ignore.

A thread cannot be killed. Its handler occupies the slot until it returns. Where all slots are occupied, a job that the
worker claimed would not start, and would be released again.
"""

from __future__ import annotations

import time
from collections import Counter

from sloppyjobs.worker.task import Task

GRACE_SECONDS = 1.0
"""A handler that observes its signal has returned by then; one that has not is reported as stuck."""


class StuckHandlers:
    """Which slots are held by handlers whose attempt has ended. Empty where all observe their signal.

    An attempt is added before somebody else ends it, and removed by whoever comes second: the handler that returns
    late, or the one who found that the handler was faster.
    """

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._since: dict[Task, float] = {}

    def __bool__(self) -> bool:
        return bool(self._since)

    def add(self, task: Task) -> None:
        """The attempt is about to be ended while its handler runs."""
        self._since[task] = time.monotonic()

    def remove(self, task: Task) -> bool:
        """The handler has returned; whether it was stuck."""
        return self._since.pop(task, None) is not None

    def by_isolation(self, longer_than: float = 0.0) -> Counter[str]:
        """How many there are of each isolation, of those that have gone on for so many seconds."""
        now = time.monotonic()
        found = [task for task, since in list(self._since.items()) if now - since >= longer_than]
        return Counter(task.definition.isolation for task in found)

    def full(self, longer_than: float = 0.0) -> set[str]:
        """The isolations in which no slot is left."""
        return {
            isolation for isolation, number in self.by_isolation(longer_than).items() if number >= self._concurrency
        }

    def reported(self) -> int:
        """How many slots are stuck, of the isolation where most are."""
        return max(self.by_isolation(GRACE_SECONDS).values(), default=0)
