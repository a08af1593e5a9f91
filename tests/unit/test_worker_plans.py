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
from sloppyjobs.domain.followups import Followup
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


GRAPHS, SIDES = 1500, 4
FIRST, SIDE = int(Followup.DEPENDANTS), int(Followup.DEPENDANTS | Followup.PARENTS)


def _fill_graphs(jobs: Jobs, count: int) -> None:
    """Graphs of six jobs, a hundred in a workflow: one, four that wait for it, and one that waits for these."""
    for start in range(0, count, 100):
        with jobs.workflow("many") as flow:
            for _ in range(min(100, count - start)):
                first = flow.add("a")
                flow.add("a", after=[flow.add("a", after=first, on="always") for _ in range(SIDES)], on="always")


def _work_on_graphs(storage: SqlStore) -> tuple[int, int]:
    """Settle what was claimed, half of it as dead; and attempts of no job, so that there are plans in any case.

    How many jobs it was, and how many edges they had to others.
    """
    _, claims = storage.turn((), REQUEST)
    fences = [(claim.id, claim.attempt, claim.followups) for claim in claims]
    for outcome, ended in ((OUTCOMES[0], fences[::2]), (OUTCOMES[2], fences[1::2])):
        decision = decide(1, 3, outcome)
        for attempts in (ended, [("job_none", 1, SIDE)]):
            storage.turn([Settlement(id, n, "worker", decision, 0.0, None, bits) for id, n, bits in attempts], None)
    return len(claims), sum({FIRST: SIDES, SIDE: 1}.get(claim.followups or 0, 0) for claim in claims)


@pytest.mark.parametrize("planned_with", [0, 100, GRAPHS])
def test_a_turn_with_jobs_of_graphs_reads_them_and_their_edges_and_no_others(
    postgres_url: str, planned_with: int
) -> None:
    storage = from_url(postgres_url)
    jobs = _declared(storage)
    jobs.init()
    watcher = create_engine(storage.engine.url, isolation_level="AUTOCOMMIT")
    for table in ("sloppy_jobs", "sloppy_job_dependencies"):
        _execute(watcher, f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    _fill_graphs(jobs, planned_with)
    decided = sum(_work_on_graphs(storage)[1] for _ in range(12))
    _fill_graphs(jobs, GRAPHS - planned_with)
    before = _counted_graphs(watcher, decided)
    turns = [_work_on_graphs(storage) for _ in range(4)]
    assert [number for number, _ in turns] == [TAKEN] * 4
    decided += sum(edges for _, edges in turns)
    after = _counted_graphs(watcher, decided)
    (in_place,) = _execute(
        watcher, "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'sloppy_job_dependencies'"
    )
    storage.close()
    watcher.dispose()
    assert after[0].updated - before[0].updated > 10 * TAKEN, "jobs were released too"
    read = [later.read - earlier.read for earlier, later in zip(before, after, strict=True)]
    assert max(read) < 80 * TAKEN, f"{read} rows of jobs and of edges"
    assert in_place > 0.9 * decided, "a decided edge is no new entry in any index"


def _counted_graphs(watcher: Engine, decided: int) -> tuple[Counters, Counters]:
    """The counters on jobs and on edges, once so many edges were decided. Mostly an event is an update of a job."""
    query = "SELECT count(*) FROM sloppy_job_events WHERE event_type NOT IN ('created', 'failed')"
    (updates,) = _execute(watcher, query)
    return (
        _counted(watcher, inserted=0, updated=updates),
        _counted(watcher, inserted=0, updated=decided, table="sloppy_job_dependencies"),
    )


class Counters(NamedTuple):
    """What the server has counted on a table."""

    inserted: int
    updated: int
    read: int


def _counted(watcher: Engine, *, inserted: int, updated: int, table: str = "sloppy_jobs") -> Counters:
    """The counters, once the server has counted what was written. It reads as much as it says before it writes."""
    query = f"""
        SELECT n_tup_ins, n_tup_upd, seq_tup_read + (
                 SELECT sum(idx_tup_read) FROM pg_stat_user_indexes i WHERE i.relid = t.relid
               )
        FROM pg_stat_user_tables t WHERE relname = '{table}'
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
