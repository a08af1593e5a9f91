"""Retention beside row locks, and its bounds, lowered so that few rows reach them."""

from __future__ import annotations

from datetime import timedelta
from threading import Thread

import msgspec
import pytest
from sqlalchemy import select, update

from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.storage.reads import keyset
from sloppyjobs.storage.upkeep import retention as steps
from sloppyjobs.testing.conformance import admin_scenes as scene
from sloppyjobs.testing.conformance.sql_storage import sql_storage

DAY = timedelta(days=1)


def test_old_jobs_that_finished_lately_do_not_hide_the_others(
    jobs: Jobs, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyset, "SCAN_LIMIT", 4)
    monkeypatch.setattr(steps, "SCANS", 2)
    jobs.declare("work")
    late = [jobs.enqueue("work", queue="late") for _ in range(20)]
    clock.advance(DAY)
    quick = [scene.succeeded(jobs) for _ in range(3)]
    clock.advance(8 * DAY)
    for claim in jobs.claim("worker-1", queues=("late",), limit=20):
        jobs.complete(claim)
    deleted = [jobs.admin.cleanup() for _ in range(6)]
    assert sum(done.total for done in deleted) == 3
    assert {jobs.get(job.id).status for job in quick} == {"deleted"}
    clock.advance(8 * DAY)
    deleted = [jobs.admin.cleanup() for _ in range(6)]
    assert {jobs.get(job.id).status for job in late} == {"deleted"}


@pytest.mark.parametrize("rows", [3, 1_000])
def test_of_a_very_long_history_the_archive_keeps_the_latest(
    jobs: Jobs, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(steps, "ROWS", rows)
    monkeypatch.setattr(steps, "HISTORY", 2)
    for _ in range(3):
        jobs.admin.delete(scene.dead(jobs).id)
    clock.advance(2 * DAY)
    assert jobs.admin.purge(archive=True).jobs == 3
    for kept in jobs.storage.inspection.archive():
        history = msgspec.json.decode(kept.history)
        assert [event["event_type"] for event in history["events"]] == ["dead", "deleted"]
        assert [attempt["attempt_number"] for attempt in history["attempts"]] == [1]


def test_the_rows_of_tags_go_with_their_jobs_also_where_these_say_no_tags(jobs: Jobs, clock: FakeClock) -> None:
    store = sql_storage(jobs)
    tables = store.tables
    jobs.declare("work")
    gone = [jobs.enqueue("work", tags=("eu", f"n{n}")) for n in range(3)]
    left = jobs.enqueue("work", tags=("eu",))
    with store.database.writing() as connection:
        connection.execute(update(tables.jobs).where(tables.jobs.c.id == gone[1].id).values(tags="no tags"))
        connection.execute(update(tables.jobs).where(tables.jobs.c.id == gone[2].id).values(tags='{"a": 1}'))
    for job in gone:
        jobs.admin.delete(job.id)
    clock.advance(2 * DAY)
    assert jobs.admin.purge().jobs == 3
    with store.engine.connect() as connection:
        assert set(connection.execute(select(tables.tags.c.job_id)).scalars()) == {left.id}


def test_a_key_whose_window_is_over_goes_with_its_job(jobs: Jobs, clock: FakeClock) -> None:
    store = sql_storage(jobs)
    jobs.declare("work")
    over, kept = (jobs.enqueue("work", business_key=f"order-{days}", unique_for=days * DAY) for days in (1, 5))
    for claim in jobs.claim("worker-1", limit=2):
        jobs.complete(claim)
    for job in (over, kept):
        jobs.admin.delete(job.id)
    for days, keys in ((2, ["order-5"]), (4, [])):
        clock.advance(days * DAY)
        assert jobs.admin.purge().jobs == 1
        with store.engine.connect() as connection:
            assert list(connection.execute(select(store.tables.keys.c.key)).scalars()) == keys


def test_a_job_that_others_have_locked_is_left_for_the_next_time(jobs: Jobs, clock: FakeClock) -> None:
    held, free = scene.succeeded(jobs), scene.succeeded(jobs)
    clock.advance(8 * DAY)
    table, totals = sql_storage(jobs).tables.jobs, list[int]()
    cleaning = Thread(target=lambda: totals.append(jobs.admin.cleanup().total))
    # Where rows are not locked when they are read, a cleanup waits until all are free, and leaves nothing.
    locks_rows = _locks_rows(jobs, held.id)
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


def test_a_job_that_was_forgotten_in_waiting_goes_on(jobs: Jobs) -> None:
    jobs.declare("work")
    parent = jobs.enqueue("work")
    child = jobs.enqueue("work", depends_on=parent)
    made = sql_storage(jobs)
    with made.database.writing() as connection:
        connection.execute(update(made.tables.dependencies).values(state=1))
    assert jobs.get(child.id).status == "waiting"
    jobs.admin.purge()
    assert jobs.get(child.id).status == "queued"


def _locks_rows(jobs: Jobs, job_id: str) -> bool:
    """Whether a row that one connection has locked is skipped by another; hints are not heeded everywhere."""
    storage = sql_storage(jobs)
    query = select(storage.tables.jobs.c.id).where(storage.tables.jobs.c.id == job_id)
    with storage.engine.begin() as connection, storage.engine.connect() as other:
        connection.execute(storage.dialect.locked(query)).all()
        return other.execute(storage.dialect.locked(query, skip=True)).all() == []
