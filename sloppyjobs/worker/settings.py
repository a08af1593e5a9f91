"""A worker's settings, checked before it starts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from sloppyjobs.domain import options

Duration = float | timedelta

SHORTEST_TURN = 1.0
"""A server under load may not answer for that long; a claim that is given up too soon costs an attempt."""

SHORTEST_RENEWAL = 0.5


@dataclass(frozen=True, slots=True)
class Settings:
    """A worker's settings, in seconds and whole numbers."""

    queues: tuple[str, ...]
    concurrency: int
    lease: float
    heartbeat: float
    poll_interval: float
    shutdown_timeout: float
    prefetch: int | None

    @property
    def turn_timeout(self) -> float:
        """Seconds after which a claim or a settlement without an answer is given up: well within the lease."""
        return max(SHORTEST_TURN, self.lease / 2)

    @property
    def renewal_timeout(self) -> float:
        """The same for a renewal: after one that failed there is time for another before leases expire."""
        return max(SHORTEST_RENEWAL, (self.lease - self.heartbeat) / 2)

    @classmethod
    def checked(
        cls,
        *,
        queues: Iterable[str],
        concurrency: int,
        lease: Duration,
        heartbeat: Duration,
        poll_interval: Duration,
        shutdown_timeout: Duration,
        prefetch: int | None,
    ) -> Settings:
        """The settings, or ``InvalidOption`` naming the one that cannot work."""
        settings = cls(
            queues=options.names("queues", queues),
            concurrency=options.whole("concurrency", concurrency, least=1, most=10_000),
            lease=options.seconds("lease", lease, zero=False),
            heartbeat=options.seconds("heartbeat", heartbeat, zero=False),
            poll_interval=options.seconds("poll_interval", poll_interval, zero=False),
            shutdown_timeout=options.seconds("shutdown_timeout", shutdown_timeout),
            prefetch=None if prefetch is None else options.whole("prefetch", prefetch, least=0, most=10_000),
        )
        if settings.heartbeat * 2 >= settings.lease:
            raise options.refuse(
                "heartbeat",
                heartbeat,
                f"must be shorter than half the lease of {settings.lease:g} s, or leases run out between beats",
            )
        return settings
