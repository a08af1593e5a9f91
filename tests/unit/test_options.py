"""What callers pass in is taken as it is meant, or refused by name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sloppyjobs import options
from sloppyjobs.errors import InvalidOption, JobsError
from sloppyjobs.jobs import Jobs


def test_a_refusal_names_the_option_the_value_and_what_works() -> None:
    with pytest.raises(InvalidOption, match=r"^max_attempts=0: must be from 1 to 10$") as refused:
        options.whole("max_attempts", 0, least=1, most=10)
    assert isinstance(refused.value, JobsError)
    assert isinstance(refused.value, ValueError)


def test_a_refusal_does_not_repeat_megabytes() -> None:
    with pytest.raises(InvalidOption) as refused:
        options.text("queue", "x" * 1_000_000)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("value", ["a", "a b", " a", "ä", "🎉", "a\u202eb", "x" * 128, "漢" * 128, "-", "0"])
def test_text_is_taken_as_it_is(value: str) -> None:
    assert options.text("name", value) == value


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "\t\n",
        "\u200b",
        "\u2028",
        "\ufeff\u00a0",
        "a\0b",
        "\0",
        "\ud800",
        "a\udfff",
        "x" * 129,
        None,
        1,
        b"a",
        ["a"],
    ],
)
def test_text_that_nobody_could_see_or_store_is_refused(value: Any) -> None:
    with pytest.raises(InvalidOption, match=r"^name="):
        options.text("name", value)


@given(st.text(max_size=200))
def test_text_that_is_taken_can_be_stored_everywhere(value: str) -> None:
    try:
        taken = options.text("name", value)
    except InvalidOption:
        return
    assert taken == value
    assert "\0" not in taken
    assert taken.strip()
    assert 1 <= len(taken) <= 128
    taken.encode()


def test_a_key_may_be_left_out_and_is_longer_than_a_name() -> None:
    assert options.key("key", None) is None
    assert options.key("key", "k" * 255) == "k" * 255
    with pytest.raises(InvalidOption):
        options.key("key", "k" * 256)


@pytest.mark.parametrize(
    ("value", "expected"), [(0, 0.0), (1, 1.0), (0.25, 0.25), (timedelta(minutes=1), 60.0), (True + 1, 2.0)]
)
def test_seconds_come_as_numbers_and_timedeltas(value: Any, expected: float) -> None:
    assert options.seconds("delay", value) == expected


@pytest.mark.parametrize(
    "value",
    [
        *(-1, -0.001, float("nan"), float("inf"), float("-inf"), 10**400, -(10**400), 1e300),
        *(timedelta(-1), timedelta.max),
        *(True, "1", None, [], 1j),
    ],
)
def test_seconds_that_are_no_duration_are_refused(value: Any) -> None:
    with pytest.raises(InvalidOption, match=r"^delay="):
        options.seconds("delay", value)


def test_zero_seconds_can_be_refused() -> None:
    with pytest.raises(InvalidOption, match="more than 0"):
        options.seconds("lease", 0, zero=False)


@pytest.mark.parametrize(
    "value",
    [
        datetime(2030, 1, 31, 9, tzinfo=UTC),
        datetime(2030, 1, 31, 14, 30, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        "2030-01-31T09:00:00Z",
        "2030-01-31T10:00:00+01:00",
        "20300131T090000+0000",
    ],
)
def test_an_instant_is_answered_in_utc(value: Any) -> None:
    instant = options.instant("run_at", value)
    assert instant == datetime(2030, 1, 31, 9, tzinfo=UTC)
    assert instant.tzinfo is UTC


@pytest.mark.parametrize(
    "value",
    [
        *(datetime(2030, 1, 1), "2030-01-01", "2030-01-01T00:00:00", "soon", "", 0, None),  # noqa: DTZ001
        *(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), "0999-12-31T00:00:00Z"),
    ],
)
def test_an_instant_without_a_zone_or_outside_of_history_is_refused(value: Any) -> None:
    with pytest.raises(InvalidOption, match=r"^run_at="):
        options.instant("run_at", value)


@given(st.datetimes(timezones=st.timezones()))
def test_an_instant_is_taken_or_refused_and_never_overflows(value: datetime) -> None:
    try:
        # By timestamp: between zones, Python calls an hour that a clock shows twice equal to nothing.
        assert options.instant("run_at", value).timestamp() == value.timestamp()
    except InvalidOption:
        assert not 1000 <= value.year <= 9998


@pytest.mark.parametrize("value", [True, 1.0, "1", None, 2**31, -(2**31)])
def test_what_is_no_whole_number_of_32_bits_is_refused(value: Any) -> None:
    with pytest.raises(InvalidOption):
        options.whole("priority", value)


def test_names_are_a_list_and_never_the_letters_of_a_text() -> None:
    assert options.names("queues", ["a", "b"]) == ("a", "b")
    with pytest.raises(InvalidOption, match=r"queues=\('mail',\)"):
        options.names("queues", "mail")
    for value in ([], None, 5, [""], ["a", 5]):
        with pytest.raises(InvalidOption):
            options.names("queues", value)


def test_one_of_says_which() -> None:
    assert options.one_of("isolation", "thread", ("thread", "process")) == "thread"
    with pytest.raises(InvalidOption, match="must be one of 'thread', 'process'"):
        options.one_of("isolation", "fibre", ("thread", "process"))


def test_every_queue_is_no_queue_for_a_job() -> None:
    jobs = Jobs("sqlite://")
    for use in (
        lambda: jobs.declare("greet", queue="*"),
        lambda: jobs.define("greet", lambda _ctx, _payload: None, queue="*"),
    ):
        with pytest.raises(InvalidOption, match=r"queue='\*': must be the name of one queue"):
            use()
