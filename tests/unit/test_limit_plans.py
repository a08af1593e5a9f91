"""A turn under limits reads its own jobs and permits and no more, however many jobs wait in line.

The plans are made while the tables are almost empty, and no statistics are gathered.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Any

from sqlalchemy import Engine, create_engine, event, text

from sloppyjobs import Jobs
from sloppyjobs.domain.model import Claim, Settlement
from sloppyjobs.domain.states import Succeeded, decide
from sloppyjobs.storage import SqlStore, from_url
from sloppyjobs.storage.dialects.postgres.turns import PostgresClaims
from sloppyjobs.storage.ports.claims import ClaimRequest

LINE = 4000
TAKEN = 50
TABLES = ("sloppy_jobs", "sloppy_job_permits", "sloppy_job_parked", "sloppy_job_limits")
REQUEST = ClaimRequest("worker", ("*",), ("free",), TAKEN)
FULL = ClaimRequest("parker", ("*",), ("full",), TAKEN)


def _declared(storage: SqlStore) -> Jobs:
    jobs = Jobs(storage)
    for name in ("free", "full"):
        jobs.declare(name)
    jobs.limit("api", concurrency=5000)
    jobs.limit("narrow", concurrency=1)
    return jobs


def _enqueue(jobs: Jobs, number: int) -> None:
    jobs.enqueue_many([("free", None, {"resource": "api", "partition": str(place % 5)}) for place in range(number)])


def _park(jobs: Jobs, number: int) -> None:
    jobs.enqueue_many([("full", None, {"resource": "narrow"})] * number)
    while jobs.admin.list_jobs(status="queued", name="full", page_size=1).items:
        jobs.storage.turn((), FULL)


def _ended(claims: list[Claim]) -> list[Settlement]:
    decision = decide(1, 3, Succeeded())
    return [Settlement(one.id, one.attempt, one.worker_id, decision, 0.0, None, one.followups) for one in claims]


def _work(storage: SqlStore) -> None:
    """Claim, settle and claim under a limit that does not bind."""
    claims = list(storage.turn((), REQUEST)[1])
    more = list(storage.turn(_ended(claims), REQUEST)[1])
    storage.turn(_ended(more), None)
    assert len(claims) == len(more) == TAKEN


def _next_in_line(storage: SqlStore, holder: list[Claim]) -> list[Claim]:
    """Give the permit back for which others wait, and claim the one that goes on."""
    storage.turn(_ended(holder), None)
    return list(storage.turn((), FULL)[1])


def test_a_turn_beside_a_long_line_reads_its_own_rows(postgres_url: str) -> None:
    storage = from_url(postgres_url)
    jobs = _declared(storage)
    watcher = create_engine(storage.engine.url, isolation_level="AUTOCOMMIT")
    for table in TABLES:
        _run(watcher, f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    _enqueue(jobs, 2 * TAKEN * 13)
    jobs.enqueue("full", None, resource="narrow")
    holder = list(storage.turn((), FULL)[1])
    _park(jobs, 20)
    # As often as it takes until driver and server keep the plans.
    for _ in range(12):
        _work(storage)
        holder = _next_in_line(storage, holder)
    _park(jobs, LINE)
    before = _read(storage, watcher)
    _work(storage)
    holder = _next_in_line(storage, holder)
    assert len(holder) == 1
    after = _read(storage, watcher)
    storage.close()
    watcher.dispose()
    assert after - before < 60 * TAKEN


def _read(storage: SqlStore, watcher: Engine) -> int:
    """How many rows and entries of indexes were read, once the server has counted everything."""
    storage.engine.dispose()
    query = f"""
        SELECT sum(seq_tup_read + (SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes i
                                   WHERE i.relid = t.relid))
        FROM pg_stat_user_tables t WHERE relname IN {TABLES}
    """
    others = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
    """
    # A session tells its counters when it ends.
    deadline = time.monotonic() + 60
    while _run(watcher, others):
        assert time.monotonic() < deadline, "a session of the store has not ended"
        time.sleep(0.05)
    return int(_run(watcher, query))


def _run(engine: Engine, statement: str) -> Any:
    with engine.connect() as connection:
        result = connection.execute(text(statement))
        return result.scalar_one() if result.returns_rows else None


def test_a_turn_takes_as_many_steps_beside_a_long_line(sqlite_url: str) -> None:
    storage = from_url(sqlite_url)
    storage.init()
    jobs = _declared(storage)
    _enqueue(jobs, 8 * TAKEN)
    jobs.enqueue("full", None, resource="narrow")
    holder = list(storage.turn((), FULL)[1])
    _park(jobs, 20)
    ticks = [0]

    def tick() -> None:
        ticks[0] += 1

    @event.listens_for(storage.engine, "checkout")
    def count(driver: sqlite3.Connection, *_: object) -> None:
        driver.set_progress_handler(tick, 100)

    def steps() -> int:
        nonlocal holder
        before = ticks[0]
        _work(storage)
        holder = _next_in_line(storage, holder)
        assert len(holder) == 1
        return ticks[0] - before

    few = steps()
    _park(jobs, LINE)
    assert steps() < 1.3 * few
    storage.close()


def test_plain_jobs_are_claimed_by_their_own_statement_again_once_no_others_are_met(postgres_url: str) -> None:
    storage = from_url(postgres_url)
    jobs = _declared(storage)
    claims = storage.claims
    assert isinstance(claims, PostgresClaims)
    plain = claims.claim_call(REQUEST).statement
    _enqueue(jobs, 3)
    assert len(storage.turn((), REQUEST)[1]) == 3
    assert claims.claim_call(REQUEST).statement != plain
    _enqueue(jobs, 3)
    jobs.enqueue("free")
    assert len(storage.turn((), REQUEST)[1]) == 4
    assert claims.claim_call(REQUEST).statement != plain
    jobs.enqueue("free")
    assert len(storage.turn((), REQUEST)[1]) == 1
    assert claims.claim_call(REQUEST).statement == plain
    storage.close()
