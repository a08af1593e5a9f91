"""PostgreSQL: the hot paths as single set-based statements, and NOTIFY to wake workers.

Sequential scans are switched off inside the transactions that claim and settle. A queue's statistics are stale by
nature (drained to zero, filled in a burst), and a plan that was made for an empty table must not meet a full one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import URL, ColumnElement, Connection, Engine, Table, any_, bindparam, create_engine, event, make_url
from sqlalchemy import func as sql
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import Text

from sloppyjobs import errors
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.database import detached
from sloppyjobs.storage.dialects import postgres_sql
from sloppyjobs.storage.dialects.postgres_turns import PostgresTurning
from sloppyjobs.storage.dialects.sqlite import count_up_on_conflict
from sloppyjobs.storage.tables import Tables
from sloppyjobs.storage.watch import Watcher

_PASSING = {"40001", "40P01", "55P03", "57P01", "57P02", "57P03", "08000", "08003", "08006", "08001", "08004"}


class PostgresStorage(PostgresTurning):
    """Many workers on many machines."""

    dialect = "postgresql"
    now_sql = "clock_timestamp()"

    def __init__(
        self,
        target: str | URL | Engine,
        *,
        clock: Clock | None = None,
        prefix: str = "sloppy_",
        schema: str | None = None,
        notify: bool = True,
    ) -> None:
        owns = not isinstance(target, Engine)
        engine = target if isinstance(target, Engine) else _engine(target)
        tables = Tables(prefix=prefix, schema=schema, dialect=self.dialect)
        super().__init__(engine, tables=tables, clock=clock, owns_engine=owns)
        self._notify = notify
        self._known_queues = set()
        self.channel = f"{schema or 'public'}.{prefix}jobs"
        self.preparation = f'CREATE SCHEMA IF NOT EXISTS "{schema}";\n\n' if schema else ""
        self._sql = postgres_sql.statements(self.tables, self.channel if notify else None)

    def prepare_database(self) -> None:
        """Create the schema of our own, if there is one."""
        if self.tables.schema is not None:
            with self.engine.begin() as connection:
                self.lock_migrations(connection)
                connection.exec_driver_sql(self.preparation)

    def lock_migrations(self, connection: Connection) -> None:
        """An advisory lock that ends with the transaction."""
        connection.execute(sql.pg_advisory_xact_lock(sql.hashtext(self.tables.schema_name)).select())

    def is_passing(self, error: DBAPIError) -> bool:
        """Deadlocks, serialization failures, lock time-outs, and a server that is restarting."""
        return error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _PASSING

    def is_timeout(self, error: DBAPIError) -> bool:
        """Query cancelled."""
        return getattr(error.orig, "sqlstate", None) == "57014"

    def is_duplicate(self, error: DBAPIError) -> bool:
        """Unique violation."""
        return getattr(error.orig, "sqlstate", None) == "23505"

    def from_driver(self, value: datetime | None) -> datetime | None:
        """The driver answers in the session's zone, which is UTC on connections of our own making."""
        return value if value is None or value.tzinfo is UTC else value.astimezone(UTC)

    def any_of(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """``= ANY(array)``."""
        return column == any_(bindparam(name, type_=ARRAY(Text)))

    def insert_if_absent(self, table: Table, names: Sequence[str]) -> Any:
        """``ON CONFLICT DO NOTHING``."""
        return insert(table).values({name: bindparam(name) for name in names}).on_conflict_do_nothing()

    def count_up(self) -> Any:
        """``ON CONFLICT DO UPDATE``, adding."""
        return count_up_on_conflict(insert(self.tables.stats), self.tables.stats)

    def watch(self) -> Watcher:
        """LISTEN on the channel; a worker without it would still poll."""
        return _NotificationWatcher(self.engine, self.channel)

    def announce(self, connection: Connection) -> None:
        """NOTIFY, delivered with the commit."""
        if self._notify:
            connection.execute(sql.pg_notify(self.channel, "").select())


class _NotificationWatcher:
    """A connection that only listens. A lost one is opened again by the next wait."""

    def __init__(self, engine: Engine, channel: str) -> None:
        self._engine = engine
        self._channel = channel
        self._driver: Any = None

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
        if self._driver is None:
            self._listen()
            # Whatever was announced while nobody listened is news as well.
            return True
        for _notification in self._driver.notifies(timeout=seconds, stop_after=1):
            return True
        return False

    def _listen(self) -> None:
        driver = detached(self._engine)
        driver.autocommit = True
        driver.execute('LISTEN "' + self._channel.replace('"', '""') + '"')
        self._driver = driver


def _engine(target: str | URL) -> Engine:
    try:
        import psycopg  # noqa: F401, PLC0415
    except ImportError as error:
        raise errors.DriverMissing(
            "PostgreSQL needs psycopg 3, which is not installed: pip install 'sloppyjobs[postgres]'"
        ) from error
    url = make_url(target)
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    engine = create_engine(url, pool_size=10, max_overflow=50, pool_use_lifo=True)

    @event.listens_for(engine, "connect")
    def in_utc(driver: Any, _record: Any) -> None:
        driver.execute("SET TIME ZONE 'UTC'")
        driver.commit()

    return engine
