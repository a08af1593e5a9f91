"""Causes of death, and the pace at which their jobs are retried. Pure: no I/O, no clock.

A cause is a job's name, the class of the error that killed it, and the application's frame that raised it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from sloppyjobs.domain.states import Status

ID_LENGTH = 20
DEATHS_TO_STOP = 3
"""So many members in a row that died again stop a retry run."""
DIED_AGAIN = f"{DEATHS_TO_STOP} in a row died again"
"""Why such a run has ended."""
MOST_AT_ONCE = 500
"""Jobs that one step of a retry run retries."""
BURST_SECONDS = 10.0
"""What a run that was not advanced for a while catches up with, at most."""
FIRST_FEW = 10
"""Jobs of a run that may be unfinished before the first results are known."""
MOST_UNFINISHED = 1_000
"""Jobs of a run that may be unfinished at once, whatever its rate."""

_ID = re.compile(rf"[0-9a-f]{{{ID_LENGTH}}}")


def cause_id(name: str, error_type: str | None, error_frame: str | None) -> str:
    """A short digest that names a cause in addresses and tables."""
    text = msgspec.json.encode((name, error_type, error_frame))
    return hashlib.sha256(text).hexdigest()[:ID_LENGTH]


def possible_id(cause: object) -> bool:
    """Whether a cause could have this id."""
    return isinstance(cause, str) and _ID.fullmatch(cause) is not None


class MemberCounts(NamedTuple):
    """How many jobs of a retry run have which outcome."""

    succeeded: int = 0
    died: int = 0
    unfinished: int = 0
    other: int = 0


def counted_as(status: Status | None) -> str:
    """The field of ``Fates`` that counts a job of this status; None for one that was removed."""
    match status:
        case Status.SUCCEEDED:
            return "succeeded"
        case Status.DEAD:
            return "died"
        case None | Status.CANCELLED | Status.DELETED:
            return "other"
    return "unfinished"


def dies_again(newest_first: Iterable[Status | None]) -> bool:
    """Whether the last finished members of a run, in its order, all died again."""
    finished = [one for one in map(counted_as, newest_first) if one in ("succeeded", "died")][:DEATHS_TO_STOP]
    return len(finished) == DEATHS_TO_STOP and set(finished) == {"died"}


class Pace(NamedTuple):
    """How many jobs a run retries now, and when it looks again."""

    jobs: int
    next_at: datetime


def pace(rate: float, due_at: datetime, now: datetime, counts: MemberCounts) -> Pace:
    """What is due at ``rate`` jobs per minute since ``due_at``.

    A run that nobody advanced for an hour does not make up for it, and one whose jobs do not finish waits for them:
    until the first results are known, a few are enough.
    """
    each = timedelta(minutes=1 / rate)
    late = (now - due_at).total_seconds()
    if late < 0:
        return Pace(0, due_at)
    burst = max(1, min(MOST_AT_ONCE, int(rate * BURST_SECONDS / 60)))
    due = 1 + int(late / each.total_seconds())
    finished = counts.succeeded + counts.died + counts.other
    most = FIRST_FEW if finished < DEATHS_TO_STOP else min(MOST_UNFINISHED, max(FIRST_FEW, int(rate)))
    jobs = min(due, burst, max(0, most - counts.unfinished))
    return Pace(jobs, due_at + due * each if jobs == due else now + each)
