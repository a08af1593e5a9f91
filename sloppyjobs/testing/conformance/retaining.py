"""Retention: what is deleted when, what is never touched, and what is left of it afterwards."""

from __future__ import annotations

from datetime import timedelta
from threading import Barrier, Thread
from typing import Any

import msgspec
import pytest

from sloppyjobs import errors
from sloppyjobs.domain.model import Job, WorkerInfo
from sloppyjobs.domain.states import FINISHED, Status
from sloppyjobs.jobs import Jobs
from sloppyjobs.retention import LOCK, Retention, maintain
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.records import count

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)


def _finished(jobs: Jobs, status: str, number: int = 1, **options: Any) -> list[Job]:
    """Jobs that end in a status now."""
    if jobs.definitions.get("work") is None:
        jobs.declare("work")
    made = [jobs.enqueue("work", {"n": n}, max_attempts=1, **options) for n in range(number)]
    if status == "cancelled":
        for job in made:
            jobs.admin.cancel(job.id)
        return [jobs.get(job.id) for job in made]
    for claim in jobs.claim("worker-1", limit=number):
        if status == "succeeded":
            assert jobs.complete(claim, {"ok": True})
        else:
            assert jobs.fail(claim, ValueError("no"))
    return [jobs.get(job.id) for job in made]


@pytest.mark.parametrize(("status", "days"), [("succeeded", 7), ("cancelled", 30), ("dead", 90)])
def test_a_finished_job_is_deleted_at_the_age_of_its_status_and_not_before(
    jobs: Jobs, clock: FakeClock, status: str, days: int
) -> None:
    [job] = _finished(jobs, status)
    clock.advance(days * DAY)
    assert jobs.admin.cleanup().total == 0
    clock.advance(SECOND)
    done = jobs.admin.cleanup(actor="ada", reason="monthly")
    assert (done.deleted[status], done.total, done.more) == (1, 1, False)
    after = jobs.get(job.id)
    assert (after.status, after.finished_at, after.updated_at) == ("deleted", job.finished_at, clock.now())
    event = jobs.admin.events(job.id).items[-1]
    assert (event.event_type, event.from_status, event.to_status) == ("deleted", status, "deleted")
    assert (event.actor, event.message) == ("ada", "monthly")
    [entry] = jobs.admin.audit(target="cleanup")
    assert (entry.action, entry.actor, entry.reason, entry.detail[status]) == ("cleanup", "ada", "monthly", 1)


def test_cleanup_never_touches_an_active_job(jobs: Jobs, clock: FakeClock) -> None:
    _finished(jobs, "succeeded")
    scheduled = jobs.enqueue("work", delay=9_000 * DAY)
    paused = jobs.admin.pause(jobs.enqueue("work").id)
    retrying = jobs.enqueue("work", max_attempts=2)
    [claim] = jobs.claim("worker-1")
    jobs.fail(claim, ValueError("once"), retry_after=9_000 * DAY)
    running = jobs.enqueue("work", priority=1)
    jobs.claim("worker-1", lease=9_000 * DAY)
    queued = jobs.enqueue("work")
    active = [scheduled.id, paused.id, retrying.id, running.id, queued.id]
    before = [jobs.get(job_id) for job_id in active]
    assert not {job.status for job in before} & FINISHED
    clock.advance(8_000 * DAY)
    assert jobs.admin.cleanup(ages={"succeeded": 0, "cancelled": 0, "dead": 0}).total == 1
    jobs.admin.purge(older_than=0)
    assert [jobs.get(job_id) for job_id in active] == before


def test_ages_can_be_given_for_a_status_and_none_keeps_it_for_ever(jobs: Jobs, clock: FakeClock) -> None:
    _finished(jobs, "succeeded")
    _finished(jobs, "dead")
    clock.advance(2 * DAY)
    assert jobs.admin.cleanup(ages={"succeeded": DAY}).deleted == {"succeeded": 1, "cancelled": 0, "dead": 0}
    clock.advance(1_000 * DAY)
    assert jobs.admin.cleanup(ages={"dead": None}).total == 0
    assert jobs.admin.cleanup().deleted["dead"] == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"ages": {"queued": 1}}, "'queued'"),
        ({"ages": {"dead": -1}}, "ages['dead']=-1"),
        ({"ages": {"dead": "7 days"}}, "'7 days'"),
        ({"ages": [1]}, "ages=[1]"),
        ({"limit": 0}, "limit=0"),
        ({"limit": 10_001}, "limit=10001"),
    ],
)
def test_a_cleanup_that_cannot_work_is_refused_by_name(jobs: Jobs, options: dict[str, Any], named: str) -> None:
    with pytest.raises(errors.InvalidOption) as refusal:
        jobs.admin.cleanup(**options)
    assert named in str(refusal.value)


def test_cleanup_goes_in_batches_and_says_whether_there_is_more(jobs: Jobs, clock: FakeClock) -> None:
    _finished(jobs, "succeeded", 5)
    clock.advance(8 * DAY)
    first, second, third = (jobs.admin.cleanup(limit=2) for _ in range(3))
    assert [done.total for done in (first, second, third)] == [2, 2, 1]
    assert (first.more, second.more, third.more) == (True, True, False)


def test_a_purge_removes_deleted_jobs_with_everything_that_belongs_to_them(jobs: Jobs, clock: FakeClock) -> None:
    [gone], [kept] = _finished(jobs, "dead"), _finished(jobs, "succeeded")
    line = {"attempt_number": 1, "level": "info", "message": "hello", "fields": None, "created_at": clock.now()}
    jobs.storage.logs.write([{"job_id": id, **line} for id in (gone.id, kept.id)])
    jobs.admin.delete(gone.id)
    clock.advance(DAY)
    assert jobs.admin.purge().jobs == 0
    clock.advance(SECOND)
    done = jobs.admin.purge(actor="ada")
    assert (done.jobs, done.archived, done.more) == (1, False, False)
    with pytest.raises(errors.UnknownJob):
        jobs.get(gone.id)
    assert [count(jobs, what) for what in ("jobs", "attempts", "logs")] == [1, 1, 1]
    assert count(jobs, "events") == len(jobs.admin.events(kept.id))
    assert count(jobs, "archive") == 0
    assert jobs.admin.audit(target="purge").items[0].detail["jobs"] == 1


def test_a_purge_can_move_jobs_to_the_archive_with_their_history(jobs: Jobs, clock: FakeClock) -> None:
    [job] = _finished(jobs, "dead", idempotency_key="once", metadata={"team": "x"})
    jobs.admin.delete(job.id, actor="ada")
    events = [event.event_type for event in jobs.admin.events(job.id)]
    clock.advance(2 * DAY)
    done = jobs.admin.purge(archive=True)
    assert (done.jobs, done.archived) == (1, True)
    [kept] = jobs.storage.inspection.archive()
    row = kept.job
    assert (row.id, row.status, row.payload, row.idempotency_key) == (job.id, "deleted", '{"n":0}', "once")
    assert (row.created_at, kept.archived_at) == (job.created_at, clock.now())
    history = msgspec.json.decode(kept.history)
    assert [event["event_type"] for event in history["events"]] == events
    assert [attempt["status"] for attempt in history["attempts"]] == ["failed"]
    assert count(jobs, "jobs") == count(jobs, "events") == 0
    assert not jobs.enqueue("work", idempotency_key="once").existing


def test_a_job_that_ends_in_the_archive_twice_is_kept_as_it_was_last(jobs: Jobs, clock: FakeClock) -> None:
    [job] = _finished(jobs, "succeeded")
    jobs.admin.delete(job.id)
    clock.advance(2 * DAY)
    jobs.admin.purge(archive=True)
    [kept] = jobs.storage.inspection.archive()
    jobs.storage.inspection.add_jobs([kept.job])
    clock.advance(DAY)
    assert jobs.admin.purge(archive=True).jobs == 1
    assert [again.archived_at for again in jobs.storage.inspection.archive()] == [clock.now()]


def test_maintainers_at_once_delete_every_job_once(jobs: Jobs, clock: FakeClock) -> None:
    made = _finished(jobs, "succeeded", 60)
    clock.advance(8 * DAY)
    barrier, totals = Barrier(4), list[int]()

    def clean() -> None:
        barrier.wait()
        for _ in range(5):
            totals.append(jobs.admin.cleanup(limit=20).total)

    threads = [Thread(target=clean) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(totals) == 60
    for job in made:
        assert [event.event_type for event in jobs.admin.events(job.id)].count("deleted") == 1


def test_counters_become_hourly_after_two_days_and_go_after_thirty_five(jobs: Jobs, clock: FakeClock) -> None:
    for _ in range(3):
        _finished(jobs, "succeeded")
        _finished(jobs, "dead")
        clock.advance(timedelta(minutes=25))
    total = jobs.admin.stats(minutes=7 * 24 * 60).total
    assert (total.succeeded, total.dead) == (3, 3)
    clock.advance(3 * DAY)
    assert count(jobs, "counters") == 3
    assert jobs.admin.purge().stats_rolled_up > 0
    assert count(jobs, "counters") == 1
    after = jobs.admin.stats(minutes=7 * 24 * 60).total
    assert (after.succeeded, after.failed, after.dead) == (total.succeeded, total.failed, total.dead)
    assert after.run_seconds == pytest.approx(total.run_seconds)
    assert jobs.admin.purge().stats_rolled_up == 0
    clock.advance(33 * DAY)
    assert jobs.admin.purge().stats == 1
    assert count(jobs, "counters") == 0


def test_counters_are_added_up_in_bounded_steps(jobs: Jobs, clock: FakeClock) -> None:
    _finished(jobs, "succeeded")
    for _ in range(10):
        clock.advance(60)
        _finished(jobs, "succeeded")
    clock.advance(3 * DAY)
    rolled = [jobs.admin.purge(limit=4).stats_rolled_up for _ in range(4)]
    assert max(rolled) == 4
    assert count(jobs, "counters") == 1
    assert jobs.admin.stats(minutes=7 * 24 * 60).total.succeeded == 11


def test_workers_long_gone_and_locks_long_expired_are_removed(jobs: Jobs, clock: FakeClock) -> None:
    def worker(id: str) -> WorkerInfo:
        return WorkerInfo(
            id=id,
            hostname="h",
            pid=1,
            queues=("*",),
            names=(),
            concurrency=1,
            heartbeat=5.0,
            version="0",
            status="running",
        )

    jobs.storage.workers.register(worker("worker_gone"))
    jobs.locks("me").acquire("old", ttl=10)
    clock.advance(DAY)
    jobs.storage.workers.register(worker("worker_here"))
    jobs.locks("me").acquire("held", ttl=10)
    clock.advance(timedelta(minutes=1))
    done = jobs.admin.purge()
    assert (done.workers, done.locks) == (1, 1)
    assert [one.id for one in jobs.admin.list_workers()] == ["worker_here"]
    assert [one.name for one in jobs.admin.list_locks()] == ["held"]


def test_the_audit_trail_is_kept_unless_it_is_asked_otherwise(jobs: Jobs, clock: FakeClock) -> None:
    _finished(jobs, "cancelled")
    clock.advance(400 * DAY)
    jobs.admin.pause_queue("default", actor="ada")
    assert jobs.admin.purge().audit == 0
    assert jobs.admin.purge(audit_older_than=366 * DAY).audit == 1
    # The first purge removed the counter of the cancelled job, the second the entry of its cancellation.
    assert [entry.action for entry in jobs.admin.audit()] == ["purge", "purge", "pause_queue"]


# Maintenance


def test_maintenance_keeps_to_the_policy_of_the_application(jobs: Jobs, clock: FakeClock) -> None:
    jobs.retention = Retention(succeeded=60, dead=None, purge_after=30, archive=True)
    [job], [dead] = _finished(jobs, "succeeded"), _finished(jobs, "dead")
    clock.advance(61)
    done = maintain(jobs, owner="worker-1")
    assert done is not None and (done.deleted, done.purged, done.more) == (1, 0, False)
    assert jobs.admin.events(job.id).items[-1].actor == "sloppyjobs"
    clock.advance(31)
    done = maintain(jobs, owner="worker-1")
    assert done is not None and done.purged == 1
    assert count(jobs, "archive") == 1
    assert jobs.get(dead.id).status == "dead"
    assert not jobs.admin.audit()


def test_maintenance_goes_on_until_nothing_is_left_to_do(jobs: Jobs, clock: FakeClock) -> None:
    jobs.retention = Retention(batch=2)
    _finished(jobs, "succeeded", 7)
    clock.advance(8 * DAY)
    done = maintain(jobs)
    assert done is not None and (done.deleted, done.more) == (7, False)


def test_maintenance_ends_when_its_time_is_up(jobs: Jobs, clock: FakeClock) -> None:
    jobs.retention = Retention(batch=2, seconds=0)
    _finished(jobs, "succeeded", 7)
    clock.advance(8 * DAY)
    done = maintain(jobs)
    assert done is not None and (done.deleted, done.more) == (2, True)


def test_only_one_maintains_at_a_time(jobs: Jobs, clock: FakeClock) -> None:
    _finished(jobs, "succeeded")
    clock.advance(8 * DAY)
    assert jobs.locks("somebody").acquire(LOCK, ttl=60)
    assert maintain(jobs, owner="worker-1") is None
    clock.advance(61)
    done = maintain(jobs, owner="worker-1")
    assert done is not None and done.deleted == 1
    assert LOCK not in [lock.name for lock in jobs.admin.list_locks()]


@pytest.mark.parametrize("policy", [{"succeeded": -1}, {"batch": 0}, {"archive": "yes"}, {"purge_after": "1d"}])
def test_a_policy_that_cannot_work_is_refused(policy: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidOption) as refusal:
        Retention(**policy)
    assert next(iter(policy)) in str(refusal.value)


def test_an_operator_who_deletes_a_job_starts_the_same_clock(jobs: Jobs, clock: FakeClock) -> None:
    [job] = _finished(jobs, "dead")
    clock.advance(80 * DAY)
    jobs.admin.delete(job.id)
    assert jobs.get(job.id).status is Status.DELETED
    clock.advance(timedelta(hours=23))
    assert jobs.admin.purge().jobs == 0
    clock.advance(timedelta(hours=2))
    assert jobs.admin.purge().jobs == 1
