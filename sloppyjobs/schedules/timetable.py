"""When a recurring job is due: once, at an interval, or by a cron expression in a time zone.

Pure: no clock and no storage; "now" is always an argument. Instants are aware datetimes, returned in UTC.

**Cron** expressions, and what the clocks do to them: see :mod:`sloppyjobs.schedules.cron`.

**An interval** is a grid, anchor + k * every. The stored cursor is the anchor: a late tick causes no drift.

**Misfires**: see :class:`Misfire` and :func:`plan`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from itertools import islice, takewhile
from typing import Literal, NamedTuple

from sloppyjobs.errors import InvalidOption, InvalidSchedule
from sloppyjobs.schedules.cron import YEARS, Timetable, find_zone, five_fields, invalid

MISFIRE_GRACE = timedelta(seconds=60)
"""An occurrence that is further in the past than this when it is planned counts as missed."""
MAX_EVERY = timedelta(days=3653)
MAX_CATCH_UP = 1000
MAX_PREVIEW = 1000
MAX_SKIPPED_COUNT = 100
"""Skipped cron occurrences are counted one by one, so the count stops here."""

Kind = Literal["cron", "interval", "once"]


class Misfire(StrEnum):
    """What to do with occurrences that came due while no scheduler ran."""

    RUN_ONCE = "run-once"
    """Fire the latest of them."""
    CATCH_UP_LIMITED = "catch-up-limited"
    """Fire the latest ``catch_up_limit`` of them, oldest first."""
    IGNORE = "ignore"
    """Fire none of them; the latest occurrence still fires while it is at most ``MISFIRE_GRACE`` old."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A timetable. ``parse`` makes a valid one; made by hand, its values are checked when they are used."""

    kind: Kind
    cron: str | None = None
    every: float | None = None
    at: datetime | None = None
    timezone: str = "UTC"
    misfire: Misfire = Misfire.RUN_ONCE
    catch_up_limit: int = 10


@dataclass(frozen=True, slots=True)
class Plan:
    """What a tick does: occurrences to fire (oldest first), how many it passes over, and the next cursor.

    ``skipped_capped``: more than ``skipped`` may have been passed over. ``last_skipped`` is the latest of them; the
    first is the cursor. ``next_run_at`` is None at the end.
    """

    fire: tuple[datetime, ...]
    skipped: int
    skipped_capped: bool
    next_run_at: datetime | None
    last_skipped: datetime | None = field(default=None, compare=False)


class Missed(NamedTuple):
    """Occurrences that came due and did not fire: the first and the last of them, and how many."""

    first: datetime
    last: datetime
    number: int
    more: bool
    """Whether there were even more; they are not counted for ever."""


def parse(
    *,
    cron: str | None = None,
    every: float | timedelta | None = None,
    at: datetime | str | None = None,
    timezone: str = "UTC",
    misfire: str = Misfire.RUN_ONCE,
    catch_up_limit: int = 10,
    now: datetime,
) -> Schedule:
    """A schedule from what the user wrote: exactly one of ``cron``, ``every`` (seconds) and ``at``.

    An ``at`` in the past is accepted; it is due at once. Raises InvalidSchedule, which names the field, the
    value and what is accepted.
    """
    given = [name for name, value in (("cron", cron), ("every", every), ("at", at)) if value is not None]
    if len(given) != 1:
        raise InvalidSchedule(f"schedule: {' and '.join(given) or 'nothing'} given; exactly one of cron, every and at")
    find_zone(timezone)
    if misfire not in tuple(Misfire):
        raise invalid("misfire", misfire, "one of " + ", ".join(Misfire))
    schedule = partial(Schedule, timezone=timezone, misfire=Misfire(misfire), catch_up_limit=_limit(catch_up_limit))
    if every is not None:
        return schedule("interval", every=_step(every).total_seconds())
    if at is not None:
        return schedule("once", at=_moment(at))
    parsed = schedule("cron", cron=" ".join(five_fields(cron)))
    first(parsed, now)
    return parsed


def first(schedule: Schedule, now: datetime) -> datetime:
    """The first cursor of a schedule registered at ``now``.

    Cron: the first occurrence strictly after ``now``; interval: a step after it; once: its time, past or not.
    """
    now = _instant("now", now)
    found = _moment(schedule.at) if schedule.kind == "once" else after(schedule, now)
    if found is None:
        raise invalid(
            schedule.kind,
            schedule.cron or schedule.every,
            f"a schedule that fires before the year {YEARS.stop}",
        )
    return found


def after(schedule: Schedule, instant: datetime, anchor: datetime | None = None) -> datetime | None:
    """The first occurrence strictly after ``instant``; None for once, or when the calendar ends first.

    An interval's occurrences are the grid through ``anchor``, to both sides; by default through ``instant``.
    """
    instant = _instant("instant", instant)
    if schedule.kind == "once":
        return None
    if schedule.kind == "cron":
        return next(Timetable.of(schedule.cron, schedule.timezone).following(instant), None)
    step = _step(schedule.every)
    origin = instant if anchor is None else _instant("anchor", anchor)
    try:
        found = origin + ((instant - origin) // step + 1) * step
    except OverflowError:
        return None
    return found if found.year in YEARS else None


def preview(schedule: Schedule, now: datetime, count: int = 10) -> list[datetime]:
    """The first ``count`` (1 to 1000) occurrences of a schedule registered at ``now``; fewer if it ends."""
    if type(count) is not int or not 1 <= count <= MAX_PREVIEW:
        raise _refuse("count", count, f"an integer from 1 to {MAX_PREVIEW}")
    if schedule.kind == "cron":
        return list(islice(Timetable.of(schedule.cron, schedule.timezone).following(_instant("now", now)), count))
    found: list[datetime] = [first(schedule, now)]
    while len(found) < count and (following := after(schedule, found[-1])):
        found.append(following)
    return found


def resumed(schedule: Schedule, cursor: datetime, now: datetime) -> datetime:
    """The cursor after a time in which nothing could fire: what was missed is passed over.

    A ``once`` keeps its time, because there is no later one; an interval keeps its grid.
    """
    if cursor > now or schedule.kind == "once":
        return cursor
    return after(schedule, now, anchor=cursor) or cursor


def plan(schedule: Schedule, cursor: datetime, now: datetime) -> Plan:
    """What to fire at ``now`` when ``cursor`` is the stored next occurrence; bounded, however old that is.

    Due are the cursor itself (it was promised, whatever the expression says today) and every occurrence after
    it up to and including ``now``; the misfire policy selects among them. ``ignore`` passes over what is more
    than ``MISFIRE_GRACE`` old, a past ``at`` too. The next cursor is strictly after ``now``.
    """
    cursor, now = _instant("cursor", cursor), _instant("now", now)
    if cursor > now:
        return Plan((), 0, False, cursor)
    wanted = _limit(schedule.catch_up_limit) if schedule.misfire == Misfire.CATCH_UP_LIMITED else 1
    newest, older = _newest_due(schedule, cursor, now, wanted)
    if schedule.misfire == Misfire.IGNORE and now - newest[0] > MISFIRE_GRACE:
        older = Missed(cursor, newest[0], len(newest) + (older.number if older else 0), bool(older and older.more))
        newest = []
    following = after(schedule, now, anchor=cursor)
    if older is None:
        return Plan(tuple(reversed(newest)), 0, False, following)
    return Plan(tuple(reversed(newest)), older.number, older.more, following, older.last)


def missed(schedule: Schedule, cursor: datetime, now: datetime) -> Missed | None:
    """What came due from the cursor on up to and including ``now``; None where nothing did."""
    cursor, now = _instant("cursor", cursor), _instant("now", now)
    return None if cursor > now else _newest_due(schedule, cursor, now, 0)[1]


def _newest_due(
    schedule: Schedule, cursor: datetime, now: datetime, wanted: int
) -> tuple[list[datetime], Missed | None]:
    """The latest ``wanted`` due occurrences, newest first, and what is older than these."""
    if schedule.kind == "once":
        return ([cursor], None) if wanted else ([], Missed(cursor, cursor, 1, False))
    if schedule.kind == "interval":
        step = _step(schedule.every)
        last = (now - cursor) // step
        newest = [cursor + k * step for k in range(last, max(last - wanted, -1), -1)]
        left = last + 1 - len(newest)
        return newest, Missed(cursor, cursor + (left - 1) * step, left, False) if left else None
    # Backwards from now, because a year of downtime has half a million minutes and only the newest count.
    later = takewhile(
        lambda occurrence: occurrence > cursor, Timetable.of(schedule.cron, schedule.timezone).preceding(now)
    )
    due = list(islice(later, wanted + MAX_SKIPPED_COUNT))
    if capped := len(due) == wanted + MAX_SKIPPED_COUNT:
        return due[:wanted], Missed(cursor, due[wanted], MAX_SKIPPED_COUNT, capped)
    due.append(cursor)
    older = due[wanted:]
    return due[:wanted], Missed(cursor, older[0], len(older), capped) if older else None


def _step(every: object) -> timedelta:
    step = every if isinstance(every, timedelta) else None
    if isinstance(every, int | float) and type(every) is not bool and 0 < every <= MAX_EVERY.total_seconds():
        step = timedelta(seconds=every)
    if step is None or not timedelta(seconds=1) <= step <= MAX_EVERY:
        raise invalid("every", every, "seconds or a timedelta, at least 1 second and at most 10 years")
    return step


def _limit(catch_up_limit: object) -> int:
    if type(catch_up_limit) is not int or not 1 <= catch_up_limit <= MAX_CATCH_UP:
        raise invalid("catch_up_limit", catch_up_limit, f"an integer from 1 to {MAX_CATCH_UP}")
    return catch_up_limit


def _moment(at: object) -> datetime:
    moment = None
    with suppress(ValueError):
        moment = _utc(datetime.fromisoformat(at) if isinstance(at, str) else at)
    if moment is None:
        raise invalid("at", at, "an aware datetime or ISO 8601 text with an offset, from 1900 to 9998")
    return moment


def _instant(field: str, value: datetime) -> datetime:
    instant = _utc(value)
    if instant is None:
        raise _refuse(field, value, "an aware datetime from 1900 to 9998")
    return instant


def _refuse(field: str, value: object, accepted: str) -> InvalidOption:
    return InvalidOption(f"{field}: {value!r}; accepted is {accepted}", field=field, reason=accepted)


def _utc(value: object) -> datetime | None:
    if not isinstance(value, datetime) or value.utcoffset() is None or value.year not in YEARS:
        return None
    instant = value.astimezone(UTC)
    return instant if instant.year in YEARS else None
