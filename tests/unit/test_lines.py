"""Connections that wait for the next enqueue: few, shared, replaced when the server ends them, closed in the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, make_url
from sqlalchemy.exc import DBAPIError, TimeoutError

from sloppyjobs import Jobs, storage
from sloppyjobs.storage.dialects.postgres.autocommit_pool import KEPT, MOST, OwnLines, PooledLines
from sloppyjobs.storage.dialects.postgres.storage import PostgresStorage


@pytest.fixture
def outside(postgres_url: str) -> Iterator[Any]:
    """A connection to another database of the server, from which the test's own is watched."""
    with psycopg.connect(postgres_url, autocommit=True, dbname="postgres") as connection:
        connection.execute("SELECT set_config('test.database', %s, false)", (make_url(postgres_url).database,))
        yield connection


@pytest.fixture
def jobs(postgres_url: str) -> Iterator[Jobs]:
    found = Jobs(postgres_url)
    found.declare("greet")
    yield found
    found.storage.close()


OTHERS = "FROM pg_stat_activity WHERE datname = current_setting('test.database')"


def backends(outside: Any) -> list[int]:
    return sorted(pid for (pid,) in outside.execute(f"SELECT pid {OTHERS}").fetchall())


def end_all(outside: Any) -> int:
    return len(outside.execute(f"SELECT pg_terminate_backend(pid, 5000) {OTHERS}").fetchall())


def lines_of(storage: Any) -> Any:
    return storage._lines


def test_one_line_serves_one_enqueue_after_the_other(jobs: Jobs, outside: Any) -> None:
    jobs.enqueue("greet")
    before = backends(outside)
    for number in range(3):
        jobs.enqueue("greet", {"n": number})
        jobs.enqueue_many([("greet", {"n": number})] * 3)
        jobs.enqueue_many([("greet", {"n": number}, {"priority": number})] * 3)
    assert backends(outside) == before
    assert len(lines_of(jobs.storage)._waiting) == 1


def test_lines_that_the_server_ended_are_replaced_and_nothing_is_lost(jobs: Jobs, outside: Any) -> None:
    written = [jobs.enqueue("greet").id]
    with lines_of(jobs.storage).lent():
        written.append(jobs.enqueue("greet").id)
    assert len(lines_of(jobs.storage)._waiting) == 2
    assert end_all(outside) >= 2
    written.append(jobs.enqueue("greet").id)
    assert len(lines_of(jobs.storage)._waiting) == 1, "the broken ones are gone"
    assert end_all(outside) >= 1
    written += [job.id for job in jobs.enqueue_many([("greet", {})] * 2)]
    assert [jobs.get(id).id for id in written] == written


def test_a_refused_statement_leaves_its_line_as_it_was(jobs: Jobs, outside: Any) -> None:
    jobs.enqueue("greet")
    before = backends(outside)
    with pytest.raises(DBAPIError, match="no_such_table"), lines_of(jobs.storage).lent() as line:
        line.cursor.execute("SELECT * FROM no_such_table")
    jobs.enqueue("greet")
    assert backends(outside) == before


def test_a_line_that_is_lent_while_its_engine_is_disposed_of_does_not_come_back(jobs: Jobs) -> None:
    with lines_of(jobs.storage).lent() as line:
        jobs.storage.engine.dispose()
        assert line.cursor.execute("SELECT 1").fetchone() == (1,)
    assert line.driver.closed
    assert lines_of(jobs.storage)._waiting == []
    jobs.enqueue("greet")


class DisposedBefore(list[Any]):
    """Another thread disposes of the engine just before a line comes back."""

    engine: Any

    def append(self, line: Any) -> None:
        self.engine.dispose()
        super().append(line)


def test_a_line_that_comes_back_while_all_are_closed_is_closed_too(jobs: Jobs) -> None:
    lines = lines_of(jobs.storage)
    lines._waiting = kept = DisposedBefore()
    kept.engine = jobs.storage.engine
    with lines.lent() as line:
        line.cursor.execute("SELECT 1")
    assert line.driver.closed
    assert kept == lines._waiting == []


@pytest.mark.parametrize("ours", [True, False])
def test_a_transaction_that_was_left_open_is_undone(postgres_url: str, *, ours: bool) -> None:
    engine = create_engine(postgres_url.replace("postgresql://", "postgresql+psycopg://"))
    kept = storage.postgres(postgres_url if ours else engine)
    jobs = Jobs(kept)
    jobs.declare("greet")
    assert isinstance(lines_of(kept), OwnLines if ours else PooledLines)
    jobs.enqueue("greet")
    with pytest.raises(ZeroDivisionError), lines_of(kept).lent() as line:
        line.driver.execute("BEGIN")
        line.driver.execute("DELETE FROM sloppy_jobs")
        raise ZeroDivisionError
    with lines_of(kept).lent() as line:
        assert line.driver.autocommit
        assert line.cursor.execute("SELECT count(*) FROM sloppy_jobs").fetchone() == (1,)
    kept.close()
    engine.dispose()


def test_of_many_at_once_few_stay_and_none_when_the_engine_is_disposed_of(jobs: Jobs, outside: Any) -> None:
    with ExitStack() as stack:
        for _ in range(KEPT + 5):
            stack.enter_context(lines_of(jobs.storage).lent())
        assert len(backends(outside)) == KEPT + 5
    assert len(lines_of(jobs.storage)._waiting) == KEPT
    jobs.storage.engine.dispose()
    deadline = time.monotonic() + 30
    while backends(outside):
        assert time.monotonic() < deadline, "connections are left"
        time.sleep(0.01)
    jobs.enqueue("greet")


def test_lines_have_a_bound_and_a_thread_waits_for_one_in_vain_only_so_long(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sloppyjobs.storage.dialects.postgres.autocommit_pool.PATIENCE", 0.05)
    with ExitStack() as stack:
        for _ in range(MOST):
            stack.enter_context(lines_of(jobs.storage).lent())
        with pytest.raises(TimeoutError, match=f"all {MOST} connections for enqueues were in use for 0.05 s"):
            jobs.enqueue("greet")
    assert jobs.enqueue("greet").status == "queued"


def test_a_storage_on_connections_apart_has_lines_apart(postgres_url: str) -> None:
    engine = create_engine(postgres_url.replace("postgresql://", "postgresql+psycopg://"))
    shared: PostgresStorage = storage.postgres(engine)
    apart = shared.apart()
    assert isinstance(lines_of(shared), PooledLines)
    assert isinstance(lines_of(apart), OwnLines)
    with lines_of(apart).lent():
        assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    apart.close()
    engine.dispose()
