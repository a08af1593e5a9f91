"""A database that is handed on with the connections to it is as good as a new one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from kept_database import KeptDatabases, Server, WarmDatabase, url_by
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError, OperationalError

from sloppyjobs.storage.schema.tables import Tables

JOBS, QUEUES = Tables().jobs.name, Tables().queues.name


@pytest.fixture
def warm(server: Server, kept_databases: KeptDatabases) -> Iterator[WarmDatabase]:
    """One of the test's own."""
    with WarmDatabase(server, kept_databases.template) as made:
        yield made


@pytest.fixture(params=["psycopg", "psycopg2", "pg8000"])
def make_engine(request: pytest.FixtureRequest, server: Server) -> Iterator[Callable[[str], Engine]]:
    """Makes engines by each driver."""
    made: list[Engine] = []

    def make(name: str) -> Engine:
        made.append(create_engine(url_by(request.param, server.url_of(name))))
        return made[-1]

    yield make
    for engine in made:
        engine.dispose()


def _one(connection: Connection, statement: str) -> object:
    return connection.execute(text(statement)).scalar_one()


def test_a_later_engine_gets_the_same_process_of_the_server_and_nothing_of_its_session(
    warm: WarmDatabase, make_engine: Callable[[str], Engine]
) -> None:
    engine = make_engine(warm.take())
    with engine.connect() as connection:
        process = _one(connection, "SELECT pg_backend_pid()")
        connection.execute(text("SET statement_timeout = 12345"))
        connection.execute(text("PREPARE mine AS SELECT 1"))
        connection.execute(text("SELECT pg_advisory_lock(1)"))
        connection.commit()
        connection.execute(text(f"LOCK {JOBS}"))
        connection.invalidate()  # closes it in the middle of a transaction
    warm.give_back()
    with make_engine(warm.take()).connect() as connection:
        assert _one(connection, "SELECT pg_backend_pid()") == process
        assert _one(connection, "SHOW statement_timeout") == "0"
        assert _one(connection, "SELECT count(*) FROM pg_prepared_statements WHERE name = 'mine'") == 0
        assert _one(connection, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0
        assert _one(connection, f"SELECT count(*) FROM pg_locks WHERE relation = '{JOBS}'::regclass") == 0


def test_an_engine_that_a_test_has_left_behind_is_disconnected_and_refused(
    warm: WarmDatabase, make_engine: Callable[[str], Engine]
) -> None:
    engine = make_engine(warm.take())
    with engine.connect() as connection:
        connection.execute(text("SELECT 1"))
        warm.give_back()
        warm.take()
        with pytest.raises(DBAPIError):
            connection.execute(text("SELECT 1"))
    with pytest.raises(OperationalError, match="another test"):
        engine.connect()


@pytest.mark.parametrize(
    "change",
    [
        f"ALTER TABLE {JOBS} ADD COLUMN more int",
        f"ANALYZE {QUEUES}",
        "CREATE SCHEMA more",
        "CREATE TABLE more (id int)",
    ],
)
def test_what_a_test_has_altered_is_not_there_for_the_next(
    warm: WarmDatabase, make_engine: Callable[[str], Engine], change: str
) -> None:
    looks = (
        "SELECT (SELECT count(*) FROM pg_attribute WHERE attrelid >= 16384) + (SELECT count(*) FROM pg_namespace)"
        " + (SELECT count(*) FROM pg_statistic WHERE starelid >= 16384)"
    )
    found = []
    for statement in ("SELECT 1", change, "SELECT 1"):
        engine = make_engine(warm.take())
        with engine.begin() as connection:
            found.append(_one(connection, looks))
            assert _one(connection, f"SELECT count(*) FROM {QUEUES}") == 0
            connection.execute(text(f"INSERT INTO {QUEUES} (name, created_at) VALUES ('q', now())"))
            connection.execute(text(statement))
        engine.dispose()
        warm.give_back()
    assert len(set(found)) == 1
