"""Retention: what is deleted when, what is never touched, and what is left of it afterwards."""

from __future__ import annotations

from datetime import timedelta
from threading import Barrier, Thread
from typing import Any

import msgspec
import pytest
from sqlalchemy import Table, func, insert, select, update

from sloppyjobs import errors
from sloppyjobs.jobs import Jobs
from sloppyjobs.model import Job, WorkerInfo
from sloppyjobs.retention import LOCK, Retention, maintain
from sloppyjobs.states import FINISHED, Status
from sloppyjobs.storage import retention as steps
from sloppyjobs.storage import walking
from sloppyjobs.storage.clock import FakeClock

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)


def _finished(jobs: Jobs, status: str, count: int = 1, **options: Any) -> list[Job]:
    """Jobs that end in a status now."""
    if jobs.definitions.get("work") is None:
        jobs.declare("work")
    made = [jobs.enqueue("work", {"n": n}, max_attempts=1, **options) for n in range(count)]
    if status == "cancelled":
        for job in made:
            jobs.admin.cancel(job.id)
        return [jobs.get(job.id) for job in made]
    for claim in jobs.claim("worker-1", limit=count):
        if status == "succeeded":
            assert jobs.complete(claim, {"ok": True})
        else:
            assert jobs.fail(claim, ValueError("no"))
    return [jobs.get(job.id) for job in made]


def _count(jobs: Jobs, table: Table) -> int:
    with jobs.storage.engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


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


def test_old_jobs_that_finished_lately_do_not_hide_the_others(
    jobs: Jobs, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "SCAN_LIMIT", 4)
    monkeypatch.setattr(steps, "LOOKS", 2)
    jobs.declare("work")
    late = [jobs.enqueue("work", queue="late") for _ in range(20)]
    clock.advance(DAY)
    quick = _finished(jobs, "succeeded", 3)
    clock.advance(8 * DAY)
    for claim in jobs.claim("worker-1", queues=("late",), limit=20):
        jobs.complete(claim)
    deleted = [jobs.admin.cleanup() for _ in range(6)]
    assert sum(done.total for done in deleted) == 3
    assert {jobs.get(job.id).status for job in quick} == {"deleted"}
    clock.advance(8 * DAY)
    deleted = [jobs.admin.cleanup() for _ in range(6)]
    assert {jobs.get(job.id).status for job in late} == {"deleted"}


def test_a_purge_removes_deleted_jobs_with_everything_that_belongs_to_them(jobs: Jobs, clock: FakeClock) -> None:
    [gone], [kept] = _finished(jobs, "dead"), _finished(jobs, "succeeded")
    with jobs.storage.engine.begin() as connection:
        line = {"attempt_number": 1, "level": "info", "message": "hello", "created_at": clock.now()}
        connection.execute(insert(jobs.storage.tables.logs), [{"job_id": id, **line} for id in (gone.id, kept.id)])
    jobs.admin.delete(gone.id)
    clock.advance(DAY)
    assert jobs.admin.purge().jobs == 0
    clock.advance(SECOND)
    done = jobs.admin.purge(actor="ada")
    assert (done.jobs, done.archived, done.more) == (1, False, False)
    with pytest.raises(errors.UnknownJob):
        jobs.get(gone.id)
    tables = jobs.storage.tables
    assert [_count(jobs, table) for table in (tables.jobs, tables.attempts, tables.logs)] == [1, 1, 1]
    assert _count(jobs, tables.events) == len(jobs.admin.events(kept.id))
    assert _count(jobs, tables.archive) == 0
    assert jobs.admin.audit(target="purge").items[0].detail["jobs"] == 1


def test_a_purge_can_move_jobs_to_the_archive_with_their_history(jobs: Jobs, clock: FakeClock) -> None:
    [job] = _finished(jobs, "dead", idempotency_key="once", metadata={"team": "x"})
    jobs.admin.delete(job.id, actor="ada")
    events = [event.event_type for event in jobs.admin.events(job.id)]
    clock.advance(2 * DAY)
    done = jobs.admin.purge(archive=True)
    assert (done.jobs, done.archived) == (1, True)
    archive = jobs.storage.tables.archive
    with jobs.storage.engine.connect() as connection:
        row = connection.execute(select(archive)).one()
    assert (row.id, row.status, row.payload, row.idempotency_key) == (job.id, "deleted", '{"n":0}', "once")
    assert (row.created_at, row.archived_at) == (job.created_at, clock.now())
    history = msgspec.json.decode(row.history)
    assert [event["event_type"] for event in history["events"]] == events
    assert [attempt["status"] for attempt in history["attempts"]] == ["failed"]
    assert _count(jobs, jobs.storage.tables.jobs) == _count(jobs, jobs.storage.tables.events) == 0
    assert not jobs.enqueue("work", idempotency_key="once").existing


@pytest.mark.parametrize("rows", [3, 1_000])
def test_of_a_very_long_history_the_archive_keeps_the_latest(
    jobs: Jobs, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(steps, "ROWS", rows)
    monkeypatch.setattr(steps, "HISTORY", 2)
    for job in _finished(jobs, "dead", 3):
        jobs.admin.delete(job.id)
    clock.advance(2 * DAY)
    assert jobs.admin.purge(archive=True).jobs == 3
    with jobs.storage.engine.connect() as connection:
        histories = connection.execute(select(jobs.storage.tables.archive.c.history)).scalars().all()
    for history in map(msgspec.json.decode, histories):
        assert [event["event_type"] for event in history["events"]] == ["dead", "deleted"]
        assert [attempt["attempt_number"] for attempt in history["attempts"]] == [1]


def test_a_job_that_ends_in_the_archive_twice_is_kept_as_it_was_last(jobs: Jobs, clock: FakeClock) -> None:
    [job] = _finished(jobs, "succeeded")
    archive, table = jobs.storage.tables.archive, jobs.storage.tables.jobs
    jobs.admin.delete(job.id)
    clock.advance(2 * DAY)
    jobs.admin.purge(archive=True)
    with jobs.storage.engine.begin() as connection:
        names = [column.name for column in table.c]
        connection.execute(insert(table).from_select(names, select(*(archive.c[name] for name in names))))
    clock.advance(DAY)
    assert jobs.admin.purge(archive=True).jobs == 1
    with jobs.storage.engine.connect() as connection:
        assert connection.execute(select(archive.c.archived_at)).scalar_one() == clock.now()


def test_a_job_that_others_have_locked_is_left_for_the_next_time(jobs: Jobs, clock: FakeClock) -> None:
    held, free = _finished(jobs, "succeeded", 2)
    clock.advance(8 * DAY)
    table, totals = jobs.storage.tables.jobs, list[int]()
    cleaning = Thread(target=lambda: totals.append(jobs.admin.cleanup().total))
    # Where the lock is on the whole file, a cleanup waits until it is free, and leaves nothing.
    locks_rows = jobs.storage.dialect.name != "sqlite"
    with jobs.storage.engine.begin() as connection:
        connection.execute(update(table).where(table.c.id == held.id).values(priority=1))
        cleaning.start()
        cleaning.join(30 if locks_rows else 0.3)
        assert totals == ([1] if locks_rows else [])
        assert (jobs.get(held.id).status, jobs.get(free.id).status) == (
            "succeeded",
            "deleted" if locks_rows else "succeeded",
        )
    cleaning.join(30)
    assert [*totals, jobs.admin.cleanup().total] == ([1, 1] if locks_rows else [2, 0])


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
    assert _count(jobs, jobs.storage.tables.stats) == 3
    assert jobs.admin.purge().stats_rolled_up > 0
    assert _count(jobs, jobs.storage.tables.stats) == 1
    after = jobs.admin.stats(minutes=7 * 24 * 60).total
    assert (after.succeeded, after.failed, after.dead) == (total.succeeded, total.failed, total.dead)
    assert after.run_seconds == pytest.approx(total.run_seconds)
    assert jobs.admin.purge().stats_rolled_up == 0
    clock.advance(33 * DAY)
    assert jobs.admin.purge().stats == 1
    assert _count(jobs, jobs.storage.tables.stats) == 0


def test_counters_are_added_up_in_bounded_steps(jobs: Jobs, clock: FakeClock) -> None:
    _finished(jobs, "succeeded")
    for _ in range(10):
        clock.advance(60)
        _finished(jobs, "succeeded")
    clock.advance(3 * DAY)
    rolled = [jobs.admin.purge(limit=4).stats_rolled_up for _ in range(4)]
    assert max(rolled) == 4
    assert _count(jobs, jobs.storage.tables.stats) == 1
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
    assert _count(jobs, jobs.storage.tables.archive) == 1
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
