"""What is different from database to database: every such difference is a method or a value of ``Dialect``.

A dialect knows the tables it speaks of, and no engine. What is not overridden works on every database that has row
locks and savepoints.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from sqlalchemy import URL, ColumnElement, Connection, Select, Subquery, Table, Text, bindparam, cast, func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from sloppyjobs.storage.checks import Check
from sloppyjobs.storage.schema.tables import Tables

_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError, msgspec.MsgspecError)


class Dialect(ABC):
    """One kind of database, for one set of tables."""

    name: ClassVar[str]
    """SQLAlchemy's name for it."""
    now_sql: ClassVar[str]
    """The statement clock as SQL."""
    preparation: str = ""
    """What the database itself needs before there are tables, as SQL."""
    read_settings: ClassVar[str] = ""
    """What is selected at the start of a read, to bound its plans and its time; empty where nothing is."""
    step: timedelta = timedelta(0)
    """By how much the instants of jobs differ that are enqueued in one call."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    # Errors

    @abstractmethod
    def is_transient(self, error: DBAPIError) -> bool:
        """Whether the same transaction may well succeed when it is retried."""

    @abstractmethod
    def is_unavailable(self, error: DBAPIError) -> bool:
        """Whether the database is away, or cannot do what it should; rather than the statement being wrong."""

    @abstractmethod
    def is_duplicate(self, error: DBAPIError) -> bool:
        """Whether a unique key refused the row."""

    def is_lost(self, error: DBAPIError) -> bool:
        """Whether nobody knows what has become of the statement."""
        return error.connection_invalidated

    def is_read_only(self, error: DBAPIError) -> bool:  # noqa: ARG002
        """Whether the server can only be read, and another one might be written to."""
        return False

    def is_timeout(self, error: DBAPIError) -> bool:  # noqa: ARG002
        """Whether the database gave up because of its timeout for statements."""
        return False

    def is_unreadable(self, error: Exception) -> bool:
        """Whether a row is to blame, and not the database: no value could be made of what it sent."""
        return isinstance(error, _UNREADABLE)

    # Values

    def to_driver(self, instant: datetime) -> Any:
        """An instant as the driver's own cursor takes it."""
        return instant

    @abstractmethod
    def from_driver(self, value: Any) -> datetime | None:
        """An instant as the driver's own cursor gave it."""

    def raw_text(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """The column as text or bytes that every driver can read, whatever is in it."""
        return cast(column, Text)

    @abstractmethod
    def any_of(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """The column is one of a list that is passed as a single value."""

    def list_param(self, values: Sequence[str]) -> Any:
        """The list as the single value that ``any_of`` expects."""
        return list(values)

    @abstractmethod
    def given_rows(self, name: str, columns: Mapping[str, TypeEngine[Any]]) -> Subquery:
        """Rows that are passed as a single value: a JSON array of arrays, under the parameter ``name``."""

    # Statements

    @abstractmethod
    def insert_if_absent(self, table: Table, names: Sequence[str]) -> Any:
        """An insert that leaves an existing row as it is."""

    @abstractmethod
    def count_up(self) -> Any:
        """Add to a minute's counters, or start them."""

    @abstractmethod
    def add_deaths(self, rows: Sequence[dict[str, Any]]) -> Any:
        """The statement that adds these rows to those there are."""

    def same_key(self, column: ColumnElement[Any], given: ColumnElement[Any]) -> ColumnElement[bool]:
        """The condition that finds a row by its given key, through the index of the key."""
        return column == given

    def locked(self, query: Select[Any], *, skip: bool = False) -> Select[Any]:
        """The query, locking what it reads; ``skip`` passes over what others have locked."""
        return query.with_for_update(skip_locked=skip)

    # Transactions

    def begin_really(self, connection: Connection) -> None:  # noqa: B027
        """Make sure that a transaction is open, so that the release of a savepoint does not commit."""

    @abstractmethod
    def lock_migrations(self, connection: Connection) -> None:
        """Wait until no other process migrates, until the end of the transaction."""

    def fires_alone(self, connection: Connection, schedule_id: str) -> bool:  # noqa: ARG002
        """False where another scheduler is firing it at this moment. This saves work; nothing depends on it."""
        return True

    def plan_by_index(self, connection: Connection) -> None:  # noqa: B027
        """Let the statements of this transaction go through indexes, whatever the statistics say."""

    def event_mark(self, connection: Connection) -> int:
        """A number that every event from now on exceeds."""
        mark: int | None = connection.execute(select(func.max(self.tables.events.c.id))).scalar_one()
        return mark or 0

    def announce(self, connection: Connection) -> None:  # noqa: B027
        """Wake the workers when this transaction commits; their polling is enough where this does nothing."""

    @abstractmethod
    def identity(self, connection: Connection) -> tuple[Any, ...]:
        """What tells the database of this connection from every other."""

    # Diagnosis

    def file(self, url: URL) -> Path | None:  # noqa: ARG002
        """The file that the database is in, and that connecting to it would create; None for a server."""
        return None

    def checks(self) -> Mapping[str, Check]:
        """What ``doctor`` looks at in this kind of database, by name."""
        return {}


def json_parameter(name: str) -> Any:
    """The parameter that carries the rows of ``given_rows``."""
    return bindparam(name, type_=Text())
