"""Schedules as values: what is accepted, when they fire, and what a tick makes of a late cursor."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from croniter import croniter
from hypothesis import given, settings
from hypothesis import strategies as st

from sloppyjobs.errors import InvalidOption, InvalidSchedule
from sloppyjobs.schedules.timetable import (
    MAX_SKIPPED_COUNT,
    MISFIRE_GRACE,
    Misfire,
    Plan,
    Schedule,
    after,
    first,
    missed,
    parse,
    plan,
    preview,
)

NOW = datetime(2026, 5, 4, 12, 0, 30, tzinfo=UTC)  # a Monday
SECOND, MINUTE, HOUR, DAY = (timedelta(**{unit: 1}) for unit in ("seconds", "minutes", "hours", "days"))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def cron(expression: str, **options: object) -> Schedule:
    return parse(cron=expression, now=NOW, **options)  # type: ignore[arg-type]


# What is accepted


@pytest.mark.parametrize("options", [{}, {"cron": "* * * * *", "every": 5}, {"every": 5, "at": NOW}])
def test_exactly_one_of_cron_every_and_at_is_needed(options: dict[str, object]) -> None:
    with pytest.raises(InvalidSchedule, match="exactly one of cron, every and at"):
        parse(now=NOW, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "* * * *",
        "* * * * * *",
        "* * * * * * *",
        "61 * * * *",
        "60 * * * *",
        "-1 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 0 *",
        "* * * 13 *",
        "* * * * 8",
        "* * * MON *",
        "* * * * JAN",
        "JAN * * * *",
        "*/0 * * * *",
        "*/60 * * * *",
        "5/10 * * * *",
        "22-2 * * * *",
        "* * * * FRI-MON",
        "1,,2 * * * *",
        "1, * * * *",
        "R * * * *",
        "R(0-10) * * * *",
        "H * * * *",
        "H/15 * * * *",
        "* * L * *",
        "* * 15W * *",
        "* * * * MON#2",
        "* * ? * *",
        "@reboot",
        "@every 5m",
        "٣ * * * *",
        "* * * * *\x00",
        "0," * 200 + "0 * * * *",
    ],
)
def test_an_expression_outside_classic_cron_is_refused(expression: str) -> None:
    with pytest.raises(InvalidSchedule, match=r"cron.*accepted is"):
        cron(expression)


@pytest.mark.parametrize("expression", ["30 2 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30-31 FEB *"])
def test_an_expression_that_can_never_fire_is_refused(expression: str) -> None:
    with pytest.raises(InvalidSchedule, match="a day that exists"):
        cron(expression)


def test_the_error_names_the_field_the_value_and_what_is_accepted() -> None:
    with pytest.raises(InvalidSchedule, match=r"cron, hour field: '25'; accepted is 0 to 23, "):
        cron("0 25 * * *")


@pytest.mark.parametrize(
    ("alias", "expanded"),
    [
        ("@hourly", "0 * * * *"),
        ("@Daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        (" 0  2 *\t* mon ", "0 2 * * MON"),
    ],
)
def test_an_expression_is_kept_as_five_fields(alias: str, expanded: str) -> None:
    assert cron(alias).cron == expanded


@pytest.mark.parametrize(
    "every",
    [0, 0.5, -1, True, float("nan"), float("inf"), 10**400, "5", 3654 * DAY, timedelta(0), timedelta.max],
)
def test_an_interval_is_between_a_second_and_ten_years(every: object) -> None:
    with pytest.raises(InvalidSchedule, match=r"every.*at least 1 second and at most 10 years"):
        parse(every=every, now=NOW)  # type: ignore[arg-type]


@pytest.mark.parametrize(("every", "seconds"), [(1, 1.0), (1.5, 1.5), (5 * MINUTE, 300.0), (3653 * DAY, 315619200.0)])
def test_an_interval_is_kept_in_seconds(every: float | timedelta, seconds: float) -> None:
    assert parse(every=every, now=NOW) == Schedule("interval", every=seconds)


@pytest.mark.parametrize(
    "at",
    [
        datetime(2026, 1, 1),  # noqa: DTZ001
        "2026-01-01T00:00:00",
        "2026-01-01",
        "tomorrow",
        1767225600,
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        "9998-12-31T23:00:00-12:00",
    ],
)
def test_a_time_without_an_offset_or_out_of_range_is_refused(at: object) -> None:
    with pytest.raises(InvalidSchedule, match=r"^at: "):
        parse(at=at, now=NOW)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "at",
    [
        "2026-06-01T10:00:00+02:00",
        "2026-06-01T08:00:00Z",
        datetime(2026, 6, 1, 10, tzinfo=timezone(2 * HOUR)),
    ],
)
def test_a_time_is_kept_in_utc(at: datetime | str) -> None:
    assert parse(at=at, now=NOW).at == utc("2026-06-01 08:00")


@pytest.mark.parametrize(
    "name",
    [
        "Mars/Olympus",
        "",
        "America",
        "../UTC",
        "/etc/passwd",
        "a\0b",
        "\ud800",
        "right/UTC",
        "localtime",
        "x" * 5000,
        7,
    ],
)
def test_an_unknown_zone_is_refused(name: object) -> None:
    for options in ({"cron": "* * * * *"}, {"every": 5}):
        with pytest.raises(InvalidSchedule, match=r"timezone.*IANA name"):
            parse(timezone=name, now=NOW, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [0, 1001, -1, True, 1.5, "3"])
def test_the_catch_up_limit_is_between_1_and_1000(limit: object) -> None:
    with pytest.raises(InvalidSchedule, match=r"catch_up_limit.*1 to 1000"):
        cron("* * * * *", catch_up_limit=limit)


def test_an_unknown_misfire_policy_is_refused() -> None:
    with pytest.raises(
        InvalidSchedule, match="misfire: 'later'; accepted is one of run-once, catch-up-limited, ignore"
    ):
        cron("* * * * *", misfire="later")


def test_a_naive_now_is_refused() -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001
    with pytest.raises(InvalidOption, match=r"now.*aware"):
        parse(cron="* * * * *", now=naive)
    with pytest.raises(InvalidOption, match=r"cursor.*aware"):
        plan(cron("* * * * *"), naive, NOW)


@pytest.mark.parametrize(
    "corrupt",
    [
        Schedule("cron"),
        Schedule("cron", cron="H H * * *"),
        Schedule("cron", cron="* * * * *", timezone="Nowhere/Else"),
        Schedule("interval"),
        Schedule("interval", every=0),
        Schedule("cron", cron="* * * * *", misfire=Misfire.CATCH_UP_LIMITED, catch_up_limit=10**9),
    ],
)
def test_a_corrupt_schedule_is_reported_when_it_is_used(corrupt: Schedule) -> None:
    with pytest.raises(InvalidSchedule):
        plan(corrupt, NOW - HOUR, NOW)


# When they fire


def upcoming(expression: str, count: int = 4, now: datetime = NOW, **options: object) -> list[str]:
    return [f"{t:%m-%d %H:%M}" for t in preview(cron(expression, **options), now, count)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 0 13 * FRI", ["05-08 00:00", "05-13 00:00", "05-15 00:00", "05-22 00:00"]),
        ("0 0 13 * *", ["05-13 00:00", "06-13 00:00", "07-13 00:00", "08-13 00:00"]),
        ("0 0 * * 7", ["05-10 00:00", "05-17 00:00", "05-24 00:00", "05-31 00:00"]),
        ("0 0 * * SUN", ["05-10 00:00", "05-17 00:00", "05-24 00:00", "05-31 00:00"]),
        ("0 0 * * SAT-SUN", ["05-09 00:00", "05-10 00:00", "05-16 00:00", "05-17 00:00"]),
        ("0 0 * * 5-7", ["05-08 00:00", "05-09 00:00", "05-10 00:00", "05-15 00:00"]),
        ("0 0 1 JAN,jul *", ["07-01 00:00", "01-01 00:00", "07-01 00:00", "01-01 00:00"]),
        ("0 0 31 * *", ["05-31 00:00", "07-31 00:00", "08-31 00:00", "10-31 00:00"]),
        ("0-0 9 * * *", ["05-05 09:00", "05-06 09:00", "05-07 09:00", "05-08 09:00"]),
        ("10-40/15 12 * * *", ["05-04 12:10", "05-04 12:25", "05-04 12:40", "05-05 12:10"]),
    ],
)
def test_cron_reads_as_its_manual_says(expression: str, expected: list[str]) -> None:
    assert upcoming(expression) == expected


def test_either_day_matches_even_where_a_list_names_every_day() -> None:
    assert upcoming("0 0 1-31 * MON", 3) == ["05-05 00:00", "05-06 00:00", "05-07 00:00"]
    assert upcoming("0 0 13 * 0-6", 3) == ["05-05 00:00", "05-06 00:00", "05-07 00:00"]


def test_an_impossible_day_leaves_the_weekday() -> None:
    assert upcoming("0 0 30 2 MON", 3) == ["02-01 00:00", "02-08 00:00", "02-15 00:00"]


def test_a_leap_day_is_found_across_a_century() -> None:
    assert after(cron("0 0 29 2 *"), utc("2096-03-01")) == utc("2104-02-29")


def test_cron_is_strictly_after() -> None:
    on_time = utc("2026-05-05 02:00")
    assert after(cron("0 2 * * *"), on_time) == on_time + DAY
    assert after(cron("0 2 * * *"), on_time - timedelta(microseconds=1)) == on_time


def test_the_calendar_ends() -> None:
    assert after(cron("0 0 1 1 *"), utc("9998-06-01")) is None
    assert after(parse(every=1, now=NOW), utc("9998-12-31 23:59:59")) is None
    assert len(preview(cron("0 0 29 2 *", timezone="Pacific/Kiritimati"), utc("9990-01-01"), 5)) == 2
    with pytest.raises(InvalidSchedule, match="before the year"):
        parse(cron="0 0 1 1 *", now=utc("9998-06-01"))


def test_a_fixed_time_fires_once_on_the_day_the_clocks_go_back() -> None:
    paris = upcoming("30 2 * * *", 3, utc("2026-10-24 12:00"), timezone="Europe/Paris")
    assert paris == ["10-25 00:30", "10-26 01:30", "10-27 01:30"]


def test_a_skipped_time_fires_once_when_the_gap_ends() -> None:
    paris = upcoming("30 2 * * *", 3, utc("2026-03-28 12:00"), timezone="Europe/Paris")
    assert paris == ["03-29 01:00", "03-30 00:30", "03-31 00:30"]
    every_quarter = upcoming("*/15 * * * *", 5, utc("2026-03-29 00:30"), timezone="Europe/Paris")
    assert every_quarter == ["03-29 00:45", "03-29 01:00", "03-29 01:15", "03-29 01:30", "03-29 01:45"]


@pytest.mark.parametrize("expression", ["*/15 * * * *", "0 * * * *", "30 * * * *"])
def test_a_repeating_time_follows_real_time_when_the_clocks_go_back(expression: str) -> None:
    fires = preview(cron(expression, timezone="Europe/Paris"), utc("2026-10-24 22:00"), 24)
    assert len({later - earlier for earlier, later in pairwise(fires)}) == 1


def test_half_an_hour_of_daylight_saving_is_enough_to_matter() -> None:
    spring = upcoming("15 2 * * *", 2, utc("2026-10-03 00:00"), timezone="Australia/Lord_Howe")
    assert spring == ["10-03 15:30", "10-04 15:15"]
    autumn = upcoming("45 1 * * *", 2, utc("2026-04-04 00:00"), timezone="Australia/Lord_Howe")
    assert autumn == ["04-04 14:45", "04-05 15:15"]


def test_a_day_that_never_was_fires_once_when_it_is_over() -> None:
    assert preview(cron("0 12 30 12 *", timezone="Pacific/Apia"), utc("2011-12-29"), 1) == [utc("2011-12-30 10:00")]


def test_midnight_can_be_skipped() -> None:
    cairo = upcoming("0 0 * * *", 2, utc("2026-04-23 12:00"), timezone="Africa/Cairo")
    assert cairo == ["04-23 22:00", "04-24 21:00"]


@settings(deadline=None)
@given(
    st.datetimes(datetime(1990, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    st.timedeltas(timedelta(0), timedelta(days=30)),
    st.sampled_from(["30 2 * * *", "*/20 1-3 * * *", "0 0 29 2 *", "15 */6 1,31 * SUN"]),
    st.sampled_from(["UTC", "Europe/Paris", "Australia/Lord_Howe", "America/St_Johns", "Africa/Casablanca"]),
)
def test_every_start_finds_the_same_occurrences(start: datetime, shift: timedelta, expression: str, zone: str) -> None:
    schedule = cron(expression, timezone=zone)
    from_start = preview(schedule, start, 30)
    assert all(earlier < later for earlier, later in pairwise([start, *from_start]))
    assert all(after(schedule, earlier) == later for earlier, later in pairwise(from_start))
    rest = [occurrence for occurrence in from_start if occurrence > start + shift]
    assert not rest or preview(schedule, start + shift, len(rest)) == rest


def test_an_interval_starts_one_step_from_now() -> None:
    schedule = parse(every=300, now=NOW)
    assert first(schedule, NOW) == NOW + 5 * MINUTE
    assert preview(schedule, NOW, 3) == [NOW + 5 * MINUTE, NOW + 10 * MINUTE, NOW + 15 * MINUTE]


@settings(deadline=None)
@given(
    st.floats(1, 1e7),
    st.timedeltas(timedelta(days=-400), timedelta(days=400)),
)
def test_an_interval_never_leaves_its_grid(every: float, lag: timedelta) -> None:
    schedule = parse(every=every, now=NOW)
    found = after(schedule, NOW + lag, anchor=NOW)
    step = timedelta(seconds=schedule.every or 0)
    assert found is not None
    assert NOW + lag < found <= NOW + lag + step
    assert (found - NOW) % step == timedelta(0)


def test_once_has_one_occurrence_even_in_the_past() -> None:
    schedule = parse(at=NOW - DAY, now=NOW)
    assert first(schedule, NOW) == NOW - DAY
    assert after(schedule, NOW - 2 * DAY) is None
    assert preview(schedule, NOW, 5) == [NOW - DAY]


@pytest.mark.parametrize("count", [0, -1, 1001, True])
def test_a_preview_is_bounded(count: int) -> None:
    with pytest.raises(InvalidOption, match="1 to 1000"):
        preview(cron("* * * * *"), NOW, count)


# What a tick makes of a cursor


@pytest.mark.parametrize("misfire", list(Misfire))
@pytest.mark.parametrize("options", [{"cron": "* * * * *"}, {"every": 60}, {"at": NOW + SECOND}])
def test_nothing_fires_before_its_time(options: dict[str, object], misfire: Misfire) -> None:
    schedule = parse(now=NOW, misfire=misfire, **options)  # type: ignore[arg-type]
    cursor = first(schedule, NOW)
    assert plan(schedule, cursor, cursor - timedelta(microseconds=1)) == Plan((), 0, False, cursor)


@pytest.mark.parametrize("misfire", list(Misfire))
@pytest.mark.parametrize("late", [timedelta(0), SECOND, 59 * SECOND])
@pytest.mark.parametrize("options", [{"cron": "* * * * *"}, {"every": 60}])
def test_a_punctual_tick_fires_under_every_policy(
    options: dict[str, object], late: timedelta, misfire: Misfire
) -> None:
    schedule = parse(now=NOW, misfire=misfire, **options)  # type: ignore[arg-type]
    cursor = first(schedule, NOW)
    assert plan(schedule, cursor, cursor + late) == Plan((cursor,), 0, False, cursor + MINUTE)


@pytest.mark.parametrize("options", [{"cron": "0 * * * *"}, {"every": 3600}])
@pytest.mark.parametrize(("misfire", "fired"), [("run-once", [5]), ("catch-up-limited", [3, 4, 5]), ("ignore", [])])
def test_downtime_is_treated_as_the_policy_says(options: dict[str, object], misfire: str, fired: list[int]) -> None:
    schedule = parse(now=NOW, misfire=misfire, catch_up_limit=3, **options)  # type: ignore[arg-type]
    cursor = utc("2026-05-05 00:00")
    expected = tuple(cursor + n * HOUR for n in fired)
    planned = plan(schedule, cursor, cursor + 5 * HOUR + 30 * MINUTE)
    assert planned == Plan(expected, 6 - len(fired), False, cursor + 6 * HOUR)
    assert planned.last_skipped == (expected[0] - HOUR if fired else cursor + 5 * HOUR)


@pytest.mark.parametrize("options", [{"cron": "0 * * * *"}, {"every": 3600}])
def test_what_came_due_is_counted_without_firing_it(options: dict[str, object]) -> None:
    schedule = parse(now=NOW, **options)  # type: ignore[arg-type]
    cursor = utc("2026-05-05 00:00")
    assert missed(schedule, cursor, cursor - SECOND) is None
    assert missed(schedule, cursor, cursor) == (cursor, cursor, 1, False)
    assert missed(schedule, cursor, cursor + 5 * HOUR + MINUTE) == (cursor, cursor + 5 * HOUR, 6, False)


def test_what_came_due_is_not_counted_for_ever() -> None:
    found = missed(cron("* * * * *"), NOW - 365 * DAY, NOW)
    assert found is not None
    assert (found.first, found.number, found.more) == (NOW - 365 * DAY, MAX_SKIPPED_COUNT, True)


def test_ignore_still_fires_what_came_due_just_now() -> None:
    schedule = cron("0 * * * *", misfire="ignore")
    cursor = utc("2026-05-05 00:00")
    on_time = cursor + 5 * HOUR
    assert plan(schedule, cursor, on_time + MISFIRE_GRACE).fire == (on_time,)
    assert plan(schedule, cursor, on_time + MISFIRE_GRACE + timedelta(microseconds=1)).fire == ()


@pytest.mark.parametrize(("misfire", "fires"), [("run-once", True), ("catch-up-limited", True), ("ignore", False)])
def test_a_late_once_fires_unless_ignored_and_has_no_successor(misfire: str, fires: bool) -> None:
    schedule = parse(at=NOW - DAY, misfire=misfire, now=NOW)
    fired = (NOW - DAY,) if fires else ()
    assert plan(schedule, NOW - DAY, NOW) == Plan(fired, 1 - len(fired), False, None)


def test_a_cursor_that_a_changed_expression_no_longer_names_still_fires() -> None:
    cursor = utc("2026-05-05 02:00")
    assert plan(cron("0 5 * * *"), cursor, cursor + MINUTE) == Plan((cursor,), 0, False, cursor + 3 * HOUR)


def test_an_interval_does_not_drift_when_ticks_are_late() -> None:
    schedule = parse(every=10, now=NOW)
    cursor = start = first(schedule, NOW)
    for n in range(50):
        following = plan(schedule, cursor, cursor + timedelta(seconds=n % 9, milliseconds=7)).next_run_at
        assert following is not None
        cursor = following
    assert cursor == start + 500 * SECOND


@pytest.mark.parametrize("misfire", list(Misfire))
def test_a_year_of_downtime_costs_a_bounded_number_of_steps(monkeypatch: pytest.MonkeyPatch, misfire: Misfire) -> None:
    steps = 0

    class Counting(croniter):  # type: ignore[misc]
        def _get_next(self, *args: object, **kwargs: object) -> object:
            nonlocal steps
            steps += 1
            return super()._get_next(*args, **kwargs)

    monkeypatch.setattr("croniter.croniter", Counting)
    schedule = cron("* * * * *", misfire=misfire, timezone="Europe/Paris")
    now = utc("2026-10-25 01:30:20")  # in the hour that Paris sees twice
    steps = 0
    planned = plan(schedule, now - 365 * DAY, now)
    newest = now.replace(second=0)
    wanted = 10 if misfire is Misfire.CATCH_UP_LIMITED else 1
    assert planned.fire == tuple(newest - n * MINUTE for n in reversed(range(wanted)))
    assert (planned.skipped, planned.skipped_capped) == (MAX_SKIPPED_COUNT, True)
    assert planned.next_run_at == newest + MINUTE
    assert 0 < steps < 400


def test_a_year_of_downtime_of_an_interval_is_counted_exactly() -> None:
    schedule = parse(every=1, misfire="catch-up-limited", catch_up_limit=1000, now=NOW)
    planned = plan(schedule, NOW - 365 * DAY, NOW)
    assert planned.fire == tuple(NOW - n * SECOND for n in reversed(range(1000)))
    assert (planned.skipped, planned.skipped_capped) == (365 * 86400 + 1 - 1000, False)
