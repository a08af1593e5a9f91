"""Connections that wait for the next enqueue: few, shared, replaced when the server ends them, closed in the end."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, make_url
from sqlalchemy.exc import DBAPIError, TimeoutError

from sloppyjobs import Jobs, storage
from sloppyjobs.storage.dialects.postgres.autocommit_pool import MAX_IDLE, MAX_IN_USE, EnginePool, OwnPool
from sloppyjobs.storage.dialects.postgres.drivers import pipeline
from sloppyjobs.storage.driver import detached


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


def pool_of(storage: Any) -> Any:
    return storage.inserts._pool


def test_one_connection_serves_one_enqueue_after_the_other(jobs: Jobs, outside: Any) -> None:
    jobs.enqueue("greet")
    before = backends(outside)
    for number in range(3):
        jobs.enqueue("greet", {"n": number})
        jobs.enqueue_many([("greet", {"n": number})] * 3)
        jobs.enqueue_many([("greet", {"n": number}, {"priority": number})] * 3)
    assert backends(outside) == before
    assert len(pool_of(jobs.storage)._idle) == 1


def test_connections_that_the_server_ended_are_replaced_and_nothing_is_lost(jobs: Jobs, outside: Any) -> None:
    written = [jobs.enqueue("greet").id]
    with pool_of(jobs.storage).checkout():
        written.append(jobs.enqueue("greet").id)
    assert len(pool_of(jobs.storage)._idle) == 2
    assert end_all(outside) >= 2
    written.append(jobs.enqueue("greet").id)
    assert len(pool_of(jobs.storage)._idle) == 1, "the broken ones are gone"
    assert end_all(outside) >= 1
    written += [job.id for job in jobs.enqueue_many([("greet", {})] * 2)]
    assert [jobs.get(id).id for id in written] == written


def test_a_refused_statement_leaves_its_connection_as_it_was(jobs: Jobs, outside: Any) -> None:
    jobs.enqueue("greet")
    before = backends(outside)
    with pytest.raises(DBAPIError, match="no_such_table"), pool_of(jobs.storage).checkout() as connection:
        connection.cursor.execute("SELECT * FROM no_such_table")
    jobs.enqueue("greet")
    assert backends(outside) == before


def test_a_connection_in_use_while_its_engine_is_disposed_of_does_not_come_back(jobs: Jobs) -> None:
    with pool_of(jobs.storage).checkout() as connection:
        jobs.storage.engine.dispose()
        assert connection.cursor.execute("SELECT 1").fetchone() == (1,)
    assert connection.driver.closed
    assert pool_of(jobs.storage)._idle == []
    jobs.enqueue("greet")


class DisposedBefore(list[Any]):
    """Another thread disposes of the engine just before a connection comes back."""

    engine: Any

    def append(self, connection: Any) -> None:
        self.engine.dispose()
        super().append(connection)


def test_a_connection_that_comes_back_while_all_are_closed_is_closed_too(jobs: Jobs) -> None:
    pool = pool_of(jobs.storage)
    pool._idle = kept = DisposedBefore()
    kept.engine = jobs.storage.engine
    with pool.checkout() as connection:
        connection.cursor.execute("SELECT 1")
    assert connection.driver.closed
    assert kept == pool._idle == []


@pytest.mark.parametrize("ours", [True, False])
def test_a_transaction_that_was_left_open_is_undone(postgres_url: str, *, ours: bool) -> None:
    engine = create_engine(postgres_url.replace("postgresql://", "postgresql+psycopg://"))
    kept = storage.postgres(postgres_url if ours else engine)
    jobs = Jobs(kept)
    jobs.declare("greet")
    assert isinstance(pool_of(kept), OwnPool if ours else EnginePool)
    jobs.enqueue("greet")
    with pytest.raises(ZeroDivisionError), pool_of(kept).checkout() as connection:
        connection.driver.execute("BEGIN")
        connection.driver.execute("DELETE FROM sloppy_jobs")
        raise ZeroDivisionError
    with pool_of(kept).checkout() as connection:
        assert connection.driver.autocommit
        assert connection.cursor.execute("SELECT count(*) FROM sloppy_jobs").fetchone() == (1,)
    kept.close()
    engine.dispose()


@pytest.mark.parametrize("autocommit", [False, True])
def test_an_engine_of_the_application_stays_in_its_mode(postgres_url: str, *, autocommit: bool) -> None:
    settings: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
    engine = create_engine(postgres_url.replace("postgresql://", "postgresql+psycopg://"), **settings)
    jobs = Jobs(engine)
    jobs.init()
    jobs.declare("greet")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE notes (note TEXT)")
    jobs.enqueue("greet")
    with engine.connect() as connection:
        connection.exec_driver_sql("INSERT INTO notes VALUES ('written')")
        connection.rollback()
        kept = connection.exec_driver_sql("SELECT note FROM notes").scalars().all()
    assert kept == (["written"] if autocommit else [])
    engine.dispose()


def test_of_many_at_once_few_stay_and_none_when_the_engine_is_disposed_of(jobs: Jobs, outside: Any) -> None:
    with ExitStack() as stack:
        for _ in range(MAX_IDLE + 5):
            stack.enter_context(pool_of(jobs.storage).checkout())
        assert len(backends(outside)) == MAX_IDLE + 5
    assert len(pool_of(jobs.storage)._idle) == MAX_IDLE
    jobs.storage.engine.dispose()
    deadline = time.monotonic() + 30
    while backends(outside):
        assert time.monotonic() < deadline, "connections are left"
        time.sleep(0.01)
    jobs.enqueue("greet")


def test_connections_have_a_bound_and_a_checkout_a_timeout(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sloppyjobs.storage.dialects.postgres.autocommit_pool.CHECKOUT_TIMEOUT", 0.05)
    with ExitStack() as stack:
        for _ in range(MAX_IN_USE):
            stack.enter_context(pool_of(jobs.storage).checkout())
        with pytest.raises(TimeoutError, match=f"all {MAX_IN_USE} connections for enqueues were in use for 0.05 s"):
            jobs.enqueue("greet")
    assert jobs.enqueue("greet").status == "queued"


def test_a_store_on_its_own_connections_has_a_pool_of_its_own(postgres_url: str) -> None:
    engine = create_engine(postgres_url.replace("postgresql://", "postgresql+psycopg://"))
    shared = storage.postgres(engine)
    separate = shared.with_own_connections()
    assert isinstance(pool_of(shared), EnginePool)
    assert isinstance(pool_of(separate), OwnPool)
    with pool_of(separate).checkout():
        assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    separate.close()
    engine.dispose()


def test_an_error_in_a_pipeline_is_raised_as_it_is_and_nothing_is_logged(
    jobs: Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    driver = detached(jobs.storage.engine)
    with pytest.raises(psycopg.errors.DivisionByZero), pipeline(driver):
        driver.execute("SELECT 1 / 0")
        driver.pgconn.send_flush_request()
        driver.pgconn.flush()
        # What is sent after the error has arrived is not executed any more.
        assert select.select([driver], [], [], 60)[0]
        driver.execute("SELECT 1")
    assert caplog.records == []
    driver.rollback()
    with pipeline(driver):
        found = driver.execute("SELECT 1")
    assert found.fetchone() == (1,)
    driver.close()
