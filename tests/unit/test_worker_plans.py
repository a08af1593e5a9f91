"""A turn of a worker reads its own jobs and no more, however many others wait, and whatever was planned before.

A queue's statistics are stale by nature: these tests never gather any, and they make the plans while the tables are
still empty.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Any, NamedTuple

import pytest
from sqlalchemy import Engine, create_engine, event

from sloppyjobs import Jobs
from sloppyjobs.domain.model import Claim, Settlement
from sloppyjobs.domain.states import Cancelled, Failed, Failure, Outcome, Succeeded, decide
from sloppyjobs.storage import SqlStore, from_url
from sloppyjobs.storage.ports.claims import ClaimRequest

BACKLOG = 20_000
TAKEN = 100
FAILURE = Failure("CODE", "no", "SomeError", "module:function", "the traceback")
OUTCOMES: tuple[Outcome, ...] = (
    Succeeded(),
    Failed(FAILURE, 3600.0),
    Failed(FAILURE, 0.0, retryable=False),
    Cancelled("not wanted"),
)
REQUEST = ClaimRequest("worker", ("*",), ("a", "b"), TAKEN)


def _fill(jobs: Jobs, count: int) -> None:
    names = ("a", "b", "unknown")
    jobs.enqueue_many([(names[place % 3], {}) for place in range(count)])
    jobs.enqueue_many([("a", {}, {"delay": 3600 + place}) for place in range(count)])


def _work(storage: SqlStore) -> int:
    """Sweep, claim, renew, and settle every outcome in every way; returns how many rows of jobs that changed."""
    storage.sweep()
    _, claims = storage.turn((), REQUEST)
    storage.renew("worker", [(claim.id, claim.attempt) for claim in claims], 30)
    _, more = storage.turn([_ended(claim, Succeeded()) for claim in claims], REQUEST)
    mixed = [_ended(claim, OUTCOMES[place % len(OUTCOMES)]) for place, claim in enumerate(more)]
    half = len(mixed) // 2
    if half:
        storage.turn(mixed[:half], None)
    storage.settle(mixed[half:])
    return 3 * len(claims) + 2 * len(more)


def _ended(claim: Claim, outcome: Outcome) -> Settlement:
    return Settlement(claim.id, claim.attempt, "worker", decide(1, 3, outcome), 0.0)


def _declared(storage: SqlStore) -> Jobs:
    jobs = Jobs(storage)
    for name in ("a", "b", "unknown"):
        jobs.declare(name)
    return jobs


@pytest.mark.parametrize("planned_with", [0, 3 * TAKEN, BACKLOG])
def test_a_turn_reads_no_backlog(postgres_url: str, planned_with: int) -> None:
    storage = from_url(postgres_url)
    jobs = _declared(storage)
    watcher = create_engine(storage.engine.url, isolation_level="AUTOCOMMIT")
    _execute(watcher, "ALTER TABLE sloppy_jobs SET (autovacuum_enabled = off)")
    _fill(jobs, planned_with)
    # As often as it takes until driver and server keep the plans.
    changed = sum(_work(storage) for _ in range(12))
    _fill(jobs, BACKLOG - planned_with)
    before = _counted(watcher, inserted=2 * BACKLOG, updated=changed)
    assert _work(storage) == 5 * TAKEN
    storage.engine.dispose()
    after = _counted(watcher, inserted=2 * BACKLOG, updated=changed + 5 * TAKEN)
    watcher.dispose()
    assert after.read - before.read < 30 * TAKEN


def test_the_indexes_of_lists_cannot_serve_a_turn(postgres_url: str) -> None:
    # Which of two indexes a planner prefers without statistics is chance. Here it has no choice but the wrong one.
    storage = from_url(postgres_url)
    jobs = _declared(storage)
    watcher = create_engine(storage.engine.url, isolation_level="AUTOCOMMIT")
    _execute(watcher, "DROP INDEX ix_sloppy_jobs_claim, ix_sloppy_jobs_due, ix_sloppy_jobs_lease")
    _fill(jobs, 4 * TAKEN)
    changed = _work(storage)
    storage.engine.dispose()
    _counted(watcher, inserted=8 * TAKEN, updated=changed)
    lists = "indexrelname IN ('ix_sloppy_jobs_list', 'ix_sloppy_jobs_list_queued')"
    used = _execute(watcher, f"SELECT count(*), sum(idx_scan) FROM pg_stat_user_indexes WHERE {lists}")
    watcher.dispose()
    assert used == (2, 0)


class Counters(NamedTuple):
    """What the server has counted on the table of jobs."""

    inserted: int
    updated: int
    read: int


def _counted(watcher: Engine, *, inserted: int, updated: int) -> Counters:
    """The counters, once the server has counted what was written. It reads as much as it says before it writes."""
    query = """
        SELECT n_tup_ins, n_tup_upd, seq_tup_read + (
                 SELECT sum(idx_tup_read) FROM pg_stat_user_indexes i WHERE i.relid = t.relid
               )
        FROM pg_stat_user_tables t WHERE relname = 'sloppy_jobs'
    """
    deadline = time.monotonic() + 60
    while True:
        found = Counters(*map(int, _execute(watcher, query)))
        if found.inserted >= inserted and found.updated >= updated:
            return found
        assert time.monotonic() < deadline, f"{found}: the server has not counted yet"
        time.sleep(0.1)


def _execute(engine: Engine, statement: str) -> Any:
    with engine.connect() as connection:
        result = connection.exec_driver_sql(statement)
        return result.one() if result.returns_rows else None


def test_a_turn_takes_as_many_steps_with_a_backlog(sqlite_url: str) -> None:
    storage = from_url(sqlite_url)
    storage.init()
    jobs = _declared(storage)
    ticks = [0]

    def tick() -> None:
        ticks[0] += 1

    @event.listens_for(storage.engine, "checkout")
    def count(driver: sqlite3.Connection, *_: object) -> None:
        driver.set_progress_handler(tick, 100)

    def steps() -> int:
        before = ticks[0]
        assert _work(storage) == 5 * TAKEN
        return ticks[0] - before

    _fill(jobs, 4 * TAKEN)
    few = steps()
    _fill(jobs, BACKLOG)
    assert steps() < 1.3 * few
    storage.close()
