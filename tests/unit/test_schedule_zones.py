"""Cron in time zones, against a model that knows nothing of the implementation.

The model looks at every minute of real time around a change of the clocks and asks what a wall clock showed.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from clock_changes import HISTORIC, MINUTE, changes, changing_zones, every_change, expressions, windows
from hypothesis import given, settings
from hypothesis import strategies as st

from sloppyjobs.schedules.timetable import MAX_CATCH_UP, Schedule, after, plan, preview

REACH = timedelta(hours=5)
FREE = ("*", "*/1")
NAMES = {
    name: str(n)
    for names, start in (
        (("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"), 1),
        (("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"), 0),
    )
    for n, name in enumerate(names, start=start)
}

EXPRESSIONS = [
    "30 2 * * *",
    "0 0 * * *",
    "0 0,1,2,3 * * *",
    "59 23 * * *",
    "0,15,30,45 0-4 * * *",
    "0 * * * *",
    "30 * * * *",
    "*/15 * * * *",
    "*/30 2 * * *",
    "0 */2 * * *",
    "5-50/20 1-3 * * *",
    "30 1,2 * * SUN",
    "15 0-3 1-7,25-31 MAR,OCT,NOV *",
    "45 2 31 * 0,6",
]


def field(text: str, low: int, high: int) -> set[int]:
    """What one field matches, by the manual page of cron."""
    values: set[int] = set()
    for item in text.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        if span == "*":
            first, last = str(low), str(high)
        numbers = [int(NAMES.get(end, end)) for end in (first, last or first)]
        values.update(n for n in range(numbers[0], numbers[1] + 1) if (n - numbers[0]) % int(step or 1) == 0)
    return values


class Matcher:
    def __init__(self, expression: str) -> None:
        texts = expression.split()
        self.minutes, self.hours, self.days, self.months = (
            field(t, *b) for t, b in zip(texts, ((0, 59), (0, 23), (1, 31), (1, 12)), strict=False)
        )
        self.weekdays = {n % 7 for n in field(texts[4], 0, 6)}
        self.either_day = texts[2] not in FREE and texts[4] not in FREE
        self.repeats = any(mark in texts[0] + texts[1] for mark in "*/")

    def __call__(self, local: datetime) -> bool:
        if local.minute not in self.minutes or local.hour not in self.hours or local.month not in self.months:
            return False
        day, weekday = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        return (day or weekday) if self.either_day else (day and weekday)


@cache
def wall_clock(zone: str, start: datetime, end: datetime) -> list[tuple[datetime, datetime, bool, list[datetime]]]:
    """For every minute: the instant, the local time, whether it is shown again, and what was skipped."""
    rows = []
    tz = ZoneInfo(zone)
    before = (start - MINUTE).astimezone(tz).replace(tzinfo=None)
    for n in range(int((end - start) / MINUTE) + 1):
        instant = start + n * MINUTE
        shown = instant.astimezone(tz)
        local = shown.replace(tzinfo=None, fold=0)
        skipped = [before + m * MINUTE for m in range(1, int((local - before) / MINUTE))]
        rows.append((instant, local, shown.fold == 1, skipped))
        before = local
    return rows


def model(expression: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    matches = Matcher(expression)
    return [
        instant
        for instant, local, second_time, skipped in wall_clock(zone, start, end)
        if (matches(local) and (matches.repeats or not second_time))
        or (not matches.repeats and any(map(matches, skipped)))
    ]


def check(expression: str, zone: str, start: datetime, end: datetime) -> None:
    expected = model(expression, zone, start, end)
    schedule = Schedule("cron", cron=expression, timezone=zone, misfire="catch-up-limited", catch_up_limit=MAX_CATCH_UP)
    forwards = preview(schedule, start - MINUTE, len(expected) + 1)
    label = f"{expression} in {zone} from {start}"
    assert forwards[: len(expected)] == expected, label
    assert forwards[len(expected)] > end, label
    if expected:
        backwards = plan(schedule, expected[0], end)
        assert list(backwards.fire) == expected, label
        assert backwards.next_run_at == forwards[-1], label


def check_from(instant: datetime, expression: str, zone: str, start: datetime, end: datetime) -> None:
    expected = model(expression, zone, start, end)
    schedule = Schedule("cron", cron=expression, timezone=zone, misfire="catch-up-limited", catch_up_limit=MAX_CATCH_UP)
    later = [occurrence for occurrence in expected if occurrence > instant]
    found = after(schedule, instant)
    assert found is not None
    assert found > instant
    assert found == later[0] if later else found > end
    earlier = [occurrence for occurrence in expected if occurrence <= instant]
    if earlier:
        planned = plan(schedule, earlier[0], instant)
        assert list(planned.fire) == earlier
        assert planned.next_run_at == found


def test_there_are_changes_to_test() -> None:
    sizes = {abs(behind - before) for zone in changing_zones() for _, before, behind in changes(zone)}
    assert sizes >= {timedelta(minutes=30), timedelta(hours=1), timedelta(hours=2)}
    assert len(changing_zones()) > 25
    assert len(windows()) > 40


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_way_to_change_the_clocks_agrees_with_the_model(expression: str) -> None:
    for zone, instant in windows():
        check(expression, zone, instant - REACH, instant + REACH)


def test_every_change_of_every_zone_agrees_with_the_model() -> None:
    for zone in changing_zones():
        for instant, before, behind in changes(zone):
            # Half way into the gap or overlap: once as a fixed time, once as a repeating one.
            local = instant + min(before, behind) + abs(behind - before) / 2
            start, end = instant - timedelta(hours=1), instant + timedelta(hours=2)
            check(f"{local.minute} {local.hour} * * *", zone, start, end)
            check(f"{local.minute} * {local.day} * *", zone, start, end)


@pytest.mark.parametrize("expression", ["10,50 * * * *", "5,35,55 0-4,22,23 * * *", "*/20 2 * * *"])
def test_every_instant_near_a_change_agrees_with_the_model(expression: str) -> None:
    for zone, change in windows():
        for minutes in range(-125, 126, 10):
            instant = change + timedelta(minutes=minutes, seconds=20)
            check_from(instant, expression, zone, change - REACH, change + REACH)


def never_fires(expression: str) -> bool:
    _, _, day, month, weekday = expression.split()
    leap_year = ((d, monthrange(2024, m)[1]) for d in field(day, 1, 31) for m in field(month, 1, 12))
    return weekday in FREE and all(d > last for d, last in leap_year)


@settings(max_examples=500, deadline=None)
@given(data=st.data())
def test_random_expressions_agree_with_the_model_from_any_instant(data: st.DataObject) -> None:
    expression = data.draw(expressions.filter(lambda text: not never_fires(text)))
    zone, change = data.draw(st.sampled_from([*HISTORIC, *every_change()]))
    start, end = change - REACH, change + REACH
    seconds = data.draw(st.integers(0, int((end - start).total_seconds())))
    instant = start + timedelta(seconds=seconds)
    check_from(instant, expression, zone, start, end)
