"""What a worker has begun on PostgreSQL, and waits for later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from sloppyjobs.domain.model import Claim, Settlement
from sloppyjobs.storage.dialects.postgres import settle_values
from sloppyjobs.storage.dialects.postgres.expected_children import ExpectedChildren
from sloppyjobs.storage.dialects.postgres.settle_values import Split
from sloppyjobs.storage.ports.claims import ClaimRequest, Share

if TYPE_CHECKING:
    from sloppyjobs.storage.dialects.postgres.turns import PostgresClaims, SentTransactions, Settled


class PostgresTurns:
    """A settlement and a claim, each sent or not."""

    def __init__(self, claims: PostgresClaims) -> None:
        self._claims = claims
        self._settling: SentTransactions | None = None
        self._claiming: SentTransactions | None = None
        self._settlements: Sequence[Settlement] = ()
        self._split = Split(())
        self._request: ClaimRequest | None = None
        self._children: ClaimRequest | None = None
        self._settled: Settled | None = None
        self._expected = ExpectedChildren()

    def share(self, settlements: Sequence[Settlement], room: int) -> Share:
        """All, unless others wait for many of the jobs."""
        return self._expected.share(settlements, room)

    def expected(self, settlements: Iterable[Settlement]) -> int:
        """As many as such jobs had lately."""
        return self._expected.number(settlements)

    @property
    def promotes(self) -> bool:
        """In the same round trip, so that the loop waits for nothing."""
        return self._claims.promotes

    def begin_settle(self, settlements: Sequence[Settlement], children: ClaimRequest | None = None) -> None:
        """Send them, whatever they are; they are waited for at the next turn."""
        claims, self._settled, self._split = self._claims, None, settle_values.split(settlements)
        asks = children is not None and self._split.parents() is not None
        self._children = claims.with_distinct_lease(children) if children is not None and asks else None
        try:
            self._settling = claims.send(*claims.settle_calls(self._split, self._children))
        except Exception:
            claims.lost(settlements, self._children)
            raise
        self._settlements = settlements

    def begin_claim(self, request: ClaimRequest) -> None:
        """Send the claim; but one whose answer was lost comes first, and that is looked for when it is waited for."""
        claims = self._claims
        lost = claims.unanswered.take_claim(request.worker_id) if claims.unanswered.claims else None
        self._request = lost or claims.with_distinct_lease(request)
        if lost is None:
            try:
                self._claiming = claims.send(*claims.claim_calls(self._request))
            except Exception:
                claims.unanswered.add_claim(self._request)
                raise

    def settled(self) -> set[str]:
        """The ids that were accepted."""
        return self._answer().accepted

    def children(self) -> Sequence[Claim]:
        """The children that the settlement has claimed."""
        return self._answer().children

    def _answer(self) -> Settled:
        if self._settled is None:
            sent, self._settling = self._settling, None
            children, self._children = self._children, None
            self._settled = self._claims.settled(sent, self._settlements, self._split, children)
            if self._settled.able is not None:
                self._expected.learn(self._settled.able)
        return self._settled

    def claimed(self) -> Sequence[Claim]:
        """What was claimed, once it is looked at."""
        assert self._request is not None
        sent, self._claiming = self._claiming, None
        return self._claims.claimed(sent, self._request)

    def close(self) -> None:
        """Give the connections back, whatever comes of it."""
        for sent in (self._settling, self._claiming):
            if sent is not None:
                with suppress(Exception):
                    sent.answers()
        self._settling = self._claiming = None
