"""A schedule as a line of a list: its timetable in words, whether it is late, and how its last runs ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from sloppyjobs import errors
from sloppyjobs.admin.schedules import LAST
from sloppyjobs.domain.states import Status
from sloppyjobs.schedules.cron_words import cron_in_words, interval_in_words
from sloppyjobs.schedules.occurrences import Recurring
from sloppyjobs.storage.ports.schedules import PassedOver
from sloppyjobs.views import Occurrence, Page
from webui import page_context
from webui.times import Times, duration

LATE_SECONDS = 60.0
_WORDS = {"processing": "running"}
_ENDED = {"succeeded": "succeeded", "failed": "dead", "timed_out": "dead", "lost": "dead", "cancelled": "cancelled"}
"""What a job was before retention deleted it, by how its last attempt ended."""


class Mark(NamedTuple):
    """One run, or what was passed over, in the strip of the last ones. ``kind`` is its icon and its colour."""

    at: datetime
    kind: str
    text: str


class ScheduleLine(NamedTuple):
    """What a page says of a schedule beside its own fields."""

    schedule: Recurring
    words: str | None
    """When it fires, in words; None where it takes too many."""
    expression: str | None
    """The cron expression, where there is one."""
    zone: ZoneInfo
    late: bool
    strip: tuple[Mark, ...]
    """Oldest first."""
    last: Occurrence | None
    outcome: str
    """How the last run ended."""
    kind: str
    """The icon and the colour of that."""
    took: str | None
    """How long the last run took that has ended, in words."""


def schedule_line(schedule: Recurring, ran: Sequence[Occurrence], times: Times) -> ScheduleLine:
    """The line of a schedule whose last jobs, latest first, are these."""
    zone = ZoneInfo(schedule.timezone if page_context.known_zone(schedule.timezone) else "UTC")
    marks = [*(_run_mark(one, times) for one in ran), *(_missed_mark(one, times) for one in schedule.missed)]
    strip = sorted(marks, key=lambda mark: mark.at)[-LAST:]
    measured = next((one.run_seconds for one in ran if one.run_seconds is not None), None)
    last = ran[0] if ran else None
    return ScheduleLine(
        schedule=schedule,
        words=in_words(schedule),
        expression=schedule.cron if schedule.kind == "cron" else None,
        zone=zone,
        late=_late(schedule, times.now),
        strip=tuple(strip) if ran else (),
        last=last,
        outcome="" if last is None else _outcome(last),
        kind="" if last is None else _kind(last),
        took=None if last is None or measured is None else _took(last, measured),
    )


def in_words(schedule: Recurring) -> str | None:
    """When a schedule fires, in words; None for what cannot be said in a few, or cannot be read."""
    if schedule.kind == "once":
        return "Once"
    if schedule.kind == "interval" and schedule.every is not None:
        return interval_in_words(schedule.every)
    try:
        return cron_in_words(schedule.cron or "")
    except errors.JobsError:
        return None


def summary(page: Page[Recurring], lines: Sequence[ScheduleLine]) -> str:
    """``12 schedules: 1 late, 1 paused.``"""
    more = " shown" if page.next_cursor or page.previous_cursor else ""
    counts = {
        "late": sum(one.late for one in lines),
        "paused": sum(one.schedule.paused for one in lines),
        "no longer declared in code": sum(one.schedule.vanished for one in lines),
    }
    counted = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
    return f"{len(lines)} schedule{'s' if len(lines) != 1 else ''}{more}{': ' if counted else ''}{counted}."


def reasons(schedule: Recurring) -> Mapping[str, str]:
    """Why occurrences were passed over, by the reason that is stored."""
    nobody = "No worker was running the scheduler"
    return {
        "run-once": f"{nobody}; the latest fired for all",
        "catch-up-limited": f"{nobody}; only the latest {schedule.catch_up_limit} are made up for",
        "ignore": f"{nobody}; missed ones are ignored",
        "paused": "The schedule was paused",
        "vanished": "No longer declared in code",
    }


def _late(schedule: Recurring, now: datetime) -> bool:
    quiet = schedule.paused or schedule.vanished or schedule.last_error is not None
    due = schedule.next_run_at
    return not quiet and due is not None and (now - due).total_seconds() > LATE_SECONDS


def _kind(run: Occurrence) -> str:
    return _ENDED.get(run.ended or "", "deleted") if run.status is Status.DELETED else run.status.value


def _outcome(run: Occurrence) -> str:
    return _WORDS.get(_kind(run), _kind(run))


def _took(last: Occurrence, measured: float) -> str:
    return f"took {duration(measured)}" if last.run_seconds is not None else f"the last took {duration(measured)}"


def _run_mark(run: Occurrence, times: Times) -> Mark:
    how = f" in {duration(run.run_seconds)}" if run.run_seconds is not None else ""
    by_hand = ", triggered by hand" if run.manual else ""
    return Mark(run.at, _kind(run), f"{times.day(run.at)}: {_outcome(run)}{how}{by_hand}")


def _missed_mark(passed: PassedOver, times: Times) -> Mark:
    number = f"{passed.number:,} {passed.outcome}" if passed.number > 1 else passed.outcome
    return Mark(passed.last, passed.outcome, f"{times.day(passed.last)}: {number}")
