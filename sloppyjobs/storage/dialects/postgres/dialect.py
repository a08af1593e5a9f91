"""What is different in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Subquery,
    Table,
    any_,
    bindparam,
    cast,
    literal_column,
    select,
)
from sqlalchemy import func as sql
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY, JSON, insert
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.types import Text, TypeEngine

from sloppyjobs.storage.checks import Check
from sloppyjobs.storage.dialect import Dialect, json_parameter
from sloppyjobs.storage.dialects.postgres import connections, drivers, statements, watcher
from sloppyjobs.storage.dialects.postgres.connections import DENIED, READ_ONLY
from sloppyjobs.storage.dialects.postgres.drivers import sqlstate
from sloppyjobs.storage.dialects.postgres.schema import STYLE
from sloppyjobs.storage.dialects.row_values import row_beyond
from sloppyjobs.storage.dialects.upserts import add_deaths_on_conflict, count_up_on_conflict
from sloppyjobs.storage.driver import Prepared
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.tables import Tables
from sloppyjobs.storage.watcher import Watcher

if TYPE_CHECKING:
    from sloppyjobs.storage.database import Database
    from sloppyjobs.storage.operations import Operations

_TRANSIENT = {"25P03", "40001", "40P01", "55P03", "57P01", "57P02", "57P03"} | {
    "08000",
    "08001",
    "08003",
    "08004",
    "08006",
}
_TURNS = 5_701_960_271
"""Tells our advisory locks from those of the application."""
_AWAY = {"08", "28", "3D", "53", "57", "58"}
"""Classes of SQLSTATEs: connection, authorization, no such database, resources, intervention, system error."""


class PostgresDialect(Dialect):
    """PostgreSQL, by whatever driver."""

    name = "postgresql"
    now_sql = "clock_timestamp()"
    # A queue's statistics are stale by nature, and a plan made for few rows must not meet many: only reads along an
    # index are bounded whatever the tables hold.
    read_settings = (
        "set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), "
        "set_config('enable_sort', 'off', true), set_config('statement_timeout', '3000', true), "
        "set_config('jit', 'off', true)"
    )
    # Jobs that are enqueued in one call are claimed in their order, and the claim index has no id.
    step = timedelta(microseconds=1)

    def __init__(self, tables: Tables, *, notify: bool = True, answer_timeout: float | None = None) -> None:
        super().__init__(tables)
        self.channel = f"{tables.schema or 'public'}.{tables.prefix}jobs"
        self.notify = notify
        self._answer_timeout = answer_timeout
        if tables.schema:
            self.preparation = f'CREATE SCHEMA IF NOT EXISTS "{tables.schema}";\n\n'

    def attach(self, engine: Engine, *, ours: bool) -> None:
        """Connections of our own making give up a silent server."""
        if ours:
            connections.watched(engine, self._answer_timeout)

    def prepare_database(self, engine: Engine) -> None:
        """Create the schema of our own, if there is one."""
        if self.tables.schema is not None:
            with engine.begin() as connection:
                self.lock_migrations(connection)
                connection.exec_driver_sql(self.preparation)

    @contextmanager
    def writing(self, engine: Engine, *, ours: bool) -> Iterator[Connection]:  # noqa: ARG002
        """A transaction, also on an engine whose connections are in autocommit mode."""
        with engine.connect() as connection, drivers.in_transactions(connection), connection.begin():
            yield connection

    def prepared(self, statement: Executable, engine: Engine) -> Prepared:
        """For the driver's cursor, many rows in as few round trips as the driver can do it."""
        return drivers.prepared(statement, engine)

    def watcher(self, engine: Engine) -> Watcher:
        """LISTEN on the channel, where the driver can wait for a notification; a worker without it still polls."""
        return watcher.watcher(engine, self.channel)

    def refuse_caller(self, connection: Connection) -> None:
        """In autocommit mode there is no transaction."""
        drivers.refuse_autocommit(connection)

    def operations(self, database: Database) -> Operations:
        """By psycopg 3: pipelines and prepared set-based statements."""
        from sloppyjobs.storage.dialects.postgres.operations import operations  # noqa: PLC0415 - knows the dialect

        return operations(database, self.channel if self.notify else None)

    def is_transient(self, error: DBAPIError) -> bool:
        """Deadlocks, serialization failures, lock time-outs, and a server that is restarting."""
        return error.connection_invalidated or sqlstate(error) in _TRANSIENT

    def is_unavailable(self, error: DBAPIError) -> bool:
        """A fault that lasts, no connection, or a server that refuses to work."""
        state = sqlstate(error)
        if state is None:
            # The driver's own words: it could not connect, or the connection broke.
            return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
        return self.is_transient(error) or state[:2] in _AWAY or state == READ_ONLY

    def is_lost(self, error: DBAPIError) -> bool:
        """The connection broke; but a server that says that it is shutting down has not committed."""
        return error.connection_invalidated and sqlstate(error) is None

    def is_read_only(self, error: DBAPIError) -> bool:
        """A standby, or a primary that has become one."""
        return sqlstate(error) == READ_ONLY

    def is_denied(self, error: DBAPIError) -> bool:
        """Insufficient privilege."""
        return sqlstate(error) == DENIED

    def is_timeout(self, error: DBAPIError) -> bool:
        """Query cancelled."""
        return sqlstate(error) == "57014"

    def is_duplicate(self, error: DBAPIError) -> bool:
        """Unique violation."""
        return sqlstate(error) == "23505"

    def is_unreadable(self, error: Exception) -> bool:
        """The driver refuses instants that Python has none for, before the server has anything to say."""
        cause = getattr(error, "orig", error)
        refused = any(kind.__name__ == "DataError" for kind in type(cause).__mro__)
        return super().is_unreadable(error) or (refused and sqlstate(cause) is None)

    def from_driver(self, value: datetime | None) -> datetime | None:
        """The driver answers in the session's zone, which is UTC on connections of our own making."""
        return value if value is None or value.tzinfo is UTC else value.astimezone(UTC)

    def raw_text(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Instants as JSON writes them, which does not depend on the session's settings."""
        if isinstance(column.type, Instant):
            return sql.to_json(column).op("#>>")(literal_column("'{}'")).cast(Text)
        return super().raw_text(column)

    def any_of(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """``= ANY(array)``."""
        return column == any_(bindparam(name, type_=ARRAY(Text)))

    def given_rows(self, name: str, columns: Mapping[str, TypeEngine[Any]]) -> Subquery:
        """``json_array_elements``."""
        row = sql.json_array_elements(cast(json_parameter(name), JSON)).column_valued("row")
        values = [
            cast(row.op("->>")(literal_column(str(place))), kind).label(column)
            for place, (column, kind) in enumerate(columns.items())
        ]
        return select(*values).subquery("given")

    def insert_if_absent(self, table: Table, names: Sequence[str]) -> Any:
        """``ON CONFLICT DO NOTHING``."""
        return insert(table).values({name: bindparam(name) for name in names}).on_conflict_do_nothing()

    def count_up(self) -> Any:
        """``ON CONFLICT DO UPDATE``, adding."""
        return count_up_on_conflict(insert(self.tables.stats), self.tables.stats)

    def add_deaths(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        """``ON CONFLICT DO UPDATE``, adding."""
        connection.execute(add_deaths_on_conflict(insert(self.tables.deaths).values(rows), self.tables.deaths))

    def lock_migrations(self, connection: Connection) -> None:
        """An advisory lock that ends with the transaction."""
        connection.execute(sql.pg_advisory_xact_lock(sql.hashtext(self.tables.schema_name)).select())

    def fires_alone(self, connection: Connection, schedule_id: str) -> bool:
        """An advisory lock that ends with the transaction, also when its process is killed."""
        keys = (sql.hashtext(self.tables.schema_name), sql.hashtext(schedule_id))
        alone: bool = connection.execute(sql.pg_try_advisory_xact_lock(*keys).select()).scalar_one()
        return alone

    def same_key(self, column: ColumnElement[Any], given: ColumnElement[Any]) -> ColumnElement[bool]:
        """``= ANY``: of ``=`` a plan that was made for a small table makes a scan along the whole key."""
        return column == any_(postgresql.array([given]))

    def plan_by_index(self, connection: Connection) -> None:
        """As for claims: a plan that was made for an empty table must not meet a full one."""
        connection.exec_driver_sql(statements.PLAN_BY_INDEX)

    def event_mark(self, connection: Connection) -> int:
        """A number of the sequence: no index orders the events of all jobs, so the highest is not known."""
        table = connection.dialect.identifier_preparer.format_table(self.tables.events)
        number: int = connection.execute(sql.nextval(sql.pg_get_serial_sequence(table, "id")).select()).scalar_one()
        return number

    def announce(self, connection: Connection) -> None:
        """NOTIFY, delivered with the commit."""
        if self.notify:
            connection.execute(sql.pg_notify(self.channel, "").select())

    def take_turns(self, connection: Connection, keys: Sequence[str]) -> None:
        """By advisory locks, in the order of the keys: the server looks for a deadlock only after a second."""
        key = sql.unnest(bindparam("keys", type_=ARRAY(Text))).column_valued("key")
        given = select(key.label("key")).order_by(key).subquery("given")
        turn = sql.pg_advisory_xact_lock(sql.hashtextextended(given.c.key, _TURNS))
        connection.execute(select(turn).select_from(given), {"keys": list(keys)})

    def identity(self, connection: Connection) -> tuple[Any, ...]:
        """The name of the database, and the number of its cluster for those who may know it."""
        allowed, name = connection.exec_driver_sql(
            "SELECT has_function_privilege('pg_control_system()', 'EXECUTE'), current_database()"
        ).one()
        if not allowed:
            return (name,)
        return name, connection.exec_driver_sql("SELECT system_identifier FROM pg_control_system()").scalar_one()

    def checks(self) -> Mapping[str, Check]:
        """The server, the connections to it and the plan of the claim."""
        from sloppyjobs.storage.dialects.postgres import doctor  # noqa: PLC0415 - needed by `doctor` alone

        return doctor.CHECKS

    # Tables and common forms of SQL

    style = STYLE
    recursive_minimum = True

    def beyond(
        self, columns: Sequence[ColumnElement[Any]], values: Sequence[Any], *, descending: bool = False
    ) -> ColumnElement[bool]:
        """Row values."""
        return row_beyond(columns, values, descending)

    # URLs

    default_port = 5432

    def place(self, url: URL) -> tuple[Any, ...] | None:
        """Parts of the URL may stand in its query; a service or a socket's file says nothing."""
        query = url.query
        if "unix_sock" in query or "service" in query:
            return None
        port = url.port or query.get("port") or self.default_port
        return url.host or query.get("host"), port, url.database or query.get("dbname")
