"""Business keys: one live job for each. What a new job with a key may do, as pure functions of values.

A key is reserved by a row that names its job. The row goes when the job ends; one with a window stays until its end.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum, auto
from typing import NamedTuple

from sloppyjobs.domain.states import FINISHED, Status

ON_CONFLICT = ("return", "reject", "replace")
"""Where a key is taken: the job that has it is returned, an error is raised, or that job is replaced."""
UNIQUE = ("live", "pending")
"""How long a job keeps its key: until it ends, or until it starts."""


class Holder(NamedTuple):
    """Who has a key: the row of the key, and the job that it names."""

    key: str
    job_id: str
    until_start: bool
    reserved_until: datetime | None
    status: Status | None
    """None where the job was removed."""
    attempts: int


class Verdict(Enum):
    """What a new job finds when its key has a row already."""

    FREE = auto()
    RETURN = auto()
    REJECT = auto()
    REPLACE = auto()


def verdict(holder: Holder, on_conflict: str, now: datetime) -> Verdict:
    """Whether the key can be taken over, and else what the new job asked for."""
    if holder.status is None:
        return Verdict.FREE
    if not _holds(holder) and (holder.reserved_until is None or holder.reserved_until <= now):
        return Verdict.FREE
    if on_conflict == "reject":
        return Verdict.REJECT
    if on_conflict == "return" or holder.status in FINISHED:
        return Verdict.RETURN
    return Verdict.REJECT if holder.status is Status.PROCESSING else Verdict.REPLACE


def _holds(holder: Holder) -> bool:
    """Whether the job keeps others from its key by what it is doing."""
    return holder.status not in FINISHED and not (holder.until_start and holder.attempts > 0)


def in_the_way(holder: Holder, on_conflict: str) -> str:
    """Why a new job was refused, and what to do."""
    who = f"the business key {holder.key!r} is taken by job {holder.job_id}, which is {holder.status}"
    if on_conflict == "replace":
        return f'{who} and cannot be replaced while it runs; unique="pending" lets one wait beside it'
    if holder.status in FINISHED and holder.reserved_until is not None:
        return f"{who}; no other job may have it until {holder.reserved_until.isoformat(timespec='seconds')}"
    return who
