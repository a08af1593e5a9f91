"""What is different between the drivers of PostgreSQL: how they are found, what their errors say, how they wait.

Only psycopg 3 can do what the fast path needs. All others share the plain path, but for a single job: psycopg2, and
psycopg 3 in coroutines, take the statement for it as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from sqlalchemy import URL, Connection, Engine, Executable, create_engine

from sloppyjobs import errors
from sloppyjobs.storage.driver import Prepared

FAST = "psycopg"
"""SQLAlchemy's name for psycopg 3, the driver of the fast path."""

BY_DEFAULT = ("psycopg", "psycopg2")
"""Drivers for a URL that names none; the first that is installed is taken."""

BY_NAME = ("psycopg2", "psycopg_async")
"""Other drivers whose parameters are written ``%(name)s``."""

BATCH = 500
"""Statements that psycopg2 sends at once."""


def driver_name(target: URL | Engine) -> str:
    """SQLAlchemy's name of the driver: the one that is named, or the one that is installed."""
    if isinstance(target, Engine):
        return f"{target.dialect.driver}_async" if target.dialect.is_async else target.dialect.driver
    _, _, named = target.drivername.partition("+")
    return named or next((name for name in BY_DEFAULT if find_spec(name) is not None), FAST)


def create(url: URL, **options: Any) -> Engine:
    """An engine of our own. Raises ``DriverMissing``, which names the extra, where the driver is not installed."""
    driver = driver_name(url)
    try:
        return create_engine(url.set(drivername=f"postgresql+{driver}"), **options)
    except ImportError as error:
        extra = "pip install 'sloppyjobs[postgres]'"
        if driver == FAST:
            raise errors.DriverMissing(f"PostgreSQL needs psycopg 3, which is not installed: {extra}") from error
        raise errors.DriverMissing(
            f"the URL asks for the driver {driver}, which is not installed: install it, or {extra} "
            "and use a postgresql:// URL"
        ) from error


def sqlstate(error: object) -> str | None:
    """The five characters by which PostgreSQL says what went wrong, from an error of any driver, or SQLAlchemy's."""
    cause: Any = getattr(error, "orig", None) or error
    for attribute in ("sqlstate", "pgcode"):  # psycopg 3 and asyncpg; psycopg2
        state = getattr(cause, attribute, None)
        if isinstance(state, str):
            return state
    # pg8000 passes on the fields of the server's message.
    fields = cause.args[0] if getattr(cause, "args", ()) else None
    return fields.get("C") if isinstance(fields, Mapping) else None


def autocommits(connection: Connection) -> bool:
    """Whether each statement on the connection is a transaction of its own."""
    driver: Any = connection.connection.dbapi_connection
    return bool(driver.autocommit)


@contextmanager
def in_transactions(connection: Connection) -> Iterator[None]:
    """Leave autocommit mode for a while. Not by SQLAlchemy's option, after which 2.0 forgets what the engine's was."""
    if not autocommits(connection):
        yield
        return
    driver: Any = connection.connection.dbapi_connection
    driver.autocommit = False
    try:
        yield
    finally:
        if not connection.invalidated:
            driver.autocommit = True


def run_alone(driver: Any, statement: str) -> None:
    """Execute a statement on a connection of the driver that nobody uses yet, in one round trip."""
    autocommit, driver.autocommit = driver.autocommit, True
    cursor = driver.cursor()
    cursor.execute(statement)
    cursor.close()
    driver.autocommit = autocommit


@contextmanager
def pipeline(driver: Any) -> Iterator[None]:
    """Statements that are sent without waiting for each other's answers.

    An error in the block is raised as it is. The driver's own block would also log a warning that the other statements
    were not executed, which is so whenever somebody else was faster with a key.
    """
    failed: Exception | None = None
    try:
        with driver.pipeline():
            try:
                yield
            except Exception as error:
                failed = error
    except Exception:
        if failed is None:
            raise
    if failed is not None:
        raise failed


def refuse_autocommit(connection: Connection | None) -> None:
    """Raise ``InvalidOption`` for a caller's connection that has no transaction to enqueue in."""
    if connection is not None and autocommits(connection):
        raise errors.InvalidOption(
            "connection=…: it is in autocommit mode, there is no transaction to enqueue in; begin one, or pass none"
        )


def prepared(statement: Executable, engine: Engine) -> Prepared:
    """A statement for the driver's cursor."""
    return _BatchedByPsycopg2(statement, engine) if engine.dialect.driver == "psycopg2" else Prepared(statement, engine)


class _BatchedByPsycopg2(Prepared):
    """Many rows in few round trips; the driver's own ``executemany`` takes one for each row."""

    __slots__ = ()

    def many(self, cursor: Any, rows: Sequence[Mapping[str, Any]]) -> None:
        from psycopg2.extras import execute_batch  # noqa: PLC0415 - only where it is the driver

        execute_batch(cursor, self.sql, [self.bind(row) for row in rows], page_size=BATCH)
