"""What is different in SQLite: instants as text, lists as JSON, one writer instead of row locks."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    Executable,
    LargeBinary,
    Select,
    Subquery,
    Table,
    Text,
    bindparam,
    cast,
    literal_column,
    select,
    text,
)
from sqlalchemy import func as sql
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from sloppyjobs import errors
from sloppyjobs.storage.checks import Check
from sloppyjobs.storage.dialect import Dialect, json_parameter
from sloppyjobs.storage.dialects.row_values import row_beyond
from sloppyjobs.storage.dialects.sqlite import doctor, transactions
from sloppyjobs.storage.dialects.sqlite.result_codes import OF_THE_FILE, is_busy, is_no_text, result_code
from sloppyjobs.storage.dialects.sqlite.schema import NOW, STYLE
from sloppyjobs.storage.dialects.sqlite.transactions import WriterLock, immediate_transaction, writer_lock
from sloppyjobs.storage.dialects.sqlite.watcher import ChangeWatcher
from sloppyjobs.storage.dialects.upserts import add_deaths_on_conflict, count_up_on_conflict
from sloppyjobs.storage.driver import Prepared, cursor_of, driver_of
from sloppyjobs.storage.schema.style import from_text, to_text
from sloppyjobs.storage.schema.tables import Tables
from sloppyjobs.storage.watcher import Watcher

if TYPE_CHECKING:
    from sloppyjobs.storage.database import Database
    from sloppyjobs.storage.operations import Operations

WAL = "PRAGMA journal_mode=WAL"


class SqliteDialect(Dialect):
    """SQLite."""

    name = "sqlite"
    now_sql = NOW
    one_writer = True
    preparation = f"{WAL};\n\n"

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self._writer: WriterLock | None = None

    def attach(self, engine: Engine, *, ours: bool) -> None:  # noqa: ARG002
        """One writer at a time, and no thread that waits for itself."""
        self._writer = writer_lock(engine)
        transactions.follow_transactions()

    def prepare_database(self, engine: Engine) -> None:
        """Turn the write-ahead log on: readers and the writer do not wait for each other."""
        with engine.connect() as connection, transactions.outside_transaction(connection):
            connection.exec_driver_sql(WAL)

    @contextmanager
    def writing(self, engine: Engine, *, ours: bool) -> Iterator[Connection]:
        """Wait for the right to write, in turn with the other threads, then take it at once."""
        assert self._writer is not None
        with self._writer, immediate_transaction(engine, ours=ours) as connection:
            yield connection

    def prepared(self, statement: Executable, engine: Engine) -> Prepared:
        """Queries answer with one value."""
        return JsonRows(statement, engine) if isinstance(statement, Select) else Prepared(statement, engine)

    def watcher(self, engine: Engine) -> Watcher:
        """Look for commits of others."""
        return ChangeWatcher(engine)

    def operations(self, database: Database) -> Operations:  # noqa: ARG002
        """Inserts and attempts as few, long statements."""
        from sloppyjobs.storage.dialects.sqlite.operations import OPERATIONS  # noqa: PLC0415 - knows the dialect

        return OPERATIONS

    def is_transient(self, error: DBAPIError) -> bool:
        """A busy file passes; everything else stays."""
        return is_busy(error.orig)

    def is_unavailable(self, error: DBAPIError) -> bool:
        """The file is locked, missing, damaged, or cannot be written to."""
        return result_code(error.orig) in OF_THE_FILE

    def is_lost(self, error: DBAPIError) -> bool:
        """Writing failed half-way; a later reader may find the commit in the log all the same."""
        return result_code(error.orig) == sqlite3.SQLITE_IOERR

    def is_wrong_address(self, error: DBAPIError) -> bool:
        """A file that cannot be opened or made is mostly a wrong path."""
        return result_code(error.orig) == sqlite3.SQLITE_CANTOPEN

    def is_duplicate(self, error: DBAPIError) -> bool:
        """A unique index said no."""
        return isinstance(error.orig, sqlite3.IntegrityError) and "UNIQUE" in str(error.orig)

    def is_unreadable(self, error: Exception) -> bool:
        """Bytes that are no UTF-8, and BLOBs where text is expected, are refused by the driver or by SQLite itself."""
        return super().is_unreadable(error) or is_no_text(getattr(error, "orig", error))

    def to_driver(self, instant: datetime) -> str:
        """Text of fixed width."""
        return to_text(instant)

    def from_driver(self, value: Any) -> datetime | None:
        """The instant in the text."""
        return None if value is None else from_text(value)

    def raw_text(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """The bytes, because what is in a column of text need not be text."""
        return cast(column, LargeBinary)

    def any_of(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """The list travels as one JSON text."""
        return column.in_(select(text("value")).select_from(sql.json_each(bindparam(name))))

    def list_param(self, values: Sequence[str]) -> str:
        """A JSON array."""
        return msgspec.json.encode(values).decode()

    def given_rows(self, name: str, columns: Mapping[str, TypeEngine[Any]]) -> Subquery:
        """``json_each``."""
        each = sql.json_each(json_parameter(name)).table_valued("value")
        # ``value`` is written as text whenever it is read, so it is read once: a limit below a condition keeps
        # SQLite from reading it for each of the columns.
        row = select(each.c.value).suffix_with("LIMIT -1").subquery("each_row")
        values = [
            sql.json_extract(row.c.value, literal_column(f"'$[{place}]'"), type_=kind).label(column)
            for place, (column, kind) in enumerate(columns.items())
        ]
        return select(*values).where(row.c.value.is_not(None)).subquery("given")

    def insert_if_absent(self, table: Table, names: Sequence[str]) -> Any:
        """``ON CONFLICT DO NOTHING``."""
        return insert(table).values({name: bindparam(name) for name in names}).on_conflict_do_nothing()

    def count_up(self) -> Any:
        """``ON CONFLICT DO UPDATE``, adding."""
        return count_up_on_conflict(insert(self.tables.stats), self.tables.stats)

    def add_deaths(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        """``ON CONFLICT DO UPDATE``, adding."""
        connection.execute(add_deaths_on_conflict(insert(self.tables.deaths).values(rows), self.tables.deaths))

    def refuse_caller(self, connection: Connection) -> None:
        """In autocommit mode there is no transaction, unless the caller, or a listener of the engine, began one."""
        driver_of(connection)  # the listeners are called
        driver: Any = connection.connection.driver_connection
        # The attribute is there since Python 3.12, and then counts unless it is LEGACY_TRANSACTION_CONTROL.
        mode = getattr(driver, "autocommit", None)
        autocommits = mode if isinstance(mode, bool) else driver.isolation_level is None
        if autocommits and not driver.in_transaction:
            raise errors.InvalidOption(
                "connection=…: it is in autocommit mode, there is no transaction to enqueue in; begin one, or pass none"
            )

    def ensure_begun(self, connection: Connection) -> None:
        """The driver begins at the first insert, which is too late for a savepoint."""
        driver: Any = connection.connection.driver_connection
        if not driver.in_transaction and driver.isolation_level is not None:
            cursor_of(connection).execute("BEGIN IMMEDIATE")

    def lock_migrations(self, connection: Connection) -> None:
        """``BEGIN IMMEDIATE`` has locked out every other writer already."""

    def identity(self, connection: Connection) -> tuple[Any, ...]:
        """The file; what is in memory is told apart by its pool."""
        files = {row[1]: row[2] for row in connection.exec_driver_sql("PRAGMA database_list")}
        return (Path(files["main"]).resolve(),) if files["main"] else (id(connection.engine.pool),)

    def file(self, url: URL) -> Path | None:
        """None for one in memory."""
        name = url.database
        return None if not name or name.startswith((":", "file:")) else Path(name)

    def checks(self) -> Mapping[str, Check]:
        """The journal, the file and the plan of the claim."""
        return doctor.CHECKS

    # Tables and common forms of SQL

    style = STYLE
    recursive_minimum = True

    def beyond(
        self, columns: Sequence[ColumnElement[Any]], values: Sequence[Any], *, descending: bool = False
    ) -> ColumnElement[bool]:
        """Row values."""
        return row_beyond(columns, values, descending)

    def text_start(self, column: ColumnElement[Any], length: int) -> ColumnElement[str]:
        """``substr``: the longer name came with SQLite 3.34."""
        return sql.substr(column, 1, length, type_=Text)

    # URLs

    def place(self, url: URL) -> tuple[Any, ...] | None:
        """The file."""
        name = url.database or ":memory:"
        return None if name.startswith((":memory:", "file:")) else (Path(name).resolve(),)


class JsonRows(Prepared):
    """A query whose rows come as one JSON array, in a single step.

    The interpreter releases its lock at every row that the driver steps to, and other threads are waiting for it.
    """

    __slots__ = ("_plain",)

    def __init__(self, statement: Select[Any], engine: Engine) -> None:
        super().__init__(statement, engine)
        self._plain = self.sql
        names = ", ".join(f"c{place}" for place in range(len(statement.selected_columns)))
        self.sql = f"WITH found ({names}) AS ({self.sql}) SELECT json_group_array(json_array({names})) FROM found"

    def rows(self, cursor: Any, values: Mapping[str, Any]) -> list[Any]:
        try:
            cursor.execute(self.sql, self.bind(values))
            found: list[Any] = msgspec.json.decode(cursor.fetchone()[0])
        except (sqlite3.OperationalError, msgspec.DecodeError) as error:
            if isinstance(error, sqlite3.OperationalError) and not is_no_text(error):
                raise
            # JSON cannot hold a BLOB or infinity, as somebody has put in the place of text or a number; a row can.
            found = cursor.execute(self._plain, self.bind(values)).fetchall()
        return found
