"""A schedule on its way into its row and out of it.

A row that somebody damaged by hand can still be read and shown; what is wrong with it shows when it is fired.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Table

from sloppyjobs import errors
from sloppyjobs.schedules.timetable import Schedule, first, missed, resumed
from sloppyjobs.storage.ports.schedules import NewSchedule, PassedOver, StoredSchedule, passed_over, timetable
from sloppyjobs.storage.schema.instants import Instant, as_stored
from sloppyjobs.storage.schema.style import out_of_range

ReadInstant = Callable[[Any], datetime | None]


MISSED_LIMIT = 20
"""Times of which a schedule remembers what it missed; older ones are forgotten."""


def registered_values(new: NewSchedule, now: datetime) -> dict[str, Any]:
    """What every registration writes; it also mends what was recorded as broken or vanished."""
    return {
        "job_name": new.job_name,
        "queue": new.queue,
        "priority": new.priority,
        "payload": new.payload,
        "job_defaults": new.job_defaults,
        "kind": new.schedule.kind,
        "cron": new.schedule.cron,
        "interval_seconds": new.schedule.every,
        "run_once_at": new.schedule.at,
        "timezone": new.schedule.timezone,
        "misfire": new.schedule.misfire.value,
        "catch_up_limit": new.schedule.catch_up_limit,
        "declared": new.declared,
        "application": new.application,
        "vanished_at": None,
        "last_error": None,
        "last_error_at": None,
        "updated_at": now,
    }


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


def remembering(known: StoredSchedule, passed: PassedOver) -> str:
    """The stored value with one more entry, and without the oldest beyond the bound."""
    return msgspec.json.encode((passed, *passed_over(known.missed)[: MISSED_LIMIT - 1])).decode()


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


def resumed_if_readable(known: StoredSchedule, now: datetime) -> datetime | None:
    """As ``resumed``; None for a damaged row, which is left as it is and shows its error when it is due."""
    if known.next_run_at is None:
        return None
    with suppress(errors.JobsError):
        return resumed(timetable(known), known.next_run_at, now)
    return None
