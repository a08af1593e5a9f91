"""SQLite by an application's engine that begins transactions itself, as real savepoints need it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.orm import Session

from sloppyjobs import Jobs, errors
from sloppyjobs.storage.dialects.sqlite import transactions
from sloppyjobs.testing import drain


def _by_events(file: Path) -> Engine:
    """As SQLAlchemy's documentation has it."""
    engine = create_engine(f"sqlite:///{file}", connect_args={"timeout": 0.1})

    @event.listens_for(engine, "connect")
    def never_by_itself(driver: Any, _record: Any) -> None:
        driver.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


def _by_driver(file: Path) -> Engine:
    if sys.version_info < (3, 12):
        pytest.skip("the driver has autocommit=False since Python 3.12")
    return create_engine(f"sqlite:///{file}", connect_args={"timeout": 0.1, "autocommit": False})


@pytest.fixture(params=[_by_events, _by_driver])
def jobs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Jobs]:
    """Jobs on such an engine."""
    engine = request.param(tmp_path / "app.db")
    made = Jobs(engine)
    made.init()
    yield made
    engine.dispose()


def test_jobs_are_written_and_run(jobs: Jobs) -> None:
    @jobs.define("charge")
    def charge(ctx: Any, payload: int) -> int:
        ctx.log("info", "charged")
        return ctx.step("amount", lambda: payload)

    one = jobs.enqueue("charge", 1)
    many = jobs.enqueue_many([("charge", 2, {"business_key": "two"}), ("charge", 3)])
    assert drain(jobs) == 3
    assert [jobs.get(job.id).result for job in (one, *many)] == [1, 2, 3]
    with jobs.storage.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def test_savepoints_of_the_application_hold_for_its_jobs(jobs: Jobs) -> None:
    jobs.declare("charge")
    with jobs.storage.engine.connect() as connection:
        everything = connection.begin()
        with Session(connection, join_transaction_mode="create_savepoint") as session:
            kept = jobs.enqueue("charge", session=session)
            session.commit()
            jobs.enqueue("charge", session=session, idempotency_key="order")
            session.rollback()
            again = jobs.enqueue("charge", session=session, idempotency_key="order")
            assert not again.existing
            session.commit()
            assert {kept.id, again.id} == set(connection.exec_driver_sql("SELECT id FROM sloppy_jobs").scalars())
        everything.rollback()
    assert not jobs.admin.list_jobs().items


def test_a_file_that_stays_locked_is_named(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr("sloppyjobs.storage.database.RETRY_SECONDS", 0.1)
    jobs.declare("charge")
    other = create_engine(jobs.storage.engine.url)
    with other.connect() as connection:
        connection.connection.dbapi_connection.execute("BEGIN IMMEDIATE")  # type: ignore[union-attr]
        with pytest.raises(errors.JobsError, match="another connection has been writing"):
            jobs.enqueue("charge")
    other.dispose()
    assert jobs.enqueue("charge").status == "queued"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with the tables in it."""
    made = Jobs(f"sqlite:///{tmp_path / 'own.db'}")
    made.init()
    made.storage.close()
    return tmp_path / "own.db"


AUTOCOMMIT: dict[str, dict[str, Any]] = {
    "of the engine": {"isolation_level": "AUTOCOMMIT"},
    "of the driver": {"connect_args": {"isolation_level": None}},
    "of a new driver": {"connect_args": {"autocommit": True}},
}


@pytest.mark.parametrize("mode", AUTOCOMMIT)
def test_a_connection_in_autocommit_mode_has_no_transaction_to_enqueue_in(file: Path, mode: str) -> None:
    if mode == "of a new driver" and sys.version_info < (3, 12):
        pytest.skip("the driver has autocommit=True since Python 3.12")
    jobs = Jobs(f"sqlite:///{file}")
    jobs.declare("charge")
    engine = create_engine(f"sqlite:///{file}", **AUTOCOMMIT[mode])
    with Session(engine) as session, pytest.raises(errors.InvalidOption, match="autocommit mode"):
        jobs.enqueue("charge", session=session)
    with engine.connect() as connection:
        for write in (
            lambda: jobs.enqueue("charge", connection=connection),
            lambda: jobs.enqueue_many([("charge", 1), ("charge", 2)], connection=connection),
            lambda: jobs.chain([("charge", 1), ("charge", 2)], connection=connection),
        ):
            with pytest.raises(errors.InvalidOption, match="autocommit mode"):
                write()
        assert not jobs.admin.list_jobs().items
        connection.exec_driver_sql("BEGIN")
        jobs.enqueue("charge", connection=connection)
        connection.exec_driver_sql("ROLLBACK")
    assert not jobs.admin.list_jobs().items
    engine.dispose()
    jobs.storage.close()
