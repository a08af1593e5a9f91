"""What callers pass in is taken as it is meant, or refused by name."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sloppyjobs import Retry, Status, retention
from sloppyjobs.domain import options, payload
from sloppyjobs.domain.states import check
from sloppyjobs.errors import InvalidOption, InvalidPayload, InvalidSchedule, InvalidTransition, JobsError
from sloppyjobs.jobs import Jobs
from sloppyjobs.schedules import timetable


def test_a_refusal_names_the_option_the_value_and_what_works() -> None:
    with pytest.raises(InvalidOption, match=r"^max_attempts=0: must be from 1 to 10$") as refused:
        options.whole("max_attempts", 0, least=1, most=10)
    assert isinstance(refused.value, JobsError)
    assert isinstance(refused.value, ValueError)


def test_programs_read_which_option_and_why() -> None:
    with pytest.raises(InvalidOption) as refused:
        options.whole("max_attempts", 0, least=1, most=10)
    assert (refused.value.field, refused.value.reason) == ("max_attempts", "must be from 1 to 10")
    again = pickle.loads(pickle.dumps(refused.value))
    assert (str(again), again.field, again.reason) == (str(refused.value), "max_attempts", "must be from 1 to 10")
    plain = InvalidOption("delay and run_at exclude each other")
    assert (plain.field, plain.reason) == (None, None)


NOW = datetime(2026, 1, 1, tzinfo=UTC)
REFUSALS: list[tuple[Callable[[], object], str, str]] = [
    (lambda: options.text("queue", "a: b\0"), "queue", "must not contain the NUL character"),
    (lambda: options.instant("run_at", "1: 2"), "run_at", "is not ISO 8601 text, such as 2030-01-31T09:00:00+01:00"),
    (lambda: Retry(max_attempts=0), "max_attempts", "expected"),
    (lambda: retention._ages({"queued": 1}), "ages", "only finished jobs are deleted"),
    (lambda: timetable.parse(cron="99 * * * *", now=NOW), "cron", "0 to 59"),
    (lambda: timetable.parse(every=0, now=NOW), "every", "seconds or a timedelta"),
    (lambda: timetable.parse(cron="* * * * *", timezone="Mars", now=NOW), "timezone", "an IANA name"),
    (lambda: payload.encode({"a": [1, object()]}), "payload.a[1]", "a value of type object"),
    (lambda: payload.convert({"n": "1"}, dict[str, int]), "payload[...]", "Expected `int`"),
    (lambda: payload.encode("x" * 20, 10), "payload", "too large"),
]


@pytest.mark.parametrize(("refuse", "field", "reason"), REFUSALS)
def test_every_refusal_of_a_value_says_so(refuse: Callable[[], object], field: str, reason: str) -> None:
    with pytest.raises((InvalidOption, InvalidSchedule, InvalidPayload)) as refused:
        refuse()
    assert refused.value.field == field
    assert refused.value.reason is not None
    assert refused.value.reason.startswith(reason)
    assert refused.value.reason in str(refused.value)


def test_an_unknown_option_is_the_field() -> None:
    with pytest.raises(InvalidOption) as refused:
        Jobs("sqlite://").enqueue("greet", {}, prioriti=1)  # type: ignore[call-arg]
    assert (refused.value.field, refused.value.reason) == (
        "prioriti",
        "is no option of enqueue. Did you mean 'priority'?",
    )


def test_a_transition_that_is_refused_says_what_the_job_is() -> None:
    with pytest.raises(InvalidTransition) as refused:
        check(Status.DELETED, Status.QUEUED, "job job_1")
    assert (refused.value.status, refused.value.command) == (Status.DELETED, None)
    again = pickle.loads(pickle.dumps(refused.value))
    assert (str(again), again.status) == (str(refused.value), Status.DELETED)


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


@pytest.mark.parametrize(
    ("item", "field"),
    [
        (("greet", {}, {"priority": "high"}), "items[1].priority"),
        (("greet", {"at": object()}), "items[1].payload.at"),
    ],
)
def test_a_refused_item_of_a_bulk_call_names_its_place_and_its_field(item: Any, field: str) -> None:
    jobs = Jobs("sqlite://")
    jobs.declare("greet")
    with pytest.raises((InvalidOption, InvalidPayload), match=r"items\[1\]: ") as refused:
        jobs.enqueue_many([("greet", {}), item])
    assert refused.value.field == field
    assert refused.value.reason is not None
