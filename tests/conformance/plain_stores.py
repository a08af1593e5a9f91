"""Stores that run the statements which all databases share: what a dialect does faster is taken away.

What stays is what the database or its driver cannot do without. The variants without locks leave out lock clauses,
advisory locks and the early start of SQLite's writes: there the conditional updates alone keep two writers apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import isfunction
from typing import Any

import pytest
from kept_database import url_by
from sqlalchemy import Connection, Select, make_url

from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.dialect import Dialect
from sloppyjobs.storage.dialects.postgres.storage import PlainPostgresStorage
from sloppyjobs.storage.dialects.sqlite.storage import SqliteStorage
from sloppyjobs.storage.store import SqlStorage

FASTER = {"prepare", "_insert_rows", "_open_attempts", "_write_settled"}
"""Methods of a dialect that do what the common code does, only faster."""

FORMS = {
    "beyond",
    "event_mark",
    "plan_by_index",
    "read_settings",
    "recursive_minimum",
    "same_key",
    "step",
    "style",
    "text_start",
}
"""Methods and values of a ``Dialect`` for which the database can do with the common form."""

NEEDED_FORMS = {
    "__init__",
    "announce",
    "begin_really",
    "checks",
    "default_port",
    "fires_alone",
    "is_lost",
    "is_read_only",
    "is_timeout",
    "is_unreadable",
    "list_param",
    "place",
    "preparation",
    "raw_text",
    "to_driver",
}
"""Methods and values of a ``Dialect`` without which the database would not work, or would promise less."""

NEEDED = {"__init__", "_stand_on", "beside", "insert_jobs", "prepare_database", "watch", "writing"}
"""Methods of a dialect without which the common code would not work, or would promise less."""


def plain(storage: Any) -> Any:
    """The storage by the common statements, with the common forms of SQL."""
    common = {name: getattr(SqlStorage, name) for name in faster(storage)}
    common["dialect_type"] = plain_dialect(storage.dialect_type)
    return type(f"Plain{storage.__name__}", (storage,), common)


def plain_dialect(dialect: Any) -> Any:
    """The dialect with the common forms of SQL."""
    common = {name: getattr(Dialect, name) for name in replaced_forms(dialect) & FORMS}
    return type(f"Plain{dialect.__name__}", (dialect,), common)


def faster(storage: type[SqlStorage]) -> set[str]:
    """What of the common code the storage does faster."""
    return overridden(storage) & FASTER


def overridden(storage: type[SqlStorage]) -> set[str]:
    """The methods of the common code that the storage replaces."""
    return {
        name
        for name, member in vars(storage).items()
        if (isfunction(member) or isinstance(member, property)) and hasattr(SqlStorage, name)
    }


def replaced_forms(dialect: type[Dialect]) -> set[str]:
    """The forms that the dialect has its own of, where there is a common one."""
    ours = {name for name in vars(dialect) if name == "__init__" or not name.startswith("_")}
    return {name for name in ours if hasattr(Dialect, name)} - Dialect.__abstractmethods__


SqlitePlain = plain(SqliteStorage)
PostgresPlain = plain(PlainPostgresStorage)
PlainSqliteDialect: Any = SqlitePlain.dialect_type
PlainPostgresDialect: Any = PostgresPlain.dialect_type


class UnlockedSqliteDialect(PlainSqliteDialect):
    """Without lock clauses."""

    def locked(self, query: Select[Any], *, skip: bool = False) -> Select[Any]:
        """The query as it is."""
        return query


class UnlockedPostgresDialect(PlainPostgresDialect):
    """Without lock clauses, and schedulers do not know of each other."""

    def fires_alone(self, connection: Connection, schedule_id: str) -> bool:
        """As if it were so."""
        return True

    def locked(self, query: Select[Any], *, skip: bool = False) -> Select[Any]:
        """The query as it is."""
        return query


class SqliteUnlocked(SqlitePlain):
    """Transactions begin with their first write, as the driver does it."""

    dialect_type = UnlockedSqliteDialect

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that has no right to write yet."""
        with self.engine.begin() as connection:
            yield connection


class PostgresUnlocked(PostgresPlain):
    """Rows are read without a lock."""

    dialect_type = UnlockedPostgresDialect


@contextmanager
def opened(kind: type[SqlStorage], request: pytest.FixtureRequest) -> Iterator[Callable[..., SqlStorage]]:
    """Makes stores of a kind over the test's database, which is empty."""
    if issubclass(kind, SqliteStorage):
        url = request.getfixturevalue("ready_sqlite_url")
    else:
        url = url_by("psycopg", request.getfixturevalue("postgres_url"))
    made: list[SqlStorage] = []

    def make(clock: Clock | None = None) -> SqlStorage:
        chosen: Any = kind
        made.append(chosen(make_url(url), clock=clock))
        return made[-1]

    yield make
    for one in made:
        one.close()
