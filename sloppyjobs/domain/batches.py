"""What a batch is: its states, how it ends, and which of its callbacks are due then. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from sloppyjobs.domain.model import NewJob, Terms
from sloppyjobs.domain.states import FINISHED, Status


class BatchStatus(StrEnum):
    """Where a batch is in its life."""

    OPEN = "open"
    """Members are still being added."""
    RUNNING = "running"
    """Sealed, and some of its members have not ended."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({BatchStatus.SUCCEEDED, BatchStatus.FAILED, BatchStatus.CANCELLED})


class MemberState(IntEnum):
    """Why a member has a row: it has not ended, or it is dead and can be retried."""

    OUTSTANDING = 0
    DEAD = 1


class Tally(NamedTuple):
    """How many members were added, and how those ended that have."""

    total: int = 0
    succeeded: int = 0
    dead: int = 0
    cancelled: int = 0

    @property
    def ended(self) -> int:
        """Members that have ended."""
        return self.succeeded + self.dead + self.cancelled

    @property
    def outstanding(self) -> int:
        """Members that have not ended."""
        return self.total - self.ended

    @property
    def percent(self) -> float:
        """How much of the batch has ended, from 0 to 100; an empty batch is all done."""
        return 100.0 if self.total <= 0 else min(100.0, max(0.0, 100.0 * self.ended / self.total))


class Ending(NamedTuple):
    """What an edge of a member means for its batch."""

    tally: Tally
    """What is added to the batch's numbers, or taken from them."""
    removed: MemberState | None = None
    written: MemberState | None = None


@lru_cache(maxsize=256)
def ending(source: Status, target: Status | None) -> Ending | None:
    """What becomes of a member's row and its batch's numbers when the member takes an edge; None for nothing."""
    if target is Status.SUCCEEDED:
        return Ending(Tally(succeeded=1), removed=MemberState.OUTSTANDING)
    if target is Status.DEAD:
        return Ending(Tally(dead=1), removed=MemberState.OUTSTANDING, written=MemberState.DEAD)
    if source is Status.DEAD:
        if target is None or target in FINISHED:
            return Ending(Tally(), removed=MemberState.DEAD)
        return Ending(Tally(dead=-1), removed=MemberState.DEAD, written=MemberState.OUTSTANDING)
    if source not in FINISHED and target in (Status.CANCELLED, Status.DELETED):
        return Ending(Tally(cancelled=1), removed=MemberState.OUTSTANDING)
    return None


def verdict(tally: Tally, success_rate: float, *, cancelled: bool) -> BatchStatus:
    """How a batch ends whose members have all ended."""
    if cancelled:
        return BatchStatus.CANCELLED
    whole = tally.total <= 0 or tally.succeeded >= success_rate * tally.total
    return BatchStatus.SUCCEEDED if whole else BatchStatus.FAILED


CALLBACKS = ("success", "failure", "complete")
"""The kinds of callbacks; an option of a batch is called ``on_`` and one of these."""


def due_callbacks(status: BatchStatus, *, ended_before: bool, succeeded_before: bool) -> tuple[str, ...]:
    """Which callbacks a batch calls for that ends so; it may have ended before, and have been retried since."""
    due = []
    if status is BatchStatus.SUCCEEDED and not succeeded_before:
        due.append("success")
    if not ended_before:
        due += ["complete"] if status is BatchStatus.SUCCEEDED else ["failure", "complete"]
    return tuple(due)


class NewBatch(msgspec.Struct, frozen=True):
    """A validated batch on its way into the table."""

    id: str
    name: str
    success_rate: float
    callbacks: Mapping[str, NewJob]
    """By kind; the ids are those that the jobs will have."""
    metadata: str | None = None


class BatchRow(NamedTuple):
    """A batch as its row says."""

    id: str
    name: str
    status: BatchStatus
    success_rate: float
    callbacks: str | None
    """JSON of a mapping from kind to ``NewJob``."""
    metadata: str | None
    created_at: datetime
    updated_at: datetime
    sealed_at: datetime | None = None
    finished_at: datetime | None = None
    first_ended_at: datetime | None = None
    succeeded_at: datetime | None = None
    cancelled_at: datetime | None = None
    action: str | None = None
    """``cancel`` or ``retry`` while workers carry such a command out."""
    action_after: str | None = None
    """The last member that was retried."""
    actor: str | None = None
    reason: str | None = None
    first_status: str | None = None
    """How it ended for the first time."""
    damage: str | None = None
    """Which columns somebody has changed by hand so that they say nothing; something else stands here for them."""


_INSTANTS = ("run_at", "occurrence_at", "expires_at")


def encode_callbacks(callbacks: Mapping[str, NewJob]) -> str | None:
    """As they are stored with the batch. A callback depends on no other job."""
    return msgspec.json.encode(callbacks).decode() if callbacks else None


def decode_callbacks(text: str | None) -> dict[str, NewJob]:
    """What ``encode_callbacks`` wrote; nothing where that is damaged."""
    if text is None:
        return {}
    try:
        found = msgspec.json.decode(text, type=dict[str, dict[str, Any]])
        return {kind: NewJob(one["id"], one["payload"], _terms(one["terms"])) for kind, one in found.items()}
    except (msgspec.MsgspecError, UnicodeError, KeyError, TypeError, ValueError):
        return {}


def _terms(stored: Mapping[str, Any]) -> Terms:
    # Fields of a later version of this code are not known to this one.
    known = {name: stored[name] for name in Terms.__struct_fields__ if name in stored and name != "depends_on"}
    moments = {name: datetime.fromisoformat(known[name]) for name in _INSTANTS if known.get(name) is not None}
    return Terms(**{**known, **moments})
