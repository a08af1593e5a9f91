"""Cron in time zones, against an implementation that is not ours: cronsim, which follows Debian's cron.

Left out is where cronsim differs by design, and each reason is a function below:

- it calls an expression fixed unless minute or hour *begins* with ``*`` (ours: no ``*`` and no ``/`` in either);
- it reads a star with a step in a day field as a star, so that both days must match;
- it reads ``5-5/10`` as ``5/10``, from 5 on;
- following real time, it still fires at a midnight that does not exist, and it jumps by whole hours, or by the minutes
  to its only minute, so that it misses a time where clocks change by a part of an hour, or away from the whole hour.

The model of ``test_schedule_zones`` covers what is left out here.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from clock_changes import HISTORIC, every_change, expressions, windows
from cronsim import CronSim, CronSimError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sloppyjobs.schedules.timetable import Schedule, preview

REACH = timedelta(hours=5)
MOST = 100
HOUR = timedelta(hours=1)

# Zone, an instant at which its clocks change, and what kind of change that is.
CHANGES = [
    ("Europe/Berlin", datetime(2026, 3, 29, 1, tzinfo=UTC), "a gap at two"),
    ("Europe/Berlin", datetime(2026, 10, 25, 1, tzinfo=UTC), "an overlap at two"),
    ("America/New_York", datetime(2026, 3, 8, 7, tzinfo=UTC), "a gap at two"),
    ("America/New_York", datetime(2026, 11, 1, 6, tzinfo=UTC), "an overlap at one"),
    ("Australia/Lord_Howe", datetime(2026, 10, 3, 15, 30, tzinfo=UTC), "a gap of half an hour"),
    ("Australia/Lord_Howe", datetime(2026, 4, 4, 15, tzinfo=UTC), "an overlap of half an hour"),
    ("Africa/Casablanca", datetime(2026, 2, 15, 2, tzinfo=UTC), "an overlap before Ramadan"),
    ("Africa/Casablanca", datetime(2026, 3, 22, 2, tzinfo=UTC), "a gap after Ramadan"),
    ("America/Sao_Paulo", datetime(2018, 11, 4, 3, tzinfo=UTC), "a gap at midnight"),
    ("America/Sao_Paulo", datetime(2018, 2, 18, 2, tzinfo=UTC), "an overlap at midnight"),
    ("Asia/Tehran", datetime(2022, 3, 21, 20, 30, tzinfo=UTC), "a gap at midnight"),
    ("Asia/Tehran", datetime(2022, 9, 21, 19, 30, tzinfo=UTC), "an overlap at midnight"),
    ("Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC), "a day that never was"),
    ("America/Havana", datetime(2026, 3, 8, 5, tzinfo=UTC), "a gap at midnight"),
    ("America/Havana", datetime(2026, 11, 1, 5, tzinfo=UTC), "an overlap at midnight"),
    ("Europe/London", datetime(2026, 3, 29, 1, tzinfo=UTC), "a gap at one"),
    ("Asia/Beirut", datetime(2026, 3, 28, 22, tzinfo=UTC), "a gap at midnight"),
    ("America/St_Johns", datetime(2010, 3, 14, 3, 31, tzinfo=UTC), "a gap at one minute past midnight"),
]

EXPRESSIONS = [
    # They follow real time.
    "5 * * * *",
    "0 * * * *",
    "30 * * * *",
    "*/20 * * * *",
    "*/15 * * * *",
    "7,37 * * * *",
    "* * * * *",
    "0 */2 * * *",
    "15 */3 * * *",
    "*/30 2 * * *",
    "*/10 0 * * *",
    "*/20 1-3 * * *",
    # They are fixed.
    "30 2 * * *",
    "0 2 * * *",
    "0 0 * * *",
    "15 0 * * *",
    "0,30 2 * * *",
    "0-30 2 * * *",
    "0-59 2 * * *",
    "0 1-3 * * *",
    "0,30 0-4 * * *",
    "30 1,2 * * SUN",
    "45 23 * * *",
]


def is_fixed(expression: str) -> bool:
    return not re.search(r"[*/]", "".join(expression.split()[:2]))


def fixed_for_cronsim(expression: str) -> bool:
    minute, hour = expression.split()[:2]
    return not minute.startswith("*") and not hour.startswith("*")


def star_with_step_in_days(expression: str) -> bool:
    fields = expression.split()
    return any(field.startswith("*") and field != "*" for field in (fields[2], fields[4]))


def range_of_one_with_step(expression: str) -> bool:
    return re.search(r"\b(\d+)-\1/", expression) is not None


def away_from_whole_hours(zone: str, change: datetime) -> bool:
    """Whether the offset changes by a part of an hour, or at a local time that is no whole hour."""
    tz = ZoneInfo(zone)
    before, behind = ((change + shift).astimezone(tz).utcoffset() for shift in (timedelta(minutes=-1), timedelta(0)))
    assert before is not None
    assert behind is not None
    return bool((behind - before) % HOUR) or bool((change - datetime(2000, 1, 1, tzinfo=UTC) + before) % HOUR)


def comparable(expression: str, zone: str, change: datetime) -> bool:
    """Whether cronsim's rule is ours for this expression at this change."""
    fixed = is_fixed(expression)
    if fixed is not fixed_for_cronsim(expression):
        return False
    if star_with_step_in_days(expression) or range_of_one_with_step(expression):
        return False
    minute, hour = expression.split()[:2]
    jumps = hour != "*" or minute.isdigit()
    return fixed or not jumps or not away_from_whole_hours(zone, change)


def by_cronsim(expression: str, zone: str, start: datetime, end: datetime) -> tuple[list[datetime], set[datetime]]:
    """Its occurrences, and those that it answers with a local time that does not exist."""
    tz = ZoneInfo(zone)
    found: list[datetime] = []
    imaginary: set[datetime] = set()
    for local in CronSim(expression, start.astimezone(tz)):
        instant = local.astimezone(UTC)
        if instant > end:
            break
        if instant.astimezone(tz).replace(tzinfo=None) != local.replace(tzinfo=None):
            imaginary.add(instant)
        found.append(instant)
    return found, imaginary


def by_us(expression: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    schedule = Schedule("cron", cron=expression, timezone=zone)
    found: list[datetime] = []
    while not found or found[-1] <= end:
        # Few at first: most of what is asked for past the end is computed for nothing.
        found += preview(schedule, found[-1] if found else start, min(MOST, 12 + len(found)))
    return [instant for instant in found if instant <= end]


def agree(expression: str, zone: str, change: datetime) -> None:
    start, end = change - REACH, change + REACH
    theirs, imaginary = by_cronsim(expression, zone, start, end)
    theirs = [instant for instant in theirs if instant not in imaginary]
    ours = [instant for instant in by_us(expression, zone, start, end) if instant not in imaginary]
    shown = [instant.astimezone(ZoneInfo(zone)).isoformat() for instant in sorted(set(ours) ^ set(theirs))][:5]
    assert ours == theirs, f"{expression} in {zone} around {change}: only one of the two fires at {shown}"


@pytest.mark.parametrize(
    ("zone", "change", "expression"),
    [
        pytest.param(zone, change, expression, id=f"{zone}, {kind}: {expression}")
        for zone, change, kind in CHANGES
        for expression in EXPRESSIONS
        if comparable(expression, zone, change)
    ],
)
def test_a_change_of_the_clocks_is_read_as_cronsim_reads_it(zone: str, change: datetime, expression: str) -> None:
    agree(expression, zone, change)


@pytest.mark.parametrize("expression", ["5 * * * *", "30 2 * * *", "*/20 * * * *", "0-30 2 * * *"])
def test_every_way_to_change_the_clocks_is_read_as_cronsim_reads_it(expression: str) -> None:
    for zone, change in windows():
        if comparable(expression, zone, change):
            agree(expression, zone, change)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_random_expressions_agree_with_cronsim(data: st.DataObject) -> None:
    expression = data.draw(expressions)
    zone, change = data.draw(st.sampled_from([*(row[:2] for row in CHANGES), *HISTORIC, *every_change()]))
    assume(comparable(expression, zone, change))
    try:
        CronSim(expression, change)
    except CronSimError:
        assume(False)
    agree(expression, zone, change)


@pytest.mark.parametrize(
    ("expression", "zone", "day", "fires"),
    [
        ("5 * * * *", "Europe/Berlin", "2026-03-29", "00:05 01:05 03:05 04:05"),
        ("*/20 * * * *", "Australia/Lord_Howe", "2026-10-04", "00:00 00:20 00:40 01:00 01:20 01:40 02:40 03:00"),
        ("*/30 2 * * *", "Europe/Berlin", "2026-03-29", ""),
        ("0 */2 * * *", "Europe/Berlin", "2026-03-29", "00:00 04:00"),
        ("30 2 * * *", "Europe/Berlin", "2026-03-29", "03:00"),
        ("0,30 2 * * *", "Europe/Berlin", "2026-03-29", "03:00"),
        ("0-30 2 * * *", "Europe/Berlin", "2026-03-29", "03:00"),
        ("0 2,3 * * *", "Europe/Berlin", "2026-03-29", "03:00"),
        ("0-29 2 * * *", "Australia/Lord_Howe", "2026-10-04", "02:30"),
        ("30 0 * * *", "America/Havana", "2026-03-08", "01:00"),
        ("*/30 0 * * *", "America/Havana", "2026-03-08", ""),
    ],
)
def test_what_fires_after_a_gap(expression: str, zone: str, day: str, fires: str) -> None:
    tz = ZoneInfo(zone)
    evening = datetime.fromisoformat(f"{day}T00:00").replace(tzinfo=UTC) - timedelta(hours=14)
    found = [one.astimezone(tz) for one in by_us(expression, zone, evening, evening + timedelta(hours=40))]
    times = [one.strftime("%H:%M") for one in found if one.strftime("%Y-%m-%d") == day]
    assert [time for time in times if time <= (fires[-5:] or "04:30")] == fires.split()
