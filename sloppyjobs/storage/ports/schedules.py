"""Schedules as they are registered, stored and fired."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, cast, get_args

import msgspec

from sloppyjobs import errors
from sloppyjobs.domain import options
from sloppyjobs.domain.model import NewJob
from sloppyjobs.schedules import cron
from sloppyjobs.schedules.timetable import Kind, Misfire, Schedule

SET_ASIDE = timedelta(seconds=60)
"""How long a schedule that could not be fired is left alone, so that it neither stalls the rest nor spins."""

FirePosition = tuple[datetime, str]
"""An occurrence and the id of its job: where a job stands in the history of its schedule."""


class PassedOver(msgspec.Struct, frozen=True, kw_only=True):
    """Occurrences that did not fire, what became of them, and why."""

    first: datetime
    last: datetime
    number: int
    more: bool = False
    """Whether there were even more; counting them stops at a bound."""
    outcome: Literal["collapsed", "skipped"]
    """Collapsed into those that fired in their stead, or skipped."""
    reason: str
    """The misfire policy; or ``paused`` or ``vanished``, what the schedule was meanwhile."""
    decided_at: datetime


class NewSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A validated schedule that is about to be registered. ``id`` and ``paused`` count for a new one only."""

    id: str
    name: str
    job_name: str
    payload: str
    job_defaults: str
    schedule: Schedule
    queue: str | None = None
    goes_to: str | None = None
    """The queue of its jobs: its own, or the definition's."""
    priority: int | None = None
    paused: bool = False
    declared: bool = False
    application: str | None = None


class ScheduleFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is told of a schedule as it is stored, and as it is shown."""

    id: str
    name: str
    job_name: str
    kind: str
    cron: str | None
    every: float | None
    at: datetime | None
    timezone: str
    misfire: str
    catch_up_limit: int
    paused: bool
    declared: bool
    """Whether it was declared in code, and not registered while the application ran."""
    application: str | None
    vanished_at: datetime | None
    """Since when the code that declared it does so no more; it does not fire while this is set."""
    next_run_at: datetime | None
    last_run_at: datetime | None
    last_error: str | None
    """Why it could not be fired when it was last due; None when it could."""
    last_error_at: datetime | None
    created_at: datetime | None
    updated_at: datetime | None


class StoredSchedule(ScheduleFacts, frozen=True, kw_only=True):
    """A schedule as it is stored. An instant that cannot be read is None."""

    queue: str | None
    priority: int | None
    payload: str
    job_defaults: str | None
    missed: str | None
    """What it passed over, as it is stored; see ``passed_over``."""
    cursor: Any
    """``next_run_at`` exactly as it is stored, to compare with."""


class Firing(NamedTuple):
    """What a due schedule does: occurrences to insert, and the next cursor. ``ends``: then it is gone.

    ``passed``: what it does not fire. It is remembered in the step that moves the cursor.
    """

    jobs: Sequence[NewJob]
    next_run_at: datetime | None
    ends: bool = False
    passed: PassedOver | None = None


DecideFiring = Callable[[StoredSchedule, datetime], Firing]
"""What a schedule that is due does at an instant. May be asked more than once for one fire."""

MakeSchedule = Callable[[StoredSchedule | None], NewSchedule]
"""What is to be written where this schedule is, or none. It may refuse, and may be asked more than once."""

MakeJob = Callable[[StoredSchedule, datetime], NewJob]
"""The job of a schedule that is triggered at an instant. May be asked more than once for one trigger."""


def timetable(schedule: ScheduleFacts) -> Schedule:
    """When a schedule fires; ``InvalidSchedule`` where it names no kind or policy that there is."""
    if schedule.kind not in get_args(Kind):
        raise cron.invalid("kind", schedule.kind, "one of " + ", ".join(get_args(Kind)))
    if schedule.misfire not in tuple(Misfire):
        raise cron.invalid("misfire", schedule.misfire, "one of " + ", ".join(Misfire))
    kind, misfire = cast(Kind, schedule.kind), Misfire(schedule.misfire)
    return Schedule(
        kind, schedule.cron, schedule.every, schedule.at, schedule.timezone, misfire, schedule.catch_up_limit
    )


def passed_over(missed: str | None) -> tuple[PassedOver, ...]:
    """What a schedule has passed over, latest first; nothing where the stored value is damaged."""
    with suppress(msgspec.MsgspecError):
        return () if missed is None else msgspec.json.decode(missed, type=tuple[PassedOver, ...])
    return ()


def possible_name(name: object) -> str:
    """The name, if a schedule could have it; ``UnknownSchedule`` for what no store would take as text."""
    try:
        return options.text("name", name)
    except errors.InvalidOption:
        raise unknown_schedule(name) from None


def unknown_schedule(name: object) -> errors.UnknownSchedule:
    """The error for a name that no schedule has."""
    return errors.UnknownSchedule(f"no schedule is named {options.shown(name)}; it may have been deleted, or run once")
