"""What this process asked of the database without hearing the answer.

A connection may break after the commit and before its answer: then the work is done, and nobody was told. Whatever is
run again looks here first, so that it recognises its own work. While every answer arrives nothing is remembered, and
nothing is looked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sloppyjobs.domain.model import Settlement
from sloppyjobs.domain.states import AttemptStatus, Status

if TYPE_CHECKING:
    from sloppyjobs.storage.ports.claims import ClaimRequest

MOST = 10_000
"""Settlements that are remembered; the oldest are forgotten first. Those who asked may never ask again."""
MOST_CLAIMS = 100

Outcome = tuple[str, int, str, tuple[Status, ...], AttemptStatus]
"""Job, attempt, owner, and what was decided."""


class Unanswered:
    """Settlements and claims whose answers were lost.

    Each is taken by one who runs it again, so that of several threads one recognises it. Every step is one operation
    on a dictionary, and so safe between threads.
    """

    def __init__(self) -> None:
        # Empty while every answer arrives; whoever sees that need not ask further.
        self.settlements: dict[Outcome, None] = {}
        self.claims: dict[tuple[str, float], ClaimRequest] = {}

    def add(self, settlements: Iterable[Settlement]) -> None:
        """These may have been written."""
        for one in settlements:
            self.settlements[_outcome(one)] = None
        _shorten(self.settlements, MOST)

    def take(self, settlements: Iterable[Settlement]) -> list[Settlement]:
        """Those of the settlements that may have been written before."""
        return [one for one in settlements if self.settlements.pop(_outcome(one), one) is None]

    def forget(self, settlements: Iterable[Settlement]) -> None:
        """These were answered."""
        self.take(settlements)

    def add_claim(self, request: ClaimRequest) -> None:
        """This claim may have been written."""
        self.claims[request.worker_id, request.lease] = request
        _shorten(self.claims, MOST_CLAIMS)

    def take_claim(self, worker_id: str) -> ClaimRequest | None:
        """A claim of this worker that may have been written."""
        for key in list(self.claims):
            if key[0] == worker_id and (request := self.claims.pop(key, None)) is not None:
                return request
        return None

    def forget_claim(self, request: ClaimRequest) -> None:
        """This claim was answered."""
        self.claims.pop((request.worker_id, request.lease), None)


def _outcome(one: Settlement) -> Outcome:
    return one.job_id, one.attempt, one.worker_id, one.decision.path, one.decision.attempt


def _shorten(remembered: dict[Any, Any], most: int) -> None:
    for oldest in list(remembered)[:-most]:
        remembered.pop(oldest, None)
