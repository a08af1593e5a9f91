"""The keys of occurrences, and rows whose instants somebody wrote by hand."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from sloppyjobs import storage as storages
from sloppyjobs.jobs import Jobs
from sloppyjobs.schedules.occurrences import occurrence_key, occurrence_keys
from sloppyjobs.storage import FakeClock

START = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)

names = st.text(alphabet=st.sampled_from("@@ab0:é "), min_size=1, max_size=128)
instants = st.datetimes(datetime(1900, 1, 1), datetime(9998, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def test_a_key_is_readable() -> None:
    assert occurrence_key("nightly", START) == "recurring:nightly@2030-01-01T12:00:00.000000Z"


@given(names, instants)
def test_a_key_fits_its_column(name: str, instant: datetime) -> None:
    assert len(occurrence_key(name, instant)) <= 255


@given(names, names, instants)
def test_the_keys_of_a_schedule_lie_in_a_range_that_no_other_shares(a: str, b: str, instant: datetime) -> None:
    start, end = occurrence_keys(a)
    assert start.encode() <= occurrence_key(a, instant).encode() < end.encode()
    assert (start.encode() <= occurrence_key(b, instant).encode() < end.encode()) is (a == b)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START)


@pytest.fixture
def jobs(ready_sqlite_url: str, clock: FakeClock) -> Iterator[Jobs]:
    made = Jobs(storages.sqlite(ready_sqlite_url, clock=clock))
    made.declare("sync")
    for name in ("edited", "fine"):
        made.recurring(name, "sync", every=60)
    yield made
    made.storage.close()


def edit(jobs: Jobs, next_run_at: str) -> None:
    with jobs.storage.engine.begin() as connection:
        statement = text("UPDATE sloppy_recurring_jobs SET next_run_at = :value WHERE name = 'edited'")
        connection.execute(statement, {"value": next_run_at})


@pytest.mark.parametrize("written", ["2030-01-01T12:00:30Z", "2030-01-01 12:00:30+00:00", "2030-01-01T13:00:30+01:00"])
def test_a_cursor_in_another_notation_fires_once(jobs: Jobs, clock: FakeClock, written: str) -> None:
    edit(jobs, written)
    clock.advance(7200)
    assert len(jobs.tick_recurring()) == 2
    assert jobs.tick_recurring() == []
    next_run_at = jobs.schedules.get("edited").next_run_at
    assert next_run_at is not None
    assert next_run_at > clock.now()


@pytest.mark.parametrize("written", ["", "1999-garbage", "2030-13-45T12:00:30Z", "soon", "0"])
def test_a_cursor_that_is_no_instant_is_shown_and_stalls_nobody(jobs: Jobs, clock: FakeClock, written: str) -> None:
    edit(jobs, written)
    clock.advance(60)
    assert jobs.schedules.next_in() == 0
    assert len(jobs.tick_recurring()) == 1
    assert jobs.schedules.next_in() == 60
    assert [(view.name, view.next_run_at is None) for view in jobs.schedules.page()] == [
        ("edited", True),
        ("fine", False),
    ]
    jobs.recurring("edited", "sync", every=60)
    clock.advance(60)
    assert len(jobs.tick_recurring()) == 2
