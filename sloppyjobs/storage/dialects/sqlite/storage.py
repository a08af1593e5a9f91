"""SQLite: one writer at a time, instants as text, lists as JSON.

Every write begins with ``BEGIN IMMEDIATE``: a deferred transaction that reads and then writes fails at once when
another writer came between, whatever the time-out.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Executable,
    Select,
)
from sqlalchemy.exc import DBAPIError

from sloppyjobs import errors
from sloppyjobs.domain import options
from sloppyjobs.domain.model import Job, NewJob
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.database import RETRY_SECONDS, Prepared, as_sqlalchemy, cursor_of, detached
from sloppyjobs.storage.dialects.sqlite import own_transactions, statements
from sloppyjobs.storage.dialects.sqlite.dialect import SqliteDialect, is_busy, is_no_text
from sloppyjobs.storage.dialects.sqlite.engine import MEMORY, own_engine, writer_lock
from sloppyjobs.storage.jobs.new_rows import NewRows
from sloppyjobs.storage.jobs.settle import Fence
from sloppyjobs.storage.schema.tables import Tables
from sloppyjobs.storage.store import SqlStorage
from sloppyjobs.storage.unavailable import StorageUnavailable
from sloppyjobs.storage.watcher import Watcher

OLDEST = (3, 33, 0)
"""The version of SQLite that brought UPDATE … FROM."""

LARGEST = 16_000_000
"""Characters of payloads that travel in one JSON value; SQLite has a limit for texts."""


class SqliteStorage(SqlStorage):
    """The embedded default: durable with nothing to install."""

    dialect_type = SqliteDialect

    @options.known_only("storage.sqlite", besides=("self", "target"))
    def __init__(
        self,
        target: URL | Engine,
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
        engine = target if isinstance(target, Engine) else own_engine(target, synchronous)
        dialect = self.dialect_type(Tables(prefix=prefix, style=self.dialect_type.style))
        super().__init__(engine, dialect=dialect, clock=clock, owns_engine=owns)
        self._one_writer = writer_lock(engine)
        own_transactions.follow_transactions()
        self._sql = statements.statements(self.tables)

    def prepare_database(self) -> None:
        """Turn the write-ahead log on: readers and the writer do not wait for each other."""

        def switch() -> None:
            with self.engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")

        self._again(switch)

    def beside(self, engine: Engine) -> SqliteStorage:
        """The same tables by another driver."""
        other = SqliteStorage(engine, clock=self._test_clock, prefix=self.tables.prefix)
        other.followups = self.followups
        return other

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Wait for the right to write, in turn with the other threads, then take it at once."""
        if own_transactions.waits_for_itself(self.engine):
            raise errors.InvalidOption(
                "a transaction of this thread has written to the database and is still open, and SQLite lets no other "
                "write meanwhile: pass it as session= or connection=, or commit it first"
            )
        with self._one_writer, self._read_only_in_words(), self.engine.connect() as connection:
            self._begin_immediate(connection)
            yield connection
            connection.commit()

    @contextmanager
    def _read_only_in_words(self) -> Iterator[None]:
        """The same error for a file that is read-only, but it says what to do."""
        try:
            yield
        except DBAPIError as error:
            code = getattr(error.orig, "sqlite_errorcode", 0)
            if code & 0xFF != sqlite3.SQLITE_READONLY:
                raise
            told = sqlite3.OperationalError(
                f"the SQLite file {self.engine.url.database} is read-only: let this user write to it and to its "
                "folder, where SQLite keeps further files, and see that nothing is mounted read-only"
            )
            told.sqlite_errorcode = code
            raise as_sqlalchemy(told, self.engine, broken=False) from error

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
                if not is_busy(error):
                    raise as_sqlalchemy(error, self.engine, broken=False) from error
                if time.monotonic() > deadline:
                    reason = (
                        f"another connection has been writing to {self.engine.url.database} for "
                        f"{RETRY_SECONDS:g} s (if it is a transaction of your own, pass it as session= or connection=)"
                    )
                    raise StorageUnavailable(reason, error, maybe_done=False, connection_invalidated=False) from error
            # SQLite's own back-off is the same in every process; jitter gives each of them a chance.
            time.sleep(0.001 + random.random() * 0.004)  # noqa: S311

    def watch(self) -> Watcher:
        """Look for commits of others."""
        return _ChangeWatcher(self.engine)

    # Many rows in one step: the interpreter lets go of its lock at every step, and other threads are waiting for it

    def prepare(self, statement: Executable) -> Prepared:
        """Queries answer with one value."""
        return _AtOnce(statement, self.engine) if isinstance(statement, Select) else Prepared(statement, self.engine)

    def _insert_rows(self, connection: Connection, new: Sequence[NewJob], now: datetime) -> list[Job]:
        """All of them in two statements, unless their payloads are too large for one text."""
        if sum(len(job.payload) for job in new) > LARGEST:
            return super()._insert_rows(connection, new, now)
        cursor, made = cursor_of(connection), NewRows(new, now, self.step)
        shared, own = made.values(self.to_driver)
        self.see_queues(cursor, made.queues(), shared["created_at"])
        shared["new"] = msgspec.json.encode(list(zip(*own.values(), strict=True))).decode()
        for statement in statements.insert_jobs(self._sql.jobs, self._sql.events, tuple(own)):
            cursor.execute(statement, shared)
        return made.jobs()

    def _open_attempts(self, cursor: Any, worker_id: str, taken: Sequence[Fence], moment: Any) -> None:
        """Insert from the rows themselves."""
        values = {"ids": self.list_param([id for id, _ in taken]), "worker": worker_id, "now": moment}
        cursor.execute(self._sql.open_attempts, values)
        cursor.execute(self._sql.record_claims, values)


class _AtOnce(Prepared):
    """A query whose rows come as one JSON array, in a single step."""

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
        except sqlite3.OperationalError as error:
            if not is_no_text(error):
                raise
            # JSON cannot hold a BLOB, as somebody has put in the place of text; a row can.
            found = cursor.execute(self._plain, self.bind(values)).fetchall()
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
        if self._engine.url.database in MEMORY:
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
