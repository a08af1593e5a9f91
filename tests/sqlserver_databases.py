"""Databases on a SQL Server for the tests: emptied after a test instead of made for each."""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from typing import Any, Self

import pytest
from sqlalchemy import URL, Connection, Engine, create_engine, make_url
from sqlalchemy.exc import DBAPIError

from sloppyjobs import storage
from sloppyjobs.storage.dialects.sqlserver import drivers, rollbacks
from sloppyjobs.storage.schema.tables import Tables

_VERSION_TABLE = Tables().schema_name
_OURS = [table.name for table in reversed(Tables().metadata.sorted_tables)]

# What a test may have altered and emptying does not put back.
_STATE = (
    f"SELECT version_num FROM {_VERSION_TABLE}",
    "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns ORDER BY 1, 2",
    "SELECT name FROM sys.indexes WHERE name LIKE '%sloppy%' ORDER BY 1",
)


class KeptEngine(Engine):
    """An engine whose connections outlive the stores that use it, but not a fork."""

    def dispose(self, close: bool = True) -> None:
        """Only in a forked child."""
        if not close:
            super().dispose(close=False)


_create = drivers.create
_engines: dict[URL, Engine] = {}


def share_connections() -> None:
    """Let all stores of a test process share connections: Babelfish takes seconds for a session's first statements."""

    def create(url: URL, **options: Any) -> Engine:
        made = _engines[url] = _engines.get(url) or _create(url, **options)
        return KeptEngine(made.pool, made.dialect, made.url)

    drivers.create = create


class SqlServer:
    """A server, at the URL of one of its databases: makes databases of its own, and drops them."""

    def __init__(self, url: str) -> None:
        self._url = make_url(url)
        self._engine = create_engine(self._url, isolation_level="AUTOCOMMIT")
        rollbacks.ask_server(self._engine)
        self._numbers = itertools.count()
        self._ready: list[str] = []
        self._made: list[str] = []
        self._expected: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for engine in _engines.values():
            engine.pool.dispose()
        for name in self._made:
            # A connection that a test has left open keeps its database.
            with suppress(DBAPIError):
                self._execute(f"DROP DATABASE {name}")
        self._engine.dispose()

    def url_of(self, name: str) -> URL:
        """The URL of a database."""
        return self._url.set(database=name)

    def create(self) -> str:
        """The name of a new database, which is empty."""
        while True:
            name = f"sloppy_{os.getpid()}_{next(self._numbers)}"
            try:
                self._execute(f"CREATE DATABASE {name}")
            except DBAPIError as error:
                # Babelfish cannot make two at once.
                if "concurrently" not in str(error):
                    raise
            else:
                self._made.append(name)
                return name

    def skip_unless_rows_are_locked(self) -> None:
        """Skip a test on Babelfish, which takes lock hints and does nothing about them."""
        with self._engine.connect() as connection:
            query = "SELECT CAST(SERVERPROPERTY('BabelfishVersion') AS nvarchar(64))"
            if connection.exec_driver_sql(query).scalar_one() is not None:
                pytest.skip("Babelfish heeds no lock hints")

    def take(self) -> str:
        """The name of a database with the schema in place and nothing in it."""
        if self._ready:
            return self._ready.pop()
        name = self.create()
        made = storage.from_url(self.url_of(name))
        made.init()
        with made.engine.connect() as connection:
            self._expected = self._expected or _state(connection)
        made.close()
        return name

    def give_back(self, name: str) -> None:
        """Empty it for the next test; one that was altered is not used again."""
        made = storage.from_url(self.url_of(name))
        if _emptied(made.engine) == self._expected:
            self._ready.append(name)

    def _execute(self, statement: str) -> None:
        with self._engine.connect() as connection:
            connection.exec_driver_sql(statement)


def _emptied(engine: Engine) -> Any:
    try:
        with engine.begin() as connection:
            for table in _strangers(connection):
                connection.exec_driver_sql(f"DROP TABLE {table}")
            state = _state(connection)
            for table in _OURS:
                connection.exec_driver_sql(f"DELETE FROM {table}")
            return state
    except Exception:
        return None  # what a test has done to it is not worth mending


def _strangers(connection: Connection) -> list[str]:
    names = connection.exec_driver_sql("SELECT name FROM sys.tables").scalars()
    return [name for name in names if name not in (_VERSION_TABLE, *_OURS)]


def _state(connection: Connection) -> list[list[Any]]:
    return [[tuple(row) for row in connection.exec_driver_sql(query)] for query in _STATE]
