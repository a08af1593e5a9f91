"""A client that is frozen inside of a transaction: the server ends that, others go on, and it is run again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest
from kept_database import url_by
from sqlalchemy import Connection, Engine, create_engine, make_url, text, update

from sloppyjobs import Jobs, storage

LONG = 60.0
"""What nobody here ever waits for; without a bound it would be for ever."""

ADDRESSES: dict[str, tuple[str, Callable[[str], str]]] = {
    "psycopg": ("postgres_url", lambda url: url_by("psycopg", url)),
    "psycopg2": ("postgres_url", lambda url: url_by("psycopg2", url)),
    "mariadb": ("mariadb_url", lambda url: url),
}
IDLE = {
    "postgresql": "SELECT current_setting('idle_in_transaction_session_timeout')",
    "mysql": "SELECT @@idle_transaction_timeout",
}


@pytest.fixture(params=ADDRESSES)
def url(request: pytest.FixtureRequest) -> str:
    """A database, by a driver that sends the statements of a transaction one by one."""
    name, by_driver = ADDRESSES[request.param]
    return by_driver(request.getfixturevalue(name))


@pytest.fixture(params=["our engine", "the application's engine"])
def jobs(request: pytest.FixtureRequest, url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    """On connections of our own, whose servers lose patience soon."""
    for database in ("postgres", "mariadb"):
        monkeypatch.setattr(f"sloppyjobs.storage.dialects.{database}.connections.IDLE_TRANSACTION", 1.0)
    engine = create_engine(url)
    made = storage.from_url(url if request.param == "our engine" else engine)
    jobs = Jobs(made.with_own_connections())
    jobs.declare("greet")
    yield jobs
    jobs.storage.close()
    engine.dispose()


def test_its_locks_are_freed_and_its_work_is_done_all_the_same(jobs: Jobs) -> None:
    job = jobs.enqueue("greet")
    holds, freed = threading.Event(), threading.Event()
    runs: list[int] = []

    def freeze(connection: Connection) -> None:
        runs.append(1)
        _raise_priority(connection, jobs, job.id)
        holds.set()
        assert freed.wait(LONG)
        _raise_priority(connection, jobs, job.id)

    frozen = threading.Thread(target=jobs.storage.database.write, args=(freeze,))
    frozen.start()
    assert holds.wait(LONG)
    jobs.storage.database.write(lambda connection: _raise_priority(connection, jobs, job.id))
    freed.set()
    frozen.join(LONG)
    assert len(runs) == 2, "its first transaction was ended, and its second one committed"
    assert jobs.get(job.id).priority == 3


def _raise_priority(connection: Connection, jobs: Jobs, job_id: str) -> None:
    table = jobs.storage.tables.jobs
    connection.execute(update(table).where(table.c.id == job_id).values(priority=table.c.priority + 1))


def _idle(engine: Engine) -> str:
    with engine.connect() as connection:
        return str(connection.execute(text(IDLE[engine.dialect.name])).scalar_one())


def test_connections_of_an_application_are_left_alone(url: str) -> None:
    engine = create_engine(url)
    made = storage.from_url(engine)
    own = made.with_own_connections()
    assert (_idle(engine), _idle(own.engine)) == ("0", "10" if engine.dialect.name == "mysql" else "10s")
    own.close()
    engine.dispose()


@pytest.mark.parametrize(("given", "kept"), [("77", "77s"), ("0", "0")])
def test_what_the_url_says_wins_on_postgres(postgres_url: str, given: str, kept: str) -> None:
    option = f"-c idle_in_transaction_session_timeout={given}{'s' if given != '0' else ''}"
    made = storage.postgres(make_url(postgres_url).update_query_dict({"options": option}))
    assert _idle(made.engine) == kept
    made.close()


def test_what_the_url_says_wins_on_mariadb(mariadb_url: str) -> None:
    command = "SET SESSION idle_transaction_timeout = 77"
    made = storage.mariadb(make_url(mariadb_url).update_query_dict({"init_command": command}))
    assert _idle(made.engine) == "77"
    made.close()


def test_behind_a_pooler_nothing_is_set_that_would_hold_for_others(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pooler tells its clients a number of its own, which is not that of the process that does the work."""
    monkeypatch.setattr(psycopg.ConnectionInfo, "backend_pid", property(lambda info: info.pgconn.backend_pid + 1))
    made = storage.postgres(postgres_url)
    assert _idle(made.engine) == "0"
    made.close()
