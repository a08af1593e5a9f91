"""PostgreSQL, by every synchronous driver that SQLAlchemy has for it.

``PlainPostgresStorage`` runs the statements that all databases share and works with any driver.
``PostgresStorage`` replaces the hot paths by single set-based statements, and needs psycopg 3.

Sequential scans are switched off inside the transactions that claim and settle. A queue's statistics are stale by
nature (drained to zero, filled in a burst), and a plan that was made for an empty table must not meet a full one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import msgspec
from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Insert,
    Subquery,
    Table,
    any_,
    bindparam,
    cast,
    event,
    literal_column,
    select,
    text,
)
from sqlalchemy import func as sql
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY, JSON, insert
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.types import Text, TypeEngine

from sloppyjobs import options
from sloppyjobs.model import Job, NewJob
from sloppyjobs.states import Status
from sloppyjobs.storage.answer_timeout import DEFAULT
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.database import Prepared, cursor_of, detached
from sloppyjobs.storage.deaths import add_deaths_on_conflict
from sloppyjobs.storage.dialects import postgres_connections, postgres_drivers, postgres_sql
from sloppyjobs.storage.dialects.postgres_connections import READ_ONLY
from sloppyjobs.storage.dialects.postgres_drivers import sqlstate
from sloppyjobs.storage.dialects.postgres_turns import PostgresTurning
from sloppyjobs.storage.dialects.sqlite import count_up_on_conflict
from sloppyjobs.storage.instants import Instant
from sloppyjobs.storage.new_rows import CREATED_EVENT, JOB_INSERT, NewRows
from sloppyjobs.storage.storage import SqlStorage
from sloppyjobs.storage.tables import Tables
from sloppyjobs.storage.transitions import json_parameter
from sloppyjobs.storage.watch import Watcher

_PASSING = {"40001", "40P01", "55P03", "57P01", "57P02", "57P03", "08000", "08003", "08006", "08001", "08004"}
_AWAY = {"08", "28", "3D", "53", "57", "58"}
"""Classes of SQLSTATEs: connection, authorization, no such database, resources, intervention, system error."""


class PlainPostgresStorage(SqlStorage):
    """Many workers on many machines, by any driver: psycopg2 and pg8000 are tested."""

    dialect = "postgresql"
    now_sql = "clock_timestamp()"

    @options.known_only("storage.postgres", besides=("self", "target"))
    def __init__(
        self,
        target: URL | Engine,
        *,
        clock: Clock | None = None,
        prefix: str = "sloppy_",
        schema: str | None = None,
        notify: bool = True,
        answer_timeout: float | None = DEFAULT,
    ) -> None:
        self._answer_timeout = (
            None if answer_timeout is None else options.seconds("answer_timeout", answer_timeout, zero=False)
        )
        owns = not isinstance(target, Engine)
        engine = target if isinstance(target, Engine) else _engine(target)
        tables = Tables(prefix=prefix, schema=schema, dialect=self.dialect)
        super().__init__(engine, tables=tables, clock=clock, owns_engine=owns)
        self.notify = notify
        self.channel = f"{schema or 'public'}.{prefix}jobs"
        self.preparation = f'CREATE SCHEMA IF NOT EXISTS "{schema}";\n\n' if schema else ""

    def beside(self, engine: Engine) -> PlainPostgresStorage:
        """The same tables by another driver."""
        fast = postgres_drivers.driver_name(engine) == postgres_drivers.FAST
        kind = PostgresStorage if fast else PlainPostgresStorage
        tables = self.tables
        other = kind(
            engine,
            clock=self._test_clock,
            prefix=tables.prefix,
            schema=tables.schema,
            notify=self.notify,
            answer_timeout=self._answer_timeout,
        )
        other.followups = self.followups
        return other

    def identity(self, connection: Connection) -> tuple[Any, ...]:
        """The name of the database, and the number of its cluster for those who may know it."""
        allowed, name = connection.exec_driver_sql(
            "SELECT has_function_privilege('pg_control_system()', 'EXECUTE'), current_database()"
        ).one()
        if not allowed:
            return (name,)
        return name, connection.exec_driver_sql("SELECT system_identifier FROM pg_control_system()").scalar_one()

    def _stand_on(self, engine: Engine, *, ours: bool) -> None:
        if ours:
            postgres_connections.watched(engine, self._answer_timeout)
        super()._stand_on(engine, ours=ours)

    def prepare_database(self) -> None:
        """Create the schema of our own, if there is one."""
        if self.tables.schema is not None:
            with self.engine.begin() as connection:
                self.lock_migrations(connection)
                connection.exec_driver_sql(self.preparation)

    def lock_migrations(self, connection: Connection) -> None:
        """An advisory lock that ends with the transaction."""
        connection.execute(sql.pg_advisory_xact_lock(sql.hashtext(self.tables.schema_name)).select())

    def fires_alone(self, connection: Connection, schedule_id: str) -> bool:
        """An advisory lock that ends with the transaction, also when its process is killed."""
        keys = (sql.hashtext(self.tables.schema_name), sql.hashtext(schedule_id))
        alone: bool = connection.execute(sql.pg_try_advisory_xact_lock(*keys).select()).scalar_one()
        return alone

    def is_passing(self, error: DBAPIError) -> bool:
        """Deadlocks, serialization failures, lock time-outs, and a server that is restarting."""
        return error.connection_invalidated or sqlstate(error) in _PASSING

    def is_unavailable(self, error: DBAPIError) -> bool:
        """A fault that lasts, no connection, or a server that refuses to work."""
        state = sqlstate(error)
        if state is None:
            # The driver's own words: it could not connect, or the connection broke.
            return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
        return self.is_passing(error) or state[:2] in _AWAY or state == READ_ONLY

    def is_lost(self, error: DBAPIError) -> bool:
        """The connection broke; but a server that says that it is shutting down has not committed."""
        return error.connection_invalidated and sqlstate(error) is None

    def is_read_only(self, error: DBAPIError) -> bool:
        """A standby, or a primary that has become one."""
        return sqlstate(error) == READ_ONLY

    def is_timeout(self, error: DBAPIError) -> bool:
        """Query cancelled."""
        return sqlstate(error) == "57014"

    def is_duplicate(self, error: DBAPIError) -> bool:
        """Unique violation."""
        return sqlstate(error) == "23505"

    def is_unreadable(self, error: Exception) -> bool:
        """The driver refuses instants that Python has none for, before the server has anything to say."""
        cause = getattr(error, "orig", error)
        refused = isinstance(cause, self.engine.dialect.loaded_dbapi.DataError)
        return super().is_unreadable(error) or (refused and sqlstate(cause) is None)

    def raw_text(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Instants as JSON writes them, which does not depend on the session's settings."""
        if isinstance(column.type, Instant):
            return sql.to_json(column).op("#>>")(literal_column("'{}'")).cast(Text)
        return super().raw_text(column)

    def from_driver(self, value: datetime | None) -> datetime | None:
        """The driver answers in the session's zone, which is UTC on connections of our own making."""
        return value if value is None or value.tzinfo is UTC else value.astimezone(UTC)

    def any_of(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """``= ANY(array)``."""
        return column == any_(bindparam(name, type_=ARRAY(Text)))

    def insert_if_absent(self, table: Table, names: Sequence[str]) -> Any:
        """``ON CONFLICT DO NOTHING``."""
        return insert(table).values({name: bindparam(name) for name in names}).on_conflict_do_nothing()

    def given_rows(self, name: str, columns: Mapping[str, TypeEngine[Any]]) -> Subquery:
        """``json_array_elements``."""
        row = sql.json_array_elements(cast(json_parameter(name), JSON)).column_valued("row")
        values = [
            cast(row.op("->>")(literal_column(str(place))), kind).label(column)
            for place, (column, kind) in enumerate(columns.items())
        ]
        return select(*values).subquery("given")

    def same_key(self, column: ColumnElement[Any], given: ColumnElement[Any]) -> ColumnElement[bool]:
        """``= ANY``: of ``=`` a plan that was made for a small table makes a walk along the whole key."""
        return column == any_(postgresql.array([given]))

    def plan_by_index(self, connection: Connection) -> None:
        """As for claims: a plan that was made for an empty table must not meet a full one."""
        connection.exec_driver_sql(postgres_sql.PLAN_BY_INDEX)

    def event_mark(self, connection: Connection) -> int:
        """A number of the sequence: no index orders the events of all jobs, so the highest is not known."""
        table = connection.dialect.identifier_preparer.format_table(self.tables.events)
        number: int = connection.execute(sql.nextval(sql.pg_get_serial_sequence(table, "id")).select()).scalar_one()
        return number

    def count_up(self) -> Any:
        """``ON CONFLICT DO UPDATE``, adding."""
        return count_up_on_conflict(insert(self.tables.stats), self.tables.stats)

    def add_deaths(self, rows: Sequence[dict[str, Any]]) -> Any:
        """``ON CONFLICT DO UPDATE``, adding."""
        return add_deaths_on_conflict(insert(self.tables.deaths).values(rows), self.tables.deaths)

    def watch(self) -> Watcher:
        """LISTEN on the channel where the driver can wait for a notification; a worker without it still polls."""
        return postgres_drivers.watcher(self.engine, self.channel)

    def announce(self, connection: Connection) -> None:
        """NOTIFY, delivered with the commit."""
        if self.notify:
            connection.execute(sql.pg_notify(self.channel, "").select())

    @property
    def step(self) -> timedelta:
        """A microsecond: jobs that are enqueued together are claimed in their order, and the indexes know no id."""
        return timedelta(microseconds=1 if self._test_clock is None else 0)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction, also on an engine whose connections are in autocommit mode."""
        with self.engine.connect() as connection, postgres_drivers.in_transactions(connection), connection.begin():
            yield connection

    def prepare(self, statement: Executable) -> Prepared:
        """For the driver's cursor, many rows in as few round trips as the driver can do it."""
        return postgres_drivers.prepared(statement, self.engine)

    def insert_jobs(self, new: Sequence[NewJob], connection: Connection | None = None) -> list[Job]:
        """Write the jobs and their first events, and wake the workers."""
        postgres_drivers.refuse_autocommit(connection)
        return super().insert_jobs(new, connection)

    def _insert_rows(self, connection: Connection, new: Sequence[NewJob], now: datetime) -> list[Job]:
        """All rows of a table in one statement, whose values travel as one JSON text."""
        cursor, made = cursor_of(connection), NewRows(new, now, self.step)
        self._see_queues(cursor, made.queues(), now)
        t = self.tables
        self.prepared("insert jobs", lambda: insert_from_json(t.jobs, JOB_INSERT)).run(
            cursor, _given(made.dicts(self.to_driver))
        )
        self.prepared("insert events", lambda: insert_from_json(t.events, CREATED_EVENT)).run(
            cursor, _given(made.events(self.to_driver))
        )
        if Status.QUEUED in made.statuses:
            self.announce(connection)
        return made.jobs()


class PostgresStorage(PostgresTurning, PlainPostgresStorage):
    """The hot paths by psycopg 3: pipelines, COPY and prepared set-based statements."""

    @cached_property
    def _sql(self) -> postgres_sql.Statements:
        return postgres_sql.statements(self.tables, self.channel if self.notify else None)

    def watch(self) -> Watcher:
        """LISTEN on the channel; a worker without it would still poll."""
        return _NotificationWatcher(self.engine, self.channel)


class _NotificationWatcher:
    """A connection that only listens. A lost one is opened again by the next wait."""

    PROBE_SECONDS = 10.0
    """Nothing to hear and nobody there sound the same, so the server is asked now and then."""

    def __init__(self, engine: Engine, channel: str) -> None:
        self._engine = engine
        self._channel = channel
        self._driver: Any = None
        self._pool: Any = None
        self._probe_at = 0.0

    def wait(self, seconds: float) -> bool:
        try:
            return self._wait(seconds)
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        if self._driver is not None:
            driver, self._driver = self._driver, None
            driver.close()

    def _wait(self, seconds: float) -> bool:
        if self._pool is not self._engine.pool:
            # The storage has closed its connections, because of a server that is gone or cannot be written to.
            self.close()
        if self._driver is None:
            self._listen()
            # Whatever was announced while nobody listened is news as well.
            return True
        for _notification in self._driver.notifies(timeout=seconds, stop_after=1):
            return True
        if time.monotonic() > self._probe_at:
            self._driver.execute("SELECT 1")
            self._probe_at = time.monotonic() + self.PROBE_SECONDS
        return False

    def _listen(self) -> None:
        self._pool = self._engine.pool
        self._driver = driver = detached(self._engine)
        driver.autocommit = True
        driver.execute('LISTEN "' + self._channel.replace('"', '""') + '"')
        self._probe_at = time.monotonic() + self.PROBE_SECONDS


def insert_from_json(table: Table, names: Sequence[str]) -> Insert:
    """An insert of many rows, given as one JSON array of objects."""
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    columns = ", ".join(f"{name} {table.c[name].type.compile(dialect=dialect)}" for name in names)
    given = text(f"SELECT {', '.join(names)} FROM json_to_recordset(CAST(:given AS json)) AS given({columns})")
    return insert(table).from_select(list(names), given.columns(**{name: table.c[name].type for name in names}))


def _given(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {"given": msgspec.json.encode(rows).decode()}


def _engine(url: URL) -> Engine:
    engine = postgres_drivers.create(
        url, pool_size=10, max_overflow=50, pool_use_lifo=True, connect_args=postgres_connections.connect_args(url)
    )

    @event.listens_for(engine, "connect")
    def in_utc(driver: Any, _record: Any) -> None:
        cursor = driver.cursor()
        cursor.execute("SET TIME ZONE 'UTC'")
        cursor.close()
        driver.commit()

    return engine
