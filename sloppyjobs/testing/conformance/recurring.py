"""Schedules: firing on time, once, and after a time without schedulers."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.retry import Retry
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.records import count
from sloppyjobs.testing.conformance.scheduling import damage, occurrences, utc

# Firing


def test_a_cron_schedule_fires_when_it_is_due_and_not_before(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("report", queue="reports", retry=Retry(max_attempts=7), timeout=9, metadata={"team": "data"})
    view = jobs.recurring("hourly", "report", {"n": 1}, cron="0 * * * *")
    clock.advance(timedelta(minutes=59))
    assert jobs.tick_recurring() == []
    clock.advance(60)
    [job] = jobs.tick_recurring()
    assert (job.name, job.queue, job.status) == ("report", "reports", "queued")
    assert (job.max_attempts, job.timeout, job.metadata) == (7, 9, {"team": "data"})
    assert (job.schedule_id, job.occurrence_at) == (view.id, utc("2030-01-01 13:00"))
    assert jobs.get(job.id) == job
    assert jobs.tick_recurring() == []
    after = jobs.schedules.get("hourly")
    assert (after.last_run_at, after.next_run_at) == (clock.now(), utc("2030-01-01 14:00"))


def test_a_fired_job_carries_the_payload_of_its_schedule(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("s", "sync", {"n": 1}, every=60)
    clock.advance(60)
    [job] = scheduler.tick_recurring()
    [claim] = scheduler.claim("worker", queues=("default",))
    assert (claim.id, claim.payload) == (job.id, {"n": 1})


def test_a_fired_job_has_the_history_of_any_other_job(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("s", "sync", every=60)
    clock.advance(60)
    scheduler.tick_recurring()
    assert (count(scheduler, "jobs"), count(scheduler, "events")) == (1, 1)


def test_an_interval_keeps_its_grid_however_late_it_is_ticked(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("s", "sync", every=300)
    clock.advance(307)
    assert occurrences(scheduler.tick_recurring()) == [utc("2030-01-01 12:05")]
    clock.advance(300)
    assert occurrences(scheduler.tick_recurring()) == [utc("2030-01-01 12:10")]


def test_a_schedule_that_fires_once_is_gone_afterwards(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("reminder", "sync", at="2030-01-01T13:00:00+00:00")
    assert scheduler.tick_recurring() == []
    clock.advance(timedelta(hours=1))
    assert occurrences(scheduler.tick_recurring()) == [utc("2030-01-01 13:00")]
    with pytest.raises(errors.UnknownSchedule, match="reminder"):
        scheduler.schedules.get("reminder")
    assert scheduler.tick_recurring() == []


def test_a_past_time_is_due_at_once_but_never_fires_twice(scheduler: Jobs) -> None:
    at = utc("2029-12-24 18:00")
    scheduler.recurring("reminder", "sync", at=at)
    assert occurrences(scheduler.tick_recurring()) == [at]
    scheduler.recurring("reminder", "sync", at=at)
    assert scheduler.tick_recurring() == []
    assert count(scheduler, "jobs") == 1
    assert count(scheduler, "schedules") == 0


def test_a_schedule_has_a_queue_and_a_priority_of_its_own(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("report", queue="reports", priority=3)
    jobs.recurring("own", "report", every=60, queue="fast", priority=0)
    jobs.recurring("default", "report", every=61)
    clock.advance(61)
    assert [(job.queue, job.priority) for job in jobs.tick_recurring()] == [("fast", 0), ("reports", 3)]


def test_a_scheduler_without_the_definition_fires_as_it_was_registered(
    jobs: Jobs, make_storage: Any, clock: FakeClock
) -> None:
    jobs.declare("report", queue="reports", retry=Retry(max_attempts=7), timeout=9)
    jobs.recurring("s", "report", every=60)
    clock.advance(60)
    [job] = Jobs(make_storage(clock)).tick_recurring()
    assert (job.queue, job.max_attempts, job.timeout) == ("reports", 7, 9)


def test_a_tick_fires_a_bounded_number_of_schedules_in_the_order_they_are_due(
    scheduler: Jobs, clock: FakeClock
) -> None:
    for seconds in (50, 20, 40, 10, 30):
        scheduler.recurring(f"every-{seconds}", "sync", {"n": seconds}, every=seconds)
    clock.advance(60)
    ids = {scheduler.schedules.get(f"every-{seconds}").id: seconds for seconds in (10, 20, 30, 40, 50)}
    ticks = [[ids[job.schedule_id or ""] for job in scheduler.tick_recurring(limit=2)] for _ in range(4)]
    assert ticks == [[10, 20], [30, 40], [50], []]


@pytest.mark.parametrize("limit", [0, -1, 1001, True, "5"])
def test_a_tick_refuses_a_limit_that_cannot_work(scheduler: Jobs, limit: Any) -> None:
    with pytest.raises(errors.InvalidOption, match="limit"):
        scheduler.tick_recurring(limit=limit)


def test_a_tick_waits_for_no_lock_that_somebody_left_behind(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("s", "sync", every=60)
    clock.advance(60)
    # The lock under which schedulers took turns in earlier versions.
    scheduler.locks("somebody who died").acquire("sloppy.jobs.recurring.tick", ttl=30)
    assert len(scheduler.tick_recurring(owner="me")) == 1


def test_the_time_until_the_next_schedule_is_known(scheduler: Jobs, clock: FakeClock) -> None:
    assert scheduler.storage.firing.next_in() is None
    scheduler.recurring("late", "sync", every=300)
    scheduler.recurring("soon", "sync", every=60)
    scheduler.recurring("paused", "sync", every=10, paused=True)
    assert scheduler.storage.firing.next_in() == 60
    clock.advance(100)
    assert scheduler.storage.firing.next_in() == 0
    scheduler.tick_recurring()
    assert scheduler.storage.firing.next_in() == 20


def test_schedules_go_by_the_clock_of_the_database(live_jobs: Jobs) -> None:
    live_jobs.declare("sync")
    now = live_jobs.storage.clock.now()
    live_jobs.recurring("past", "sync", at=now - timedelta(seconds=1))
    live_jobs.recurring("future", "sync", every=3600)
    assert len(live_jobs.tick_recurring()) == 1
    left = live_jobs.storage.firing.next_in()
    assert left is not None
    assert 3500 < left <= 3600


# Time zones


def test_a_nightly_job_fires_once_on_the_night_without_that_hour(scheduler: Jobs, clock: FakeClock) -> None:
    clock.set(utc("2030-03-30 12:00"))
    scheduler.recurring("nightly", "sync", cron="30 2 * * *", timezone="Europe/Paris")
    assert _ticked(scheduler, clock, hours=48) == [utc("2030-03-31 01:00"), utc("2030-04-01 00:30")]


def test_a_nightly_job_fires_once_on_the_night_with_that_hour_twice(scheduler: Jobs, clock: FakeClock) -> None:
    clock.set(utc("2030-10-26 12:00"))
    scheduler.recurring("nightly", "sync", cron="30 2 * * *", timezone="Europe/Paris")
    assert _ticked(scheduler, clock, hours=48) == [utc("2030-10-27 00:30"), utc("2030-10-28 01:30")]


def _ticked(jobs: Jobs, clock: FakeClock, *, hours: int) -> list[datetime | None]:
    fired: list[Job] = []
    for _ in range(hours * 2):
        clock.advance(timedelta(minutes=30))
        fired += jobs.tick_recurring()
    return occurrences(fired)


# Misfires


@pytest.mark.parametrize(
    ("misfire", "expected"),
    [
        ("run-once", ["16:00"]),
        ("catch-up-limited", ["14:00", "15:00", "16:00"]),
        ("ignore", []),
    ],
)
def test_a_time_without_schedulers_is_made_up_for_as_the_policy_says(
    scheduler: Jobs, clock: FakeClock, misfire: str, expected: list[str]
) -> None:
    scheduler.recurring("s", "sync", cron="0 * * * *", misfire=misfire, catch_up_limit=3)
    clock.advance(timedelta(hours=4, minutes=30))
    assert occurrences(scheduler.tick_recurring()) == [utc(f"2030-01-01 {time}") for time in expected]
    view = scheduler.schedules.get("s")
    assert (view.next_run_at, view.misfire) == (utc("2030-01-01 17:00"), misfire)
    assert view.last_run_at == (clock.now() if expected else None)
    clock.advance(timedelta(minutes=30))
    assert occurrences(scheduler.tick_recurring()) == [utc("2030-01-01 17:00")]


@pytest.mark.parametrize(
    ("misfire", "expected"),
    [
        ("run-once", ("collapsed", "13:00", "15:00", 3)),
        ("catch-up-limited", ("collapsed", "13:00", "13:00", 1)),
        ("ignore", ("skipped", "13:00", "16:00", 4)),
    ],
)
def test_what_was_not_fired_is_remembered_with_its_reason(
    scheduler: Jobs, clock: FakeClock, misfire: str, expected: tuple[str, str, str, int]
) -> None:
    scheduler.recurring("s", "sync", cron="0 * * * *", misfire=misfire, catch_up_limit=3)
    assert scheduler.schedules.get("s").missed == ()
    clock.advance(timedelta(hours=4, minutes=30))
    scheduler.tick_recurring()
    outcome, first, last, number = expected
    [passed] = scheduler.schedules.get("s").missed
    assert (passed.outcome, passed.reason, passed.number, passed.more) == (outcome, misfire, number, False)
    assert (passed.first, passed.last) == (utc(f"2030-01-01 {first}"), utc(f"2030-01-01 {last}"))
    assert passed.decided_at == clock.now()
    clock.advance(timedelta(minutes=30))
    scheduler.tick_recurring()
    assert len(scheduler.schedules.get("s").missed) == 1


def test_a_schedule_on_time_has_missed_nothing(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("s", "sync", every=60, misfire="ignore")
    for _ in range(3):
        clock.advance(60)
        scheduler.tick_recurring()
    assert scheduler.schedules.get("s").missed == ()


def test_what_came_due_during_a_pause_was_skipped_because_of_it(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("s", "sync", cron="0 * * * *")
    scheduler.schedules.pause("s")
    clock.advance(timedelta(minutes=30))
    assert scheduler.schedules.resume("s").missed == ()
    scheduler.schedules.pause("s")
    clock.advance(timedelta(hours=2))
    [passed] = scheduler.schedules.resume("s").missed
    assert (passed.outcome, passed.reason, passed.number) == ("skipped", "paused", 2)
    assert (passed.first, passed.last) == (utc("2030-01-01 13:00"), utc("2030-01-01 14:00"))


def test_what_a_schedule_remembers_is_bounded(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("s", "sync", every=60)
    for _ in range(25):
        clock.advance(180)
        scheduler.tick_recurring()
    missed = scheduler.schedules.get("s").missed
    assert len(missed) == 20
    assert missed[0].decided_at == clock.now()
    assert [one.first for one in missed] == sorted((one.first for one in missed), reverse=True)


def test_a_year_without_schedulers_is_remembered_in_one_entry(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("s", "sync", cron="* * * * *")
    clock.advance(timedelta(days=365))
    assert len(scheduler.tick_recurring()) == 1
    [passed] = scheduler.schedules.get("s").missed
    assert (passed.number, passed.more, passed.first) == (100, True, utc("2030-01-01 12:01"))


def test_a_damaged_memory_neither_stops_a_schedule_nor_hides_it(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("s", "sync", every=60)
    damage(scheduler, "s", missed='{"not": "a list"}')
    assert scheduler.schedules.get("s").missed == ()
    clock.advance(180)
    assert len(scheduler.tick_recurring()) == 1
    assert len(scheduler.schedules.get("s").missed) == 1


def test_occurrences_that_are_made_up_for_are_claimed_oldest_first(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("s", "sync", cron="0 * * * *", misfire="catch-up-limited", catch_up_limit=20)
    clock.advance(timedelta(hours=10))
    fired = scheduler.tick_recurring()
    assert len(fired) == 10
    claims = scheduler.claim("worker", limit=20)
    assert [claim.id for claim in claims] == [job.id for job in fired]


def test_a_year_without_schedulers_costs_one_job(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("s", "sync", cron="* * * * *")
    clock.advance(timedelta(days=365))
    assert len(scheduler.tick_recurring()) == 1
    assert scheduler.tick_recurring() == []
