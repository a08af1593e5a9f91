"""How many jobs to hold: as many as can run, and those that will start within about 50 ms.

No-op jobs come in batches of hundreds; slow jobs are never hoarded.
"""

from __future__ import annotations

AHEAD_SECONDS = 0.05
MOST_HELD = 1_000
_SHORTEST = 20e-6
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
            # Quick to believe in slow jobs, slow to believe in fast ones: hoarding is the worse mistake.
            weight = 0.5 if seconds > self._mean * 10 else _WEIGHT
            self._mean += (seconds - self._mean) * weight

    def hoarded(self) -> None:
        """A job that was fetched ahead did not get its turn: believe in slow jobs from now on."""
        self._mean = max(self._mean or 0.0, 1.0)

    def capacity(self, lost: int = 0) -> int:
        """How many jobs to hold at once, running ones included; ``lost`` of the slots are held by nobody's attempt."""
        slots = max(0, self._concurrency - lost)
        if self._fixed is not None:
            return slots + self._fixed
        if self._mean is None:
            return slots
        ahead = slots * AHEAD_SECONDS / max(self._mean, _SHORTEST)
        return max(slots, min(MOST_HELD, slots + int(ahead)))
