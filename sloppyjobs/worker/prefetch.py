"""How many jobs to hold: as many as can run, and those that will start within about 50 ms.

No-op jobs are claimed in batches of hundreds; slow jobs are left to other workers.
"""

from __future__ import annotations

AHEAD_SECONDS = 0.05
CAPACITY_LIMIT = 1_000
_SHORTEST_RUN = 20e-6
_WEIGHT = 0.05


class Prefetch:
    """Learns from run times how many jobs to hold ready."""

    def __init__(self, concurrency: int, fixed: int | None) -> None:
        self._concurrency = concurrency
        self._fixed = fixed
        self._mean: float | None = None

    def ran(self, seconds: float) -> None:
        """A handler ran so long."""
        if self._mean is None:
            self._mean = seconds
        else:
            # Adapts at once to slow jobs and gradually to fast ones: holding too many is the worse mistake.
            weight = 0.5 if seconds > self._mean * 10 else _WEIGHT
            self._mean += (seconds - self._mean) * weight

    def waited_too_long(self) -> None:
        """A prefetched job did not start in time: assume slow jobs from now on."""
        self._mean = max(self._mean or 0.0, 1.0)

    def capacity(self, stuck: int = 0) -> int:
        """How many jobs to hold at once, running ones included; ``stuck`` slots cannot be used."""
        slots = max(0, self._concurrency - stuck)
        if self._fixed is not None:
            return slots + self._fixed
        if self._mean is None:
            return slots
        ahead = slots * AHEAD_SECONDS / max(self._mean, _SHORTEST_RUN)
        return max(slots, min(CAPACITY_LIMIT, slots + int(ahead)))
