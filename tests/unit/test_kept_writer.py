"""The connection to a SQLite file that waits for the next enqueue: one, replaced after an error, closed in the end."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text

from sloppyjobs import Jobs, errors
from sloppyjobs.storage.dialects.sqlite.kept_writer import KeptWriter
from sloppyjobs.storage.unavailable import StorageUnavailable


@pytest.fixture
def jobs(sqlite_url: str) -> Iterator[Jobs]:
    found = Jobs(sqlite_url)
    found.init()
    found.declare("greet")
    yield found
    found.storage.close()


@pytest.fixture
def opened(jobs: Jobs) -> list[Any]:
    """The connections that are opened from now on; those of the pool are closed."""
    found: list[Any] = []
    jobs.storage.engine.dispose()
    event.listen(jobs.storage.engine, "connect", lambda driver, _record: found.append(driver))
    return found


def writer_of(jobs: Jobs) -> KeptWriter:
    storage: Any = jobs.storage
    writer: KeptWriter = storage.inserts._kept_writer
    return writer


def is_closed(driver: Any) -> bool:
    try:
        driver.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return True
    return False


def written(jobs: Jobs) -> tuple[int, int]:
    """How many jobs and events there are."""
    with jobs.storage.engine.connect() as connection:
        asked = "SELECT (SELECT count(*) FROM sloppy_jobs), (SELECT count(*) FROM sloppy_job_events)"
        return tuple(connection.execute(text(asked)).one())


@pytest.mark.parametrize("key", [None, "order-1"], ids=["without a key", "with a key"])
def test_an_enqueue_is_five_statements_on_the_same_connection(jobs: Jobs, opened: list[Any], key: str | None) -> None:
    jobs.enqueue("greet", 1)
    driver = opened[-1]
    statements: list[str] = []
    driver.set_trace_callback(lambda statement: statements.append(statement.split()[0]))
    job = jobs.enqueue("greet", 2, idempotency_key=key)
    assert statements == ["BEGIN", "SELECT", "INSERT", "INSERT", "COMMIT"]
    assert opened[-1] is driver
    assert jobs.get(job.id) == job


def test_it_is_closed_with_the_storage_and_the_next_enqueue_opens_another(jobs: Jobs, opened: list[Any]) -> None:
    jobs.enqueue("greet")
    jobs.storage.close()
    assert is_closed(opened[-1])
    jobs.enqueue("greet")
    assert written(jobs) == (2, 2)


def test_one_that_is_in_use_while_the_engine_is_disposed_of_is_closed_after_it(jobs: Jobs, opened: list[Any]) -> None:
    with writer_of(jobs).transaction() as cursor:
        cursor.execute("SELECT 1")
        jobs.storage.engine.dispose()
        assert not is_closed(opened[-1])
    assert is_closed(opened[-1])


def test_an_error_ends_the_transaction_and_the_connection(jobs: Jobs, opened: list[Any]) -> None:
    with pytest.raises(ZeroDivisionError), writer_of(jobs).transaction() as cursor:
        cursor.execute("DELETE FROM sloppy_jobs")
        raise ZeroDivisionError
    assert is_closed(opened[-1])
    jobs.enqueue("greet")
    assert written(jobs) == (1, 1)


@pytest.mark.parametrize("key", [None, "order-1"], ids=["without a key", "with a key"])
def test_a_commit_that_was_busy_is_run_again_and_written_once(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    commit, refusals = KeptWriter._commit, [True, False]

    def busy_after_it_was_done(writer: KeptWriter, driver: Any) -> None:
        if not refusals.pop():
            commit(writer, driver)
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error
        commit(writer, driver)

    monkeypatch.setattr(KeptWriter, "_commit", busy_after_it_was_done)
    told = jobs.enqueue("greet", idempotency_key=key)
    assert (told.existing, refusals) == (False, [True])
    assert jobs.get(told.id) == told
    assert written(jobs) == (1, 1)


def test_a_commit_that_failed_half_way_is_told_as_maybe_done(jobs: Jobs) -> None:
    class Failing:
        """A connection whose disk fails."""

        def commit(self) -> None:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error

    with pytest.raises(StorageUnavailable) as caught:
        writer_of(jobs)._commit(Failing())
    assert caught.value.maybe_done


def test_an_enqueue_inside_of_an_enqueue_is_refused_at_once(jobs: Jobs) -> None:
    with writer_of(jobs).transaction(), pytest.raises(errors.InvalidOption, match="still open"):
        jobs.enqueue("greet")
    jobs.enqueue("greet")
    assert written(jobs) == (1, 1)


@pytest.mark.parametrize("engine", [False, True], ids=["in memory", "an application's engine"])
def test_connections_that_are_not_ours_to_keep_go_back_to_their_pool(sqlite_url: str, engine: bool) -> None:
    made = create_engine(sqlite_url) if engine else None
    jobs = Jobs(made or "sqlite://")
    jobs.init()
    jobs.declare("greet")
    jobs.enqueue("greet")
    storage: Any = jobs.storage
    assert storage.inserts._kept_writer is None
    assert storage.engine.pool.checkedout() == 0
    assert written(jobs) == (1, 1)
    storage.engine.dispose()
