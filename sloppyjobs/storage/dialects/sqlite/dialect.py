"""What is different in SQLite: instants as text, lists as JSON, one writer instead of row locks."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    LargeBinary,
    Subquery,
    Table,
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

from sloppyjobs.storage.checks import Check
from sloppyjobs.storage.database import cursor_of
from sloppyjobs.storage.dialect import Dialect, json_parameter
from sloppyjobs.storage.dialects.sqlite import doctor
from sloppyjobs.storage.dialects.upserts import add_deaths_on_conflict, count_up_on_conflict
from sloppyjobs.storage.schema.instants import SQLITE_NOW, from_text, to_text

_AWAY = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_NOMEM,
}
"""Result codes that speak of the file, not of the statement."""


class SqliteDialect(Dialect):
    """SQLite."""

    name = "sqlite"
    now_sql = SQLITE_NOW
    preparation = "PRAGMA journal_mode=WAL;\n\n"

    def is_transient(self, error: DBAPIError) -> bool:
        """A busy file passes; everything else stays."""
        return is_busy(error.orig)

    def is_unavailable(self, error: DBAPIError) -> bool:
        """The file is locked, missing, damaged, or cannot be written to."""
        return result_code(error.orig) in _AWAY

    def is_lost(self, error: DBAPIError) -> bool:
        """Writing failed half-way; a later reader may find the commit in the log all the same."""
        return result_code(error.orig) == sqlite3.SQLITE_IOERR

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
        row = sql.json_each(json_parameter(name)).table_valued("value")
        values = [
            sql.json_extract(row.c.value, literal_column(f"'$[{place}]'"), type_=kind).label(column)
            for place, (column, kind) in enumerate(columns.items())
        ]
        return select(*values).subquery("given")

    def insert_if_absent(self, table: Table, names: Sequence[str]) -> Any:
        """``ON CONFLICT DO NOTHING``."""
        return insert(table).values({name: bindparam(name) for name in names}).on_conflict_do_nothing()

    def count_up(self) -> Any:
        """``ON CONFLICT DO UPDATE``, adding."""
        return count_up_on_conflict(insert(self.tables.stats), self.tables.stats)

    def add_deaths(self, rows: Sequence[dict[str, Any]]) -> Any:
        """``ON CONFLICT DO UPDATE``, adding."""
        return add_deaths_on_conflict(insert(self.tables.deaths).values(rows), self.tables.deaths)

    def begin_really(self, connection: Connection) -> None:
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


def is_no_text(error: object) -> bool:
    """Whether a value is no text where text is expected."""
    return isinstance(error, sqlite3.OperationalError) and ("decode" in str(error) or "BLOB" in str(error))


def is_busy(error: BaseException | None) -> bool:
    """Whether another connection is writing."""
    return result_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def result_code(error: BaseException | None) -> int:
    """SQLite's primary result code; the extended ones only say more."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
