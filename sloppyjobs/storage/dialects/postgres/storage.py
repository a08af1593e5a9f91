"""PostgreSQL, by every synchronous driver that SQLAlchemy has for it.

``PlainPostgresStorage`` runs the statements that all databases share and works with any driver.
``PostgresStorage`` replaces the hot paths by single set-based statements, and needs psycopg 3.

Sequential scans are switched off inside the transactions that claim and settle. A queue's statistics are stale by
nature (drained to zero, filled in a burst), and a plan that was made for an empty table must not meet a full one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Executable,
    Insert,
    Table,
    event,
    text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import insert

from sloppyjobs.domain import options
from sloppyjobs.domain.model import Job, NewJob
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.answer_timeout import DEFAULT
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.database import Prepared, cursor_of, detached
from sloppyjobs.storage.dialects.postgres import connections, drivers, statements
from sloppyjobs.storage.dialects.postgres.dialect import PostgresDialect
from sloppyjobs.storage.dialects.postgres.turns import PostgresTurning
from sloppyjobs.storage.jobs.new_rows import CREATED_EVENT, JOB_INSERT, NewRows
from sloppyjobs.storage.schema.tables import Tables
from sloppyjobs.storage.store import SqlStorage
from sloppyjobs.storage.watcher import Watcher


class PlainPostgresStorage(SqlStorage):
    """Many workers on many machines, by any driver: psycopg2 and pg8000 are tested."""

    dialect_type = PostgresDialect

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
        tables = Tables(prefix=prefix, schema=schema, style=self.dialect_type.style)
        self.notify = notify
        self.channel = f"{schema or 'public'}.{prefix}jobs"
        dialect = self.dialect_type(tables, channel=self.channel if notify else None)
        super().__init__(engine, dialect=dialect, clock=clock, owns_engine=owns)

    def beside(self, engine: Engine) -> PlainPostgresStorage:
        """The same tables by another driver."""
        fast = drivers.driver_name(engine) == drivers.FAST
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

    def _stand_on(self, engine: Engine, *, ours: bool) -> None:
        if ours:
            connections.watched(engine, self._answer_timeout)
        super()._stand_on(engine, ours=ours)

    def prepare_database(self) -> None:
        """Create the schema of our own, if there is one."""
        if self.tables.schema is not None:
            with self.engine.begin() as connection:
                self.dialect.lock_migrations(connection)
                connection.exec_driver_sql(self.dialect.preparation)

    def watch(self) -> Watcher:
        """LISTEN on the channel where the driver can wait for a notification; a worker without it still polls."""
        return drivers.watcher(self.engine, self.channel)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction, also on an engine whose connections are in autocommit mode."""
        with self.engine.connect() as connection, drivers.in_transactions(connection), connection.begin():
            yield connection

    def prepare(self, statement: Executable) -> Prepared:
        """For the driver's cursor, many rows in as few round trips as the driver can do it."""
        return drivers.prepared(statement, self.engine)

    def insert_jobs(self, new: Sequence[NewJob], connection: Connection | None = None) -> list[Job]:
        """Write the jobs and their first events, and wake the workers."""
        drivers.refuse_autocommit(connection)
        return super().insert_jobs(new, connection)

    def _insert_rows(self, connection: Connection, new: Sequence[NewJob], now: datetime) -> list[Job]:
        """All rows of a table in one statement, whose values travel as one JSON text."""
        cursor, made = cursor_of(connection), NewRows(new, now, self.step)
        self.see_queues(cursor, made.queues(), now)
        t = self.tables
        self.prepared("insert jobs", lambda: insert_from_json(t.jobs, JOB_INSERT)).run(
            cursor, _given(made.dicts(self.to_driver))
        )
        self.prepared("insert events", lambda: insert_from_json(t.events, CREATED_EVENT)).run(
            cursor, _given(made.events(self.to_driver))
        )
        if Status.QUEUED in made.statuses:
            self.dialect.announce(connection)
        return made.jobs()


class PostgresStorage(PostgresTurning, PlainPostgresStorage):
    """The hot paths by psycopg 3: pipelines, COPY and prepared set-based statements."""

    @cached_property
    def _sql(self) -> statements.Statements:
        return statements.statements(self.tables, self.channel if self.notify else None)

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
    engine = drivers.create(
        url, pool_size=10, max_overflow=50, pool_use_lifo=True, connect_args=connections.connect_args(url)
    )

    @event.listens_for(engine, "connect")
    def in_utc(driver: Any, _record: Any) -> None:
        cursor = driver.cursor()
        cursor.execute("SET TIME ZONE 'UTC'")
        cursor.close()
        driver.commit()

    return engine
