"""What is different in SQL Server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

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
    cast,
    literal_column,
    select,
)
from sqlalchemy import func as sql
from sqlalchemy.dialects.mssql import NVARCHAR
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.sql.visitors import iterate
from sqlalchemy.types import TypeEngine

from sloppyjobs import errors
from sloppyjobs.domain.model import NewJob
from sloppyjobs.storage.checks import Check
from sloppyjobs.storage.dialect import Dialect
from sloppyjobs.storage.dialects.sqlserver import (
    applocks,
    drivers,
    faults,
    json_values,
    kept_keys,
    null_values,
    rollbacks,
    sessions,
    upserts,
)
from sloppyjobs.storage.dialects.sqlserver.schema import STYLE, TYPES, to_text
from sloppyjobs.storage.driver import Conflict, Prepared, cursor_of
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.tables import Tables

if TYPE_CHECKING:
    from sloppyjobs.storage.database import Database
    from sloppyjobs.storage.operations import Operations


class SqlServerDialect(Dialect):
    """SQL Server, by whatever driver."""

    name = "mssql"
    now_sql = "CAST(sysutcdatetime() AS datetime2(6))"
    trailing_spaces = False
    trip_for_each = True
    preparation = f"{sessions.SCRIPT}\n\nGO\n\n"

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        if tables.schema:
            name = tables.schema.replace("]", "]]").replace("'", "''")
            self._creation = f"IF SCHEMA_ID('{name}') IS NULL EXEC('CREATE SCHEMA [{name}]');"
            self.preparation = f"{sessions.SCRIPT}\n\nGO\n\n{self._creation}\n\nGO\n\n"

    # Errors

    def is_transient(self, error: DBAPIError) -> bool:
        """Deadlocks, lock time-outs, conflicts of snapshots, and a server that is restarting or moving."""
        lost = error.connection_invalidated and not faults.never_connected(error.orig)
        return lost or faults.number(error.orig) in faults.TRANSIENT

    def is_unavailable(self, error: DBAPIError) -> bool:
        """A fault that lasts, no connection, or a server that refuses to work."""
        number = faults.number(error.orig)
        if number is None:
            # The driver's own words: it could not connect, or the connection broke.
            return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
        return self.is_transient(error) or number in faults.AWAY

    def is_read_only(self, error: DBAPIError) -> bool:
        """A database that is set so, or a secondary of an availability group."""
        return faults.number(error.orig) in faults.READ_ONLY

    def is_wrong_address(self, error: DBAPIError) -> bool:
        """There is no database of this name, or the login may not open it."""
        return faults.number(error.orig) in faults.NO_SUCH_DATABASE

    def is_denied(self, error: DBAPIError) -> bool:
        """No right to a table, to a column of it, or to make one."""
        return faults.number(error.orig) in faults.DENIED

    def is_timeout(self, error: DBAPIError) -> bool:
        """The driver's own limit for queries."""
        return faults.number(error.orig) is None and faults.QUERY_TIMEOUT.search(str(error.orig)) is not None

    def is_duplicate(self, error: DBAPIError) -> bool:
        """2601 of a unique index, 2627 of a key."""
        return faults.number(error.orig) in faults.DUPLICATES

    # Values

    def to_driver(self, instant: datetime) -> str:
        """Text, of which no driver cuts anything off."""
        return to_text(instant)

    def from_driver(self, value: Any) -> datetime | None:
        """The server's instants have no zone, and are in UTC."""
        return None if value is None else TYPES.instant_from_driver(value)

    def raw_text(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Instants in ISO 8601, with the zone that they are in."""
        if isinstance(column.type, Instant):
            return sql.convert(literal_column("nvarchar(33)"), column, literal_column("126")).op("+")(
                literal_column("'Z'")
            )
        return cast(column, NVARCHAR(None))

    def any_of(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """The list travels as one JSON text."""
        return column.in_(json_values.values_of(name))

    def list_param(self, values: Sequence[str]) -> str:
        """A JSON array."""
        return msgspec.json.encode(values).decode()

    def given_rows(self, name: str, columns: Mapping[str, TypeEngine[Any]]) -> Subquery:
        """``OPENJSON``."""
        return json_values.rows_of(name, columns)

    def kept_key(self, key: str) -> str:
        """Without spaces at its end, which no comparison sees."""
        return kept_keys.without_spaces(key)

    def as_kept(self, new: Sequence[NewJob]) -> Sequence[NewJob]:
        """The keys without spaces at their ends, so that what is found is what was asked for."""
        return kept_keys.as_kept(new)

    # Statements

    def insert_if_absent(self, table: Table, names: Sequence[str]) -> Any:
        """The refusal of the unique key is caught in the server."""
        return upserts.insert_if_absent(table, names)

    def count_up(self) -> Any:
        """An update, or an insert."""
        return upserts.count_up(self.tables.stats)

    def add_deaths(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        """An update, or an insert, for each row."""
        statement = self.prepared(upserts.add_deaths(self.tables.deaths), connection.engine)
        given = [
            {name: to_text(value) if isinstance(value, datetime) else value for name, value in row.items()}
            for row in rows
        ]
        statement.many(cursor_of(connection), given)

    def same_key(self, column: ColumnElement[Any], given: ColumnElement[Any]) -> ColumnElement[bool]:
        """By a text no longer than keys are, so that the index is used."""
        return column == json_values.as_key(given)

    def locked(self, query: Select[Any], *, skip: bool = False) -> Select[Any]:
        """Hints on the tables that it reads."""
        hint = "WITH (UPDLOCK, READPAST, ROWLOCK)" if skip else "WITH (UPDLOCK, ROWLOCK)"
        for source in query.get_final_froms():
            for table in iterate(source):
                if isinstance(table, Table):
                    query = query.with_hint(table, hint, "mssql")
        return query

    # Connections and transactions

    def attach(self, engine: Engine, *, ours: bool) -> None:
        """Connections of our own making have the settings that statements rely on."""
        if ours:
            rollbacks.ask_server(engine)
            sessions.pin_connections(engine)
            null_values.write_nulls(engine)

    def prepare_database(self, engine: Engine) -> None:
        """Create the schema of our own, if there is one."""
        if self.tables.schema is not None:
            with engine.begin() as connection:
                self.lock_migrations(connection)
                connection.exec_driver_sql(self._creation)

    @contextmanager
    def writing(self, engine: Engine, *, ours: bool) -> Iterator[Connection]:
        """Read committed, whatever the application's engine or the database's snapshot options say."""
        with engine.connect() as connection:
            if not ours:
                connection = connection.execution_options(isolation_level=sessions.ISOLATION)  # noqa: PLW2901
            with sessions.pinned(connection, ours=ours), connection.begin():
                yield connection

    def prepared(self, statement: Executable, engine: Engine) -> Prepared:
        """No parameter is null, and all that the server answers is read."""
        if isinstance(statement, upserts.Upsert):
            return upserts.PreparedUpsert(statement, engine)
        if isinstance(statement, upserts.InsertIfAbsent):
            return upserts.PreparedInsert(statement.counted, engine)
        return null_values.PreparedWithoutNulls(statement, engine)

    def refuse_caller(self, connection: Connection) -> None:
        """In autocommit mode there is no transaction."""
        if drivers.in_autocommit(connection):
            raise errors.InvalidOption(
                "connection=…: it is in autocommit mode, there is no transaction to enqueue in; begin one, or pass none"
            )

    def lock_migrations(self, connection: Connection) -> None:
        """``sp_getapplock``, which the transaction owns."""
        if not applocks.take(connection, self.tables.schema_name, sessions.NO_LIMIT):
            raise Conflict("the lock of migrations was refused")

    def fires_alone(self, connection: Connection, schedule_id: str) -> bool:
        """``sp_getapplock`` without waiting."""
        return applocks.take(connection, f"{self.tables.schema_name} {schedule_id}", 0)

    def event_mark(self, connection: Connection) -> int:
        """The last number that was given to a row: no index orders the events of all jobs."""
        name = connection.dialect.identifier_preparer.format_table(self.tables.events)
        if connection.execute(select(self.tables.events.c.id).limit(1)).first() is None:
            return 0
        return int(connection.execute(select(sql.ident_current(name))).scalar_one())

    def identity(self, connection: Connection) -> tuple[Any, ...]:
        """The names of the database and of its server."""
        query = "SELECT DB_NAME(), CAST(SERVERPROPERTY('ServerName') AS nvarchar(256))"
        return tuple(connection.exec_driver_sql(query).one())

    # Hot paths

    def operations(self, database: Database) -> Operations:  # noqa: ARG002
        """Attempts as few statements."""
        from sloppyjobs.storage.dialects.sqlserver.operations import OPERATIONS  # noqa: PLC0415 - knows the dialect

        return OPERATIONS

    # Diagnosis

    def checks(self) -> Mapping[str, Check]:
        """The server, its settings, rights and locks."""
        from sloppyjobs.storage.dialects.sqlserver import doctor  # noqa: PLC0415 - needed by `doctor` alone

        return doctor.CHECKS

    # Tables and common forms of SQL

    style = STYLE

    def first(self, query: Select[Any]) -> Select[Any]:
        """``TOP 1``."""
        return query.limit(1)

    # URLs

    default_port = 1433

    def place(self, url: URL) -> tuple[Any, ...] | None:
        """A name of a data source, or a string of the driver's own, says nothing."""
        if "odbc_connect" in url.query or not url.host:
            return None
        return super().place(url)
