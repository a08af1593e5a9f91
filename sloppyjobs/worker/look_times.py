"""When a worker looks for jobs that have become due, and for what else a sweep does."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable

from sloppyjobs.domain.states import Decision, Status
from sloppyjobs.storage.ports.claims import Sweep

BUSY_SECONDS, IDLE_SECONDS = 0.05, 0.02
"""Between looks on the word of the database alone: of a worker that holds jobs, and of one that holds none and has just
looked in vain."""

_SHORTEST_STEP, _STEPS = 1 / 2048, 1024
"""Moments are kept in steps, at least so many for a delay, so that few are kept however many jobs are due."""


class LookTimes:
    """Moments on the monotonic clock: those that the last sweep has named, and those of jobs settled since.

    What this worker has settled is looked for at the very moment when it is due. What only the database knows of has
    to wait until some time has passed since the last look.
    """

    def __init__(self, poll: float) -> None:
        self._poll = poll
        self._looked_at = 0.0
        self._in_vain = False
        self._ask_at = math.inf
        self._others_at = 0.0
        self._due_at = math.inf
        self._known: list[float] = []
        self._kept: set[float] = set()

    def settled(self, now: float, decisions: Iterable[Decision]) -> None:
        """Jobs that end so are due again, or are to be woken, when their delays have passed since ``now`` at most."""
        for decision in decisions:
            if (status := decision.path[-1]) is Status.WAITING:
                self._others_at = min(self._others_at, now + decision.delay)
            elif status in (Status.RETRYING, Status.SCHEDULED):
                moment = _rounded_up(now + decision.delay, decision.delay)
                if moment not in self._kept:
                    self._kept.add(moment)
                    heapq.heappush(self._known, moment)

    def news(self, now: float) -> None:
        """Somebody has committed something, which may be due soon."""
        self._ask_at = min(self._ask_at, max(now, self._looked_at + BUSY_SECONDS))

    def sweep_at(self, *, busy: bool) -> float:
        """When there is something that only a sweep does; at the latest when it is time to poll."""
        others = max(self._others_at, self._looked_at + self._pause(busy=busy))
        # Only a sweep says what comes next, and a worker that holds jobs has better things to do.
        return others if busy else min(others, self._ask_at)

    def due_at(self, *, busy: bool, by_claim: bool) -> float:
        """When a job may be due; ``by_claim`` where a look is part of a claim, and keeps nobody waiting."""
        pause_ends = self._looked_at + self._pause(busy=busy)
        said = max(pause_ends, min(self._due_at, self._ask_at) if busy else self._due_at)
        known = self._known[0] if self._known else math.inf
        return min(said, known if by_claim or not busy else max(known, pause_ends))

    def swept(self, began: float, ended: float, sweep: Sweep) -> None:
        """A sweep has looked, and says what comes next."""
        self._looked(began)
        self._looked_at, self._ask_at = ended, math.inf
        self._in_vain = not (sweep.promoted or sweep.expired)
        self._due_at = ended + min(self._poll, math.inf if sweep.next_in is None else sweep.next_in)
        self._others_at = ended + min(self._poll, math.inf if sweep.others_in is None else sweep.others_in)

    def claimed(self, began: float) -> None:
        """A claim looks, which does not say what comes next: a worker without anything else to come asks at once."""
        self._looked(began)
        self._due_at = math.inf
        self._ask_at = began + (BUSY_SECONDS if self._known else 0.0)

    def _looked(self, began: float) -> None:
        self._looked_at = began
        while self._known and self._known[0] <= began:
            self._kept.discard(heapq.heappop(self._known))

    def _pause(self, *, busy: bool) -> float:
        if busy:
            return BUSY_SECONDS
        return IDLE_SECONDS if self._in_vain else 0.0


def _rounded_up(moment: float, delay: float) -> float:
    """The end of the step, of a power of two so that the steps of longer delays end with those of shorter ones."""
    _, exponent = math.frexp(delay / _STEPS)
    step = max(_SHORTEST_STEP, math.ldexp(0.5, exponent))
    return math.ceil(moment / step) * step
