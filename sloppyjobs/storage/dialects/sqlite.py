"""SQLite: one writer at a time, instants as text, lists as JSON.

Every write begins with ``BEGIN IMMEDIATE``: a deferred transaction that reads and then writes fails at once when
another writer came between, whatever the time-out.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Select,
    Table,
    bindparam,
    create_engine,
    event,
    select,
    text,
)
from sqlalchemy import func as sql
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from sloppyjobs import errors
from sloppyjobs.model import Job, NewJob, Settlement
from sloppyjobs.states import Status
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.database import RETRY_SECONDS, Prepared, as_sqlalchemy, cursor_of, detached
from sloppyjobs.storage.dialects import sqlite_sql
from sloppyjobs.storage.enqueue import alike, placed, terms_values
from sloppyjobs.storage.instants import SQLITE_NOW, from_text, to_text
from sloppyjobs.storage.settlement import Fence, HeldRow
from sloppyjobs.storage.storage import SqlStorage
from sloppyjobs.storage.tables import Tables
from sloppyjobs.storage.watch import Watcher

OLDEST = (3, 33, 0)
"""The version of SQLite that brought UPDATE … FROM."""

LARGEST = 16_000_000
"""Characters of payloads that travel in one JSON value; SQLite has a limit for texts."""

_MEMORY = ("", ":memory:", None)


class SqliteStorage(SqlStorage):
    """The embedded default: durable with nothing to install."""

    dialect = "sqlite"
    now_sql = SQLITE_NOW
    preparation = "PRAGMA journal_mode=WAL;\n\n"

    def __init__(
        self,
        target: str | URL | Engine,
        *,
        clock: Clock | None = None,
        prefix: str = "sloppy_",
        synchronous: str = "FULL",
    ) -> None:
        if synchronous not in ("FULL", "NORMAL", "EXTRA"):
            raise errors.InvalidOption(
                f"synchronous={synchronous!r}: use FULL (an acknowledged enqueue survives power loss), "
                "EXTRA, or NORMAL (faster; the last commits may be lost with the power)"
            )
        if sqlite3.sqlite_version_info < OLDEST:
            raise errors.DriverMissing(
                f"SQLite {'.'.join(map(str, OLDEST))} or newer is needed; this Python has {sqlite3.sqlite_version}"
            )
        owns = not isinstance(target, Engine)
        engine = target if isinstance(target, Engine) else _engine(target, synchronous)
        super().__init__(engine, tables=Tables(prefix=prefix), clock=clock, owns_engine=owns)
        self._one_writer = _writer_lock(engine)
        self._sql = sqlite_sql.statements(self.tables)

    def prepare_database(self) -> None:
        """Turn the write-ahead log on: readers and the writer do not wait for each other."""

        def switch() -> None:
            with self.engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")

        self._again(switch)

    def lock_migrations(self, connection: Connection) -> None:
        """``BEGIN IMMEDIATE`` has locked out every other writer already."""

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Wait for the right to write, in turn with the other threads, then take it at once."""
        with self._one_writer, self.engine.connect() as connection:
            self._begin_immediate(connection)
            yield connection
            connection.commit()

    def _begin_immediate(self, connection: Connection) -> None:
        cursor = cursor_of(connection)
        if self._owns_engine:
            cursor.execute("PRAGMA busy_timeout=0")
        try:
            self._begin_in_turn(cursor)
        finally:
            if self._owns_engine:
                cursor.execute(f"PRAGMA busy_timeout={int(RETRY_SECONDS * 1000)}")

    def _begin_in_turn(self, cursor: sqlite3.Cursor) -> None:
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            try:
                cursor.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if not _is_busy(error):
                    raise as_sqlalchemy(error, self.engine, broken=False) from error
                if time.monotonic() > deadline:
                    raise errors.JobsError(
                        f"another connection has been writing to {self.engine.url.database} for "
                        f"{RETRY_SECONDS:g} s; if it is a transaction of your own, pass it as session= "
                        "or connection="
                    ) from error
            # SQLite's own back-off is the same in every process; jitter gives each of them a chance.
            time.sleep(0.001 + random.random() * 0.004)  # noqa: S311

    def is_passing(self, error: DBAPIError) -> bool:
        """A busy file passes; everything else stays."""
        return _is_busy(error.orig)

    def is_duplicate(self, error: DBAPIError) -> bool:
        """A unique index said no."""
        return isinstance(error.orig, sqlite3.IntegrityError) and "UNIQUE" in str(error.orig)

    def watch(self) -> Watcher:
        """Look for commits of others."""
        return _ChangeWatcher(self.engine)

    def to_driver(self, instant: datetime) -> str:
        """Text of fixed width."""
        return to_text(instant)

    def from_driver(self, value: Any) -> datetime | None:
        """The instant in the text."""
        return None if value is None else from_text(value)

    def any_of(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """The list travels as one JSON text."""
        return column.in_(select(text("value")).select_from(sql.json_each(bindparam(name))))

    def list_param(self, values: Sequence[str]) -> str:
        """A JSON array."""
        return msgspec.json.encode(values).decode()

    def begin_really(self, connection: Connection) -> None:
        """The driver begins at the first insert, which is too late for a savepoint."""
        driver: Any = connection.connection.driver_connection
        if not driver.in_transaction and driver.isolation_level is not None:
            cursor_of(connection).execute("BEGIN IMMEDIATE")

    def insert_if_absent(self, table: Table, names: Sequence[str]) -> Any:
        """``ON CONFLICT DO NOTHING``."""
        return insert(table).values({name: bindparam(name) for name in names}).on_conflict_do_nothing()

    # Many rows in one step: the interpreter lets go of its lock at every step, and other threads are waiting for it

    def prepare(self, statement: Executable) -> Prepared:
        """Queries answer with one value."""
        return _AtOnce(statement, self.engine) if isinstance(statement, Select) else Prepared(statement, self.engine)

    def _insert_rows(self, connection: Connection, new: Sequence[NewJob], now: datetime) -> list[Job]:
        """Jobs that are alike all together; the others one by one."""
        if not alike(new) or sum(len(job.payload) for job in new) > LARGEST:
            return super()._insert_rows(connection, new, now)
        cursor, moment, terms = cursor_of(connection), self.to_driver(now), new[0].terms
        self._see_queues(cursor, {terms.queue}, moment)
        values = terms_values(terms) | {
            "occurrence_at": None if terms.occurrence_at is None else self.to_driver(terms.occurrence_at),
            "new": msgspec.json.encode([(job.id, job.payload) for job in new]).decode(),
            "now": moment,
        }
        cursor.execute(self._sql.insert_alike, values)
        cursor.execute(self._sql.record_created, values)
        return placed(new, now, self.step)

    def _open_attempts(self, cursor: Any, worker_id: str, taken: Sequence[Fence], moment: Any) -> None:
        """Insert from the rows themselves."""
        values = {"ids": self.list_param([id for id, _ in taken]), "worker": worker_id, "now": moment}
        cursor.execute(self._sql.open_attempts, values)
        cursor.execute(self._sql.record_claims, values)

    def _write_settled(
        self, connection: Connection, accepted: Sequence[Settlement], found: Mapping[str, HeldRow]
    ) -> None:
        """Successes, which are most, all together; the others one by one."""
        plain = [s for s in accepted if s.decision.path == (Status.SUCCEEDED,)]
        other = [s for s in accepted if s.decision.path != (Status.SUCCEEDED,)]
        if plain:
            cursor, now = cursor_of(connection), self.now(connection)
            given = [(s.job_id, s.attempt, s.run_seconds, s.decision.result) for s in plain]
            values = {
                "given": msgspec.json.encode(given).decode(),
                "worker": plain[0].worker_id,
                "now": self.to_driver(now),
            }
            for statement in (self._sql.succeed_jobs, self._sql.close_attempts, self._sql.record_successes):
                cursor.execute(statement, values)
            self._count(cursor, plain, found, now)
        if other:
            super()._write_settled(connection, other, found)

    def count_up(self) -> Any:
        """``ON CONFLICT DO UPDATE``, adding."""
        return count_up_on_conflict(insert(self.tables.stats), self.tables.stats)


class _AtOnce(Prepared):
    """A query whose rows come as one JSON array, in a single step."""

    __slots__ = ()

    def __init__(self, statement: Select[Any], engine: Engine) -> None:
        super().__init__(statement, engine)
        names = ", ".join(f"c{place}" for place in range(len(statement.selected_columns)))
        self.sql = f"WITH found ({names}) AS ({self.sql}) SELECT json_group_array(json_array({names})) FROM found"

    def rows(self, cursor: Any, values: Mapping[str, Any]) -> list[Any]:
        cursor.execute(self.sql, self.bind(values))
        found: list[Any] = msgspec.json.decode(cursor.fetchone()[0])
        return found


class _ChangeWatcher:
    """Asks every few milliseconds whether another connection has committed, which costs microseconds."""

    EVERY = 0.015
    IDLE_EVERY = 0.05
    """Where nothing has happened for a while, looking less often is enough."""
    IDLE_AFTER = 0.3

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._driver: Any = None
        self._seen: int | None = None
        self._last_change = time.monotonic()

    def wait(self, seconds: float) -> bool:
        if self._engine.url.database in _MEMORY:
            # One connection is all there is: looking would keep the others from it.
            time.sleep(min(seconds, self.EVERY))
            return True
        until = time.monotonic() + seconds
        while True:
            version = self._version()
            changed, self._seen = version != self._seen, version
            now = time.monotonic()
            if changed:
                self._last_change = now
                return True
            if now >= until:
                return False
            time.sleep(self.EVERY if now - self._last_change < self.IDLE_AFTER else self.IDLE_EVERY)

    def close(self) -> None:
        if self._driver is not None:
            driver, self._driver = self._driver, None
            driver.close()

    def _version(self) -> int:
        if self._driver is None:
            self._driver = detached(self._engine)
        number: int = self._driver.execute("PRAGMA data_version").fetchone()[0]
        return number


def count_up_on_conflict(statement: Any, stats: Table) -> Any:
    """The upsert that SQLite and PostgreSQL share."""
    keys = ("minute", "queue", "name", "shard")
    counters = ("succeeded", "failed", "dead", "cancelled", "run_seconds")
    statement = statement.values({name: bindparam(name) for name in (*keys, *counters)})
    added = {name: stats.c[name] + statement.excluded[name] for name in counters}
    return statement.on_conflict_do_update(index_elements=list(keys), set_=added)


def _engine(url: str | URL, synchronous: str) -> Engine:
    engine_options: dict[str, Any] = {"connect_args": {"timeout": RETRY_SECONDS, "check_same_thread": False}}
    probe = create_engine(url)
    if probe.url.database in _MEMORY:
        # The data lives in its one connection: everybody waits for it in turn.
        engine_options |= {"poolclass": QueuePool, "pool_size": 1, "max_overflow": 0}
    else:
        engine_options |= {"pool_size": 10, "max_overflow": 50}
    engine = create_engine(url, **engine_options)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.execute(f"PRAGMA synchronous={synchronous}")

    return engine


class _WriterLock:
    """A lock between the threads of one process; a forked child gets it free."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.release()


_writer_locks: weakref.WeakValueDictionary[str, _WriterLock] = weakref.WeakValueDictionary()


def _renew_locks() -> None:
    for lock in list(_writer_locks.values()):
        lock.renew()


os.register_at_fork(after_in_child=_renew_locks)


def _writer_lock(engine: Engine) -> _WriterLock:
    if engine.url.database in _MEMORY:
        return _WriterLock()
    return _writer_locks.setdefault(str(engine.url.database), _WriterLock())


def _is_busy(error: BaseException | None) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
