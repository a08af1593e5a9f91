"""What is different from database to database: every such difference is a method or a value of ``Dialect``.

A dialect knows the tables that it speaks of. What is not overridden works on every database that has row locks and
savepoints.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Select,
    Subquery,
    Table,
    Text,
    Update,
    and_,
    bindparam,
    cast,
    func,
    literal_column,
    or_,
    select,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from sloppyjobs.domain.model import NewJob
from sloppyjobs.storage.checks import Check
from sloppyjobs.storage.driver import Prepared
from sloppyjobs.storage.schema.style import COMMON_STYLE, TableStyle
from sloppyjobs.storage.schema.tables import Tables
from sloppyjobs.storage.watcher import NoWatcher, Watcher

if TYPE_CHECKING:
    from sloppyjobs.storage.database import Database
    from sloppyjobs.storage.operations import Operations

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

    one_writer: ClassVar[bool] = False
    """Whether nobody else can change anything while a transaction that writes is open."""

    trailing_spaces: ClassVar[bool] = True
    """Whether texts that differ in spaces at their ends alone are different keys."""

    trip_for_each: ClassVar[bool] = False
    """Whether a statement that is executed for many rows asks the server once for each of them."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def kept_key(self, key: str) -> str:
        """The key under which a row is kept and found again."""
        return key

    def as_kept(self, new: Sequence[NewJob]) -> Sequence[NewJob]:
        """New jobs with their keys as they are kept."""
        return new

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

    def is_wrong_address(self, error: DBAPIError) -> bool:  # noqa: ARG002
        """Whether there is no database at this address, and waiting for one would be in vain."""
        return False

    def is_denied(self, error: DBAPIError) -> bool:  # noqa: ARG002
        """Whether the user of the connection lacks a right."""
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
    def add_deaths(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        """Add these rows to those there are."""

    def same_key(self, column: ColumnElement[Any], given: ColumnElement[Any]) -> ColumnElement[bool]:
        """The condition that finds a row by its given key, through the index of the key."""
        return column == given

    def from_given(self, statement: Update) -> Update:
        """The update of rows that are found by ``same_key``, so that it goes from ``given_rows`` to each of them."""
        return statement

    def locked(self, query: Select[Any], *, skip: bool = False) -> Select[Any]:
        """The query, locking what it reads; ``skip`` passes over what others have locked."""
        return query.with_for_update(skip_locked=skip)

    # Connections and transactions

    def attach(self, engine: Engine, *, ours: bool) -> None:  # noqa: B027
        """Connections will come from this engine, which is of our making or the application's."""

    def refuse_server(self, connection: Connection) -> None:  # noqa: B027
        """Raise ``InvalidOption``, saying what to change, for a server that cannot keep jobs. Asked once."""

    def prepare_database(self, engine: Engine) -> None:  # noqa: B027
        """Set what the database itself needs before there are tables."""

    @contextmanager
    def writing(self, engine: Engine, *, ours: bool) -> Iterator[Connection]:  # noqa: ARG002
        """A connection in a transaction that has the right to write; committed at the end."""
        with engine.begin() as connection:
            yield connection

    def prepared(self, statement: Executable, engine: Engine) -> Prepared:
        """The statement, compiled for the cursor of the engine's driver."""
        return Prepared(statement, engine)

    def watcher(self, engine: Engine) -> Watcher:  # noqa: ARG002
        """Waits for news from other processes; without it workers poll."""
        return NoWatcher()

    def refuse_caller(self, connection: Connection) -> None:  # noqa: B027
        """Raise ``InvalidOption`` for a caller's connection that has no transaction to write in."""

    def ensure_begun(self, connection: Connection) -> None:  # noqa: B027
        """Make sure that a transaction is open, so that the release of a savepoint does not commit."""

    transactional_ddl: ClassVar[bool] = True
    """Whether a migration is one transaction; elsewhere a lease keeps others from it, and each step looks first."""

    def refuse_rights(self, connection: Connection) -> None:  # noqa: B027
        """Raise ``InvalidOption`` where tables cannot be made. Asked where those before the failure would be left."""

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

    def take_turns(self, connection: Connection, keys: Sequence[str]) -> None:  # noqa: B027
        """Wait until nobody else who called this has one of these keys, until the end of the transaction.

        Where this does nothing, a deadlock is found at once and the transaction is run again.
        """

    @abstractmethod
    def identity(self, connection: Connection) -> tuple[Any, ...]:
        """What tells the database of this connection from every other."""

    # Hot paths

    def operations(self, database: Database) -> Operations:  # noqa: ARG002
        """The hot operations; a dialect replaces those that its database does better."""
        from sloppyjobs.storage.operations import Operations  # noqa: PLC0415 - the operations know dialects

        return Operations()

    # Diagnosis

    def file(self, url: URL) -> Path | None:  # noqa: ARG002
        """The file that the database is in, and that connecting to it would create; None for a server."""
        return None

    def checks(self) -> Mapping[str, Check]:
        """What ``doctor`` looks at in this kind of database, by name."""
        return {}

    # Tables and common forms of SQL

    style: ClassVar[TableStyle] = COMMON_STYLE
    """How tables and their indexes are made."""
    recursive_minimum: ClassVar[bool] = False
    """Whether a step of a recursive query may select the least value beyond the last; else each step is a query."""

    orders_by_fixed: ClassVar[bool] = True
    """Whether queries order also by columns of an index that their conditions hold fixed, for planners to see it."""

    def beyond(
        self, columns: Sequence[ColumnElement[Any]], values: Sequence[Any], *, descending: bool = False
    ) -> ColumnElement[bool]:
        """The condition that columns, as a key, come after these values in the order of the key, or before them.

        Without row values: the first column alone bounds a scan, and the rest is compared where it is equal.
        """
        (first, *rest), (value, *others) = columns, values
        further: ColumnElement[bool] = first < value if descending else first > value
        if not rest:
            return further
        same = and_(first == value, self.beyond(rest, others, descending=descending))
        return and_(first <= value if descending else first >= value, or_(further, same))

    def first(self, query: Select[Any]) -> Select[Any]:
        """The first row of a query in its order, with the limit in the text, so that a prepared plan knows it."""
        return query.limit(literal_column("1"))

    def text_start(self, column: ColumnElement[Any], length: int) -> ColumnElement[str]:
        """The first characters of a text."""
        return func.substring(column, 1, length, type_=Text)

    # URLs

    default_port: ClassVar[int | None] = None
    """The port of a server whose URL names none."""

    def place(self, url: URL) -> tuple[Any, ...] | None:
        """Where a URL leads, whoever goes there and by whatever driver; None where the URL alone does not say."""
        return url.host, url.port or self.default_port, url.database


def json_parameter(name: str) -> Any:
    """The parameter that carries the rows of ``given_rows``."""
    return bindparam(name, type_=Text())
