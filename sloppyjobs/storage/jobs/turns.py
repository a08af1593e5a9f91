"""What a worker settles and claims at each turn, begun first and waited for later."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sloppyjobs.domain.model import Claim, Settlement
from sloppyjobs.storage.ports.claims import ClaimRequest

Turn = Callable[[Sequence[Settlement], ClaimRequest | None], tuple[set[str], Sequence[Claim]]]


class TransactionTurns:
    """For databases with one writer: what has been begun is done in one transaction when it is first waited for."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._settlements: Sequence[Settlement] = ()
        self._request: ClaimRequest | None = None
        self._accepted: set[str] = set()
        self._claims: Sequence[Claim] = ()

    def begin_settle(self, settlements: Sequence[Settlement]) -> None:
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
