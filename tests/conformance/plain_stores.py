"""Stores that run the statements which all databases share: what a dialect does faster is taken away.

What stays is what the database or its driver cannot do without. The variants without locks leave out lock clauses,
advisory locks and the early start of SQLite's writes: there the conditional updates alone keep two writers apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kept_database import url_by
from sqlalchemy import URL, Connection, Engine, Select, make_url

from sloppyjobs.storage import SqlStore
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialect import Dialect
from sloppyjobs.storage.dialects.postgres.dialect import PostgresDialect
from sloppyjobs.storage.dialects.postgres.engine import own_engine as postgres_engine
from sloppyjobs.storage.dialects.sqlite.dialect import SqliteDialect
from sloppyjobs.storage.dialects.sqlite.store import own_engine as sqlite_engine
from sloppyjobs.storage.schema.tables import Tables

FASTER = {"prepared", "operations", "watcher"}
"""Methods of a dialect that do what the common code does, only faster."""

COMMON = {
    "beyond",
    "event_mark",
    "first",
    "one_writer",
    "plan_by_index",
    "read_settings",
    "recursive_minimum",
    "same_key",
    "step",
    "style",
    "take_turns",
    "text_start",
}
"""Methods and values of a dialect for which the database can do with the common form."""

NEEDED = {
    "__init__",
    "announce",
    "attach",
    "checks",
    "default_port",
    "ensure_begun",
    "file",
    "fires_alone",
    "is_denied",
    "is_lost",
    "is_read_only",
    "is_timeout",
    "is_unreadable",
    "is_wrong_address",
    "list_param",
    "place",
    "preparation",
    "prepare_database",
    "raw_text",
    "refuse_caller",
    "trailing_spaces",
    "to_driver",
    "writing",
}
"""Methods and values of a dialect without which the database would not work, or would promise less."""


def plain(dialect: Any) -> Any:
    """The dialect with the common statements, operations and forms of SQL."""
    common = {name: getattr(Dialect, name) for name in replaced(dialect) & (FASTER | COMMON)}
    return type(f"Plain{dialect.__name__}", (dialect,), common)


def replaced(dialect: type[Dialect]) -> set[str]:
    """What the dialect says in its own way, where there is a common one."""
    ours = {name for name in vars(dialect) if name == "__init__" or not name.startswith("_")}
    return {name for name in ours if hasattr(Dialect, name)} - Dialect.__abstractmethods__


PlainSqlite: Any = plain(SqliteDialect)
PlainPostgres: Any = plain(PostgresDialect)


class UnlockedSqlite(PlainSqlite):
    """Without lock clauses; transactions begin with their first write, as the driver does it."""

    def locked(self, query: Select[Any], *, skip: bool = False) -> Select[Any]:
        """The query as it is."""
        return query

    @contextmanager
    def writing(self, engine: Engine, *, ours: bool) -> Iterator[Connection]:
        """A transaction that has no right to write yet."""
        with engine.begin() as connection:
            yield connection


class UnlockedPostgres(PlainPostgres):
    """Without lock clauses, and schedulers do not know of each other."""

    def fires_alone(self, connection: Connection, schedule_id: str) -> bool:
        """As if it were so."""
        return True

    def locked(self, query: Select[Any], *, skip: bool = False) -> Select[Any]:
        """The query as it is."""
        return query


def database_by(
    kind: type[Dialect], url: URL, clock: Clock | None = None, database: type[Database] = Database
) -> Database:
    """The database at this address, by a dialect of this kind."""
    engine = sqlite_engine(url, "FULL") if issubclass(kind, SqliteDialect) else postgres_engine(url)
    return database(engine, dialect=kind(Tables(style=kind.style)), clock=clock, owns_engine=True)


@contextmanager
def opened(kind: type[Dialect], request: pytest.FixtureRequest) -> Iterator[Callable[..., SqlStore]]:
    """Makes stores by a dialect of this kind over the test's database, which is empty."""
    if issubclass(kind, SqliteDialect):
        url = request.getfixturevalue("ready_sqlite_url")
    else:
        url = url_by("psycopg", request.getfixturevalue("postgres_url"))
    made: list[SqlStore] = []

    def make(clock: Clock | None = None) -> SqlStore:
        made.append(SqlStore(database_by(kind, make_url(url), clock)))
        return made[-1]

    yield make
    for one in made:
        one.close()
