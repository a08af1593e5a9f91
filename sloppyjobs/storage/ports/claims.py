"""What claims, sweeps and turns speak of."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from sloppyjobs.domain.model import Claim, Ended, Settlement

Fence = tuple[str, int]
"""The id of a job and the number of an attempt: whoever names both holds the job, unless it was claimed anew."""

ALL_QUEUES = "*"
"""The name that stands for every queue."""

SWEEP_LIMIT = 500
"""Jobs of each kind that one sweep moves, unless told otherwise."""


class ClaimRequest(NamedTuple):
    """Who claims what, how many, and for how long."""

    worker_id: str
    queues: Collection[str] = (ALL_QUEUES,)
    names: Collection[str] | None = None
    limit: int = 1
    lease: float = 30.0


class Sweep(NamedTuple):
    """What a sweep did, and in how many seconds there is something for the next one."""

    expired: int
    promoted: int
    next_in: float | None
    lost: Sequence[Ended] = ()
    """The attempts whose leases had expired."""


class Turns(Protocol):
    """One settlement and one claim under way at most. What failed is retried when it is asked for the next time."""

    def begin_settle(self, settlements: Sequence[Settlement]) -> None:
        """Settle these; they belong to one worker."""
        ...

    def begin_claim(self, request: ClaimRequest) -> None:
        """Claim as asked for."""
        ...

    def settled(self) -> set[str]:
        """Wait for the settlement; the ids that were accepted."""
        ...

    def claimed(self) -> Sequence[Claim]:
        """Wait for the claim."""
        ...

    def close(self) -> None:
        """Nobody will ask for what is under way."""
        ...
