"""Schedules: what is registered, registered again, refused, and declared in code."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from sloppyjobs import errors
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.records import count
from sloppyjobs.testing.conformance.scheduling import damage, utc

# Registering again


def test_registering_again_updates_the_definition_and_keeps_the_cursor(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.declare("other")
    before = scheduler.recurring("s", "sync", {"n": 1}, every=300)
    clock.advance(100)
    after = scheduler.recurring("s", "other", {"n": 2}, every=300, queue="q", misfire="ignore")
    assert (after.id, after.next_run_at) == (before.id, before.next_run_at)
    assert (after.job_name, after.queue, after.misfire) == ("other", "q", "ignore")
    assert after.payload_preview.value == {"n": 2}
    assert count(scheduler, "schedules") == 1


def test_registering_again_keeps_the_paused_state(scheduler: Jobs) -> None:
    assert scheduler.recurring("s", "sync", every=300, paused=True).paused
    assert scheduler.recurring("s", "sync", every=300, paused=False).paused
    scheduler.schedules.resume("s")
    assert not scheduler.recurring("s", "sync", every=300, paused=True).paused


@pytest.mark.parametrize(
    ("change", "next_run_at"),
    [
        ({"every": 600}, "2030-01-01 13:15"),
        ({"cron": "30 * * * *"}, "2030-01-01 13:30"),
        ({"cron": "0 16 * * *", "timezone": "Asia/Tokyo"}, "2030-01-02 07:00"),
        ({"at": "2030-01-05T00:00:00Z"}, "2030-01-05 00:00"),
    ],
)
def test_new_times_start_from_now_and_what_was_pending_is_not_fired(
    scheduler: Jobs, clock: FakeClock, change: Any, next_run_at: str
) -> None:
    scheduler.recurring("s", "sync", cron="0 16 * * *")
    damage(scheduler, "s", next_run_at=clock.now(), last_run_at=clock.now())
    clock.advance(timedelta(hours=1, minutes=5))
    view = scheduler.recurring("s", "sync", **change)
    assert (view.next_run_at, view.last_run_at) == (utc(next_run_at), utc("2030-01-01 12:00"))
    assert scheduler.tick_recurring() == []


def test_what_is_pending_fires_although_its_schedule_was_registered_again(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("s", "sync", cron="@hourly")
    clock.advance(timedelta(hours=1))
    scheduler.recurring("s", "sync", cron="0 * * * *")
    assert len(scheduler.tick_recurring()) == 1


# Refusals


@pytest.mark.parametrize(
    "settings",
    [
        {"cron": "30 2 31 2 *"},
        {"cron": "0 0 30 2 *"},
        {"cron": "* * * * * *"},
        {"cron": "61 * * * *"},
        {"cron": "* * * *"},
        {"cron": ""},
        {"cron": "0 * * * *", "timezone": "Mars/Olympus"},
        {"cron": "0 * * * *", "misfire": "sometimes"},
        {"cron": "0 * * * *", "catch_up_limit": 0},
        {"cron": "0 * * * *", "every": 5},
        {"every": 0},
        {"every": -1},
        {"every": float("nan")},
        {"at": datetime(2030, 1, 1)},  # noqa: DTZ001
        {"at": "tomorrow"},
        {},
    ],
)
def test_a_schedule_that_cannot_fire_is_refused_and_leaves_nothing_behind(
    scheduler: Jobs, settings: dict[str, Any]
) -> None:
    with pytest.raises(errors.InvalidSchedule) as caught:
        scheduler.recurring("s", "sync", **settings)
    assert caught.value.code == "SLOPPY_E_JOBS_RECURRING_INVALID_CRON"
    assert count(scheduler, "schedules") == 0


class ReportPayload(msgspec.Struct):
    """The payload of a report."""

    days: int


def test_a_schedule_of_an_unknown_job_or_with_a_wrong_payload_is_refused(jobs: Jobs) -> None:
    jobs.declare("report", input=ReportPayload)
    with pytest.raises(errors.UnknownJob, match="raport"):
        jobs.recurring("s", "raport", every=60)
    with pytest.raises(errors.InvalidPayload, match="days"):
        jobs.recurring("s", "report", {"days": "many"}, every=60)
    with pytest.raises(errors.InvalidPayload):
        jobs.recurring("s", "report", {"days": float("nan")}, every=60)
    assert count(jobs, "schedules") == 0


@pytest.mark.parametrize(
    "settings",
    [{"name": ""}, {"name": "n" * 129}, {"name": "a\0b"}, {"queue": ""}, {"priority": "high"}, {"paused": "no"}],
)
def test_a_schedule_with_an_option_that_cannot_work_is_refused(scheduler: Jobs, settings: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidOption):
        scheduler.recurring(**{"name": "s", "job_name": "sync", "every": 60, **settings})
    assert count(scheduler, "schedules") == 0


def test_a_refused_change_leaves_the_schedule_as_it_was(scheduler: Jobs) -> None:
    before = scheduler.recurring("s", "sync", every=60)
    with pytest.raises(errors.InvalidSchedule):
        scheduler.recurring("s", "sync", cron="0 0 31 2 *")
    assert scheduler.schedules.get("s") == before


# Declared in code


def test_declaring_writes_nothing_before_a_sync(scheduler: Jobs) -> None:
    scheduler.declare_recurring("nightly", "sync", {"n": 1}, cron="0 2 * * *")
    assert count(scheduler, "schedules") == 0
    assert scheduler.schedules.sync() == (("nightly",), ())
    view = scheduler.schedules.get("nightly")
    assert (view.declared, view.vanished, view.next_run_at) == (True, False, utc("2030-01-02 02:00"))
    with pytest.raises(errors.InvalidSchedule):
        scheduler.declare_recurring("never", "sync", cron="0 0 31 2 *")
    with pytest.raises(errors.DuplicateJob, match="nightly"):
        scheduler.declare_recurring("nightly", "sync", every=60)


def test_a_sync_keeps_the_cursor_and_the_paused_state(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.declare_recurring("s", "sync", every=600)
    scheduler.schedules.sync()
    scheduler.schedules.pause("s")
    clock.advance(100)
    scheduler.schedules.sync()
    view = scheduler.schedules.get("s")
    assert (view.paused, view.next_run_at) == (True, utc("2030-01-01 12:10"))


def _declaring(storage: Any, *names: str, jobs: Sequence[str] = ("sync",), application: str | None = None) -> Jobs:
    declaring = Jobs(storage, application=application)
    for job in jobs:
        declaring.declare(job)
    for name in names:
        declaring.declare_recurring(name, jobs[0], every=600)
    return declaring


def test_a_schedule_that_vanished_from_code_stops_and_is_shown_until_it_is_declared_again(
    make_storage: Any, clock: FakeClock
) -> None:
    storage = make_storage(clock)
    _declaring(storage, "a", "b").schedules.sync()
    later = _declaring(storage, "a")
    later.recurring("by-hand", "sync", every=600)
    assert later.schedules.sync() == (("a",), ("b",))
    assert later.schedules.sync() == (("a",), ())
    assert [later.schedules.get(name).vanished for name in ("a", "b", "by-hand")] == [False, True, False]
    clock.advance(1500)
    assert len(later.tick_recurring()) == 2
    _declaring(storage, "a", "b").schedules.sync()
    again = later.schedules.get("b")
    assert (again.vanished, again.next_run_at) == (False, utc("2030-01-01 12:30"))


def test_an_application_does_not_take_the_schedules_of_another_for_vanished(
    make_storage: Any, clock: FakeClock
) -> None:
    storage = make_storage(clock)
    _declaring(storage, "a", application="shop").schedules.sync()
    _declaring(storage, "b", jobs=("bill",)).schedules.sync()
    assert _declaring(storage, "c", application="crm").schedules.sync().vanished == ()
    assert _declaring(storage, "d", jobs=("other",)).schedules.sync().vanished == ()
    assert _declaring(storage, jobs=("bill",)).schedules.sync().vanished == ()
    # Its handler and its last schedule are gone from the shop's code; by its name the shop still knows its own.
    assert _declaring(storage, jobs=("other",), application="shop").schedules.sync().vanished == ("a",)


def test_a_declared_time_that_has_passed_is_not_written_again(make_storage: Any, clock: FakeClock) -> None:
    declaring = Jobs(make_storage(clock))
    declaring.declare("sync")
    declaring.declare_recurring("launch", "sync", at=clock.now() + timedelta(hours=1))
    declaring.schedules.sync()
    clock.advance(7200)
    assert len(declaring.tick_recurring()) == 1
    declaring.schedules.sync()
    assert count(declaring, "schedules") == 0
