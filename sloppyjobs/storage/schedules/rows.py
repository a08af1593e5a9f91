"""A schedule on its way into its row and out of it.

A row that somebody damaged by hand can still be read and shown; what is wrong with it shows when it is fired.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal, cast, get_args

import msgspec
from sqlalchemy import ColumnElement, Table

from sloppyjobs import errors
from sloppyjobs.schedules import cron
from sloppyjobs.schedules.timetable import Kind, Misfire, Schedule, after, first, missed
from sloppyjobs.storage.schema.instant_values import out_of_range
from sloppyjobs.storage.schema.instants import Instant, as_stored

ReadInstant = Callable[[Any], datetime | None]


KEPT = 20
"""Times of which a schedule remembers what it missed; older ones are forgotten."""


class PassedOver(msgspec.Struct, frozen=True, kw_only=True):
    """Occurrences that did not fire, what became of them, and why."""

    first: datetime
    last: datetime
    number: int
    more: bool = False
    """Whether there were even more; they are not counted for ever."""
    outcome: Literal["collapsed", "skipped"]
    """Collapsed into those that fired in their stead, or skipped."""
    reason: str
    """The misfire policy; or ``paused`` or ``vanished``, what the schedule was meanwhile."""
    decided_at: datetime


class NewSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A validated schedule that is about to be registered. ``id`` and ``paused`` count for a new row only."""

    id: str
    name: str
    job_name: str
    payload: str
    job_defaults: str
    schedule: Schedule
    queue: str | None = None
    priority: int | None = None
    paused: bool = False
    declared: bool = False
    application: str | None = None

    def values(self, now: datetime) -> dict[str, Any]:
        """What every registration writes; it also mends what was recorded as broken or vanished."""
        return {
            "job_name": self.job_name,
            "queue": self.queue,
            "priority": self.priority,
            "payload": self.payload,
            "job_defaults": self.job_defaults,
            "kind": self.schedule.kind,
            "cron": self.schedule.cron,
            "interval_seconds": self.schedule.every,
            "run_once_at": self.schedule.at,
            "timezone": self.schedule.timezone,
            "misfire": self.schedule.misfire.value,
            "catch_up_limit": self.schedule.catch_up_limit,
            "declared": self.declared,
            "application": self.application,
            "vanished_at": None,
            "last_error": None,
            "last_error_at": None,
            "updated_at": now,
        }


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
    """A schedule as its row says. An instant that cannot be read is None."""

    queue: str | None
    priority: int | None
    payload: str
    job_defaults: str | None
    missed: str | None
    """What it passed over, as it is stored; see ``passed_over``."""
    cursor: Any
    """``next_run_at`` exactly as it is stored, to compare with."""


def timetable(row: ScheduleFacts) -> Schedule:
    """When a schedule fires; ``InvalidSchedule`` where its row names no kind or policy that there is."""
    if row.kind not in get_args(Kind):
        raise cron.invalid("kind", row.kind, "one of " + ", ".join(get_args(Kind)))
    if row.misfire not in tuple(Misfire):
        raise cron.invalid("misfire", row.misfire, "one of " + ", ".join(Misfire))
    kind, misfire = cast(Kind, row.kind), Misfire(row.misfire)
    return Schedule(kind, row.cron, row.every, row.at, row.timezone, misfire, row.catch_up_limit)


_COLUMNS = {"every": "interval_seconds", "at": "run_once_at", "cursor": "next_run_at"}


def columns(table: Table) -> list[ColumnElement[Any]]:
    """The columns that ``stored`` reads, in its order."""
    found = [table.c[_COLUMNS.get(name, name)] for name in StoredSchedule.__struct_fields__]
    return [as_stored(column) if isinstance(column.type, Instant) else column for column in found]


def stored(row: Sequence[Any], instant: ReadInstant) -> StoredSchedule:
    """A row of ``columns`` as a value."""
    fields = dict(zip(StoredSchedule.__struct_fields__, row, strict=True))
    for name, value in fields.items():
        if name == "at" or name.endswith("_at"):
            fields[name] = readable(value, instant)
    return StoredSchedule(**fields)


def readable(value: Any, instant: ReadInstant) -> datetime | None:
    """The instant, or None where the stored value is none."""
    with suppress(ValueError, TypeError, AttributeError):
        found = instant(value)
        return None if found is None or out_of_range(found) else found
    return None


def passed_over(missed: str | None) -> tuple[PassedOver, ...]:
    """What a schedule has passed over, latest first; nothing where the stored value is damaged."""
    with suppress(msgspec.MsgspecError):
        return () if missed is None else msgspec.json.decode(missed, type=tuple[PassedOver, ...])
    return ()


def remembering(known: StoredSchedule, passed: PassedOver) -> str:
    """The stored value with one more entry, and without the oldest beyond the bound."""
    return msgspec.json.encode((passed, *passed_over(known.missed)[: KEPT - 1])).decode()


def missed_while(known: StoredSchedule, reason: str, now: datetime) -> dict[str, str]:
    """The column to write for a schedule that could not fire until ``now``; nothing where nothing came due."""
    if known.next_run_at is None or known.kind == "once":
        return {}
    with suppress(errors.JobsError):
        found = missed(timetable(known), known.next_run_at, now)
        if found is not None:
            passed = PassedOver(**found._asdict(), outcome="skipped", reason=reason, decided_at=now)
            return {"missed": remembering(known, passed)}
    return {}


def cursor_after_registration(known: StoredSchedule, new: Schedule, now: datetime) -> datetime:
    """Where the cursor of a known schedule stands once it is registered as ``new``."""
    before = (known.kind, known.cron, known.every, known.at, known.timezone if known.kind == "cron" else None)
    wanted = (new.kind, new.cron, new.every, new.at, new.timezone if new.kind == "cron" else None)
    if before != wanted or known.next_run_at is None:
        return first(new, now)
    return resumed(new, known.next_run_at, now) if known.vanished_at else known.next_run_at


def resumed(schedule: Schedule, cursor: datetime, now: datetime) -> datetime:
    """The cursor after a time in which nothing could fire: what was missed is passed over.

    A ``once`` keeps its time, because there is no later one; an interval keeps its grid.
    """
    if cursor > now or schedule.kind == "once":
        return cursor
    return after(schedule, now, anchor=cursor) or cursor


def resumed_if_readable(known: StoredSchedule, now: datetime) -> datetime | None:
    """As ``resumed``; None for a damaged row, which is left as it is and shows its error when it is due."""
    if known.next_run_at is None:
        return None
    with suppress(errors.JobsError):
        return resumed(timetable(known), known.next_run_at, now)
    return None
