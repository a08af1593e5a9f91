"""What claims, sweeps and turns speak of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
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
    promote: bool = False
    """Whether to queue first what has become due; only for ``Turns`` that promote."""


class Sweep(NamedTuple):
    """What a sweep did, and in how many seconds there is something for the next one."""

    expired: int
    promoted: int
    next_in: float | None
    lost: Sequence[Ended] = ()
    """The attempts whose leases had expired."""
    others_in: float | None = None
    """As ``next_in``, without jobs that become due: those a claim can queue."""


class Share(NamedTuple):
    """Settlements that are best written at once."""

    number: int
    """How many, from the first."""
    children: int
    """How many jobs that have waited for them are expected to start."""


class Turns(Protocol):
    """One settlement and one claim under way at most. What failed is retried when it is asked for the next time."""

    def share(self, settlements: Sequence[Settlement], room: int) -> Share:
        """Which of these are best settled at once, where there is so much room for children."""
        ...

    def expected(self, settlements: Iterable[Settlement]) -> int:
        """For how many children there should be room when these are settled."""
        ...

    @property
    def promotes(self) -> bool:
        """Whether a claim that is asked to can queue what has become due; else a sweep does."""
        ...

    def begin_settle(self, settlements: Sequence[Settlement], children: ClaimRequest | None = None) -> None:
        """Settle these; they belong to one worker.

        Jobs that have waited for them, and that a claim as asked for by ``children`` would take next, may be claimed.
        """
        ...

    def begin_claim(self, request: ClaimRequest) -> None:
        """Claim as asked for."""
        ...

    def settled(self) -> set[str]:
        """Wait for the settlement; the ids that were accepted."""
        ...

    def children(self) -> Sequence[Claim]:
        """Wait for the settlement; the children that it has claimed."""
        ...

    def claimed(self) -> Sequence[Claim]:
        """Wait for the claim."""
        ...

    def close(self) -> None:
        """Nobody will ask for what is under way."""
        ...


Turn = Callable[[Sequence[Settlement], ClaimRequest | None], tuple[set[str], Sequence[Claim]]]


class WithoutChildren:
    """The part of ``Turns`` for stores that settle all at once, and claim nothing with it."""

    def share(self, settlements: Sequence[Settlement], room: int) -> Share:  # noqa: ARG002
        """All."""
        return Share(len(settlements), 0)

    def expected(self, settlements: Iterable[Settlement]) -> int:  # noqa: ARG002
        """None."""
        return 0

    def children(self) -> Sequence[Claim]:
        """None."""
        return ()


class TransactionTurns(WithoutChildren):
    """``Turns`` for stores with one writer: both are done in one ``turn``, when the first of them is waited for."""

    def __init__(self, turn: Turn, *, promotes: bool = False) -> None:
        self.promotes = promotes
        self._turn = turn
        self._settlements: Sequence[Settlement] = ()
        self._request: ClaimRequest | None = None
        self._accepted: set[str] = set()
        self._claims: Sequence[Claim] = ()

    def begin_settle(self, settlements: Sequence[Settlement], children: ClaimRequest | None = None) -> None:  # noqa: ARG002
        """Remember what to settle."""
        self._settlements = settlements

    def begin_claim(self, request: ClaimRequest) -> None:
        """Remember what to claim."""
        self._request = request

    def settled(self) -> set[str]:
        """The ids that were accepted."""
        if self._settlements:
            self._do()
        return self._accepted

    def claimed(self) -> Sequence[Claim]:
        """What was claimed."""
        if self._request is not None:
            self._do()
        return self._claims

    def close(self) -> None:
        """Forget it."""
        self._settlements, self._request = (), None

    def _do(self) -> None:
        accepted, claims = self._turn(self._settlements, self._request)
        if self._settlements:
            self._settlements, self._accepted = (), accepted
        if self._request is not None:
            self._request, self._claims = None, claims
