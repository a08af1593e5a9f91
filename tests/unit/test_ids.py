"""Ids sort by creation, never repeat and can be read back."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sloppyjobs.ids import Ids, is_id, occurrence, time_of

NOW = 1_767_225_600_123  # 2026-01-01T00:00:00.123Z
INSTANTS = st.datetimes(timezones=st.just(UTC)).filter(lambda instant: instant.year >= 1970)


def at(ms: int) -> Ids:
    return Ids(lambda: ms)


def test_an_id_is_its_prefix_an_underscore_and_26_characters() -> None:
    prefix, _, body = at(NOW).new("job").partition("_")
    assert prefix == "job"
    assert len(body) == 26
    assert set(body) <= set("0123456789abcdefghjkmnpqrstvwxyz")


def test_the_time_is_read_back_to_the_millisecond() -> None:
    assert time_of(at(NOW).new("job")) == datetime(2026, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC)


@given(INSTANTS)
def test_any_time_is_read_back(instant: datetime) -> None:
    ms = (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    expected = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    assert time_of(at(ms).new("worker")) == expected


def test_version_and_variant_are_those_of_uuid_version_7() -> None:
    digits = str.maketrans("0123456789abcdefghjkmnpqrstvwxyz", "0123456789abcdefghijklmnopqrstuv")
    ids = at(NOW)
    for id in [*ids.many("job", 100), *(ids.new("job") for _ in range(100))]:
        value = int(id[4:].translate(digits), 32)
        assert (value >> 76) & 0xF == 7
        assert (value >> 62) & 0b11 == 0b10


def test_ids_of_one_millisecond_ascend() -> None:
    ids = at(NOW)
    made = [ids.new("job") for _ in range(2000)]
    assert made == sorted(set(made))


def test_ids_that_are_made_alone_and_together_ascend() -> None:
    ids = at(NOW)
    made = [id for number in range(1, 100) for id in (ids.new("job"), *ids.many("job", number % 3))]
    assert made == sorted(set(made))


def test_a_full_counter_carries_into_the_next_millisecond() -> None:
    made = at(NOW).many("job", 10_000)
    assert made == sorted(set(made))
    assert time_of(made[4095]) == time_of(made[0])
    assert time_of(made[4096]) - time_of(made[0]) == timedelta(milliseconds=1)


@given(st.lists(st.tuples(st.integers(-(10**6), 2**47), st.integers(1, 50)), max_size=20))
def test_ids_ascend_whatever_the_clock_does(steps: list[tuple[int, int]]) -> None:
    now = 0
    ids = Ids(lambda: now)
    made: list[str] = []
    for ms, count in steps:
        now = ms
        made += [ids.new("job"), *ids.many("job", count)]
    assert made == sorted(set(made))


def test_many_of_none_is_empty() -> None:
    assert at(NOW).many("job", 0) == []


def test_ids_differ_and_ascend_within_each_of_many_threads() -> None:
    ids = at(NOW)
    made: list[list[str]] = []

    def work() -> None:
        made.append([ids.new("job") for _ in range(500)])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(own == sorted(own) for own in made)
    assert len({id for own in made for id in own}) == 8 * 500


def test_a_forked_child_makes_other_ids_than_its_parent() -> None:
    ids = at(NOW)
    ids.new("job")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, "\n".join(ids.many("job", 50)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        theirs = set(pipe.read().split("\n"))
    os.waitpid(child, 0)
    assert len(theirs) == 50
    assert theirs.isdisjoint(ids.many("job", 50))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "job",
        "job_",
        "job_0123",
        "job_" + "0" * 27,
        "job_8" + "0" * 25,
        "job_" + "u" * 26,
        "job_" + "0" * 25 + "\n",
        "JOB_" + "0" * 26,
        "_" + "0" * 26,
    ],
)
def test_a_malformed_id_is_refused_by_name(text: str) -> None:
    assert not is_id(text, "job")
    with pytest.raises(ValueError) as error:
        time_of(text)
    assert repr(text) in str(error.value)


def test_upper_case_is_not_the_one_form_of_an_id() -> None:
    id = at(NOW).new("job")
    assert not is_id("job_" + id[4:].upper(), "job")


def test_a_time_after_the_year_9999_is_refused() -> None:
    with pytest.raises(ValueError, match="9999"):
        time_of(at(2**48 - 1).new("job"))


def test_an_id_belongs_to_one_prefix() -> None:
    id = at(NOW).new("worker")
    assert is_id(id, "worker")
    assert not is_id(id, "job")


def test_an_occurrence_has_one_id_for_everybody() -> None:
    instant = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    id = occurrence("recurring_x", instant)
    assert id == "job_" + id[4:]
    assert is_id(id, "job")
    assert id == occurrence("recurring_x", instant.astimezone(timezone(timedelta(hours=5, minutes=30))))


def test_the_id_of_an_occurrence_never_changes_between_releases() -> None:
    assert occurrence("recurring_x", datetime(2026, 1, 1, tzinfo=UTC)) == "job_649ygt7dgcb64v87194ee8s7xv"


def test_other_schedules_and_other_instants_have_other_ids() -> None:
    instant = datetime(2026, 1, 1, tzinfo=UTC)
    ids = {occurrence(s, instant + timedelta(microseconds=us)) for s in ("a", "b") for us in range(100)}
    assert len(ids) == 200


def test_an_occurrence_carries_no_time() -> None:
    with pytest.raises(ValueError, match="version 7"):
        time_of(occurrence("recurring_x", datetime(2026, 1, 1, tzinfo=UTC)))


def test_a_naive_occurrence_is_refused() -> None:
    with pytest.raises(ValueError, match="aware"):
        occurrence("recurring_x", datetime(2026, 1, 1))  # noqa: DTZ001
