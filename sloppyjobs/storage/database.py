"""Connections, transactions and the clock: what every part of the storage stands on.

A transaction is a function of a connection. It is retried as a whole when the database reports a transient fault
(a deadlock, a serialization failure, a busy file) and on a ``Conflict`` with another writer, so that no caller ever
sees one. What lasts is raised as ``StorageUnavailable``, which says whether the work may have been done.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, Concatenate, NoReturn, ParamSpec, Protocol, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, Executable, literal_column
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import QueuePool

from sloppyjobs import errors
from sloppyjobs.storage import read_snapshot
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.dialect import Dialect
from sloppyjobs.storage.driver import Conflict, Prepared, as_sqlalchemy, cursor_of
from sloppyjobs.storage.forking import forget_connections_after_fork
from sloppyjobs.storage.same_file import SameFile
from sloppyjobs.storage.schema import version
from sloppyjobs.storage.unavailable import PoolExhausted, StorageUnavailable
from sloppyjobs.storage.watcher import Watcher

T = TypeVar("T")

RETRY_SECONDS = 30.0

Later = dict[Callable[[Collection[str]], None], set[str]]
_AFTER_COMMIT = "sloppyjobs after commit"


class Database:
    """One database: its engine, its tables and its clock. Its dialect says what is different there."""

    def __init__(self, engine: Engine, *, dialect: Dialect, clock: Clock | None, owns_engine: bool) -> None:
        self.engine = engine
        self.owns_engine = owns_engine
        """Whether the engine is of our making, or the application's."""
        self.dialect = dialect
        self.tables = dialect.tables
        self.to_driver, self.from_driver = dialect.to_driver, dialect.from_driver
        self.test_clock = clock
        self.schema_checked = False
        """Whether the tables were seen to have the version of this code."""
        path = dialect.file(engine.url) if owns_engine else None
        self._file = None if path is None else SameFile(path)
        self._prepared = _shared_statements(engine, dialect)
        dialect.attach(engine, ours=owns_engine)
        forget_connections_after_fork(engine)

    @property
    def clock(self) -> Clock:
        """The clock in force."""
        return self.test_clock or _DatabaseClock(self)

    @property
    def step(self) -> timedelta:
        """By how much the instants of jobs differ that are enqueued in one call; an injected clock stands still."""
        return self.dialect.step if self.test_clock is None else timedelta(0)

    def now(self, connection: Connection) -> datetime:
        """What time it is, by the clock in force."""
        if self.test_clock is not None:
            return self.test_clock.now()
        shared = self._snapshot()
        if shared is not None and (taken := shared.now(connection)) is not None:
            return taken
        with self.translating(connection):
            cursor = cursor_of(connection)
            cursor.execute(f"SELECT {self.dialect.now_sql}")
            return self.by_clock(cursor.fetchone()[0])

    def clock_column(self) -> ColumnElement[Any]:
        """The statement clock as a column of a prepared query, which saves asking for it; ``by_clock`` reads it."""
        return literal_column(self.dialect.now_sql)

    def by_clock(self, value: Any) -> datetime:
        """What time it is, by the clock in force; ``value`` is what the database's own said."""
        moment = self.from_driver(value) if self.test_clock is None else self.test_clock.now()
        assert moment is not None
        return moment

    def injected_now(self) -> datetime | None:
        """What time it is by the clock of a test; None where the database's own is in force."""
        return None if self.test_clock is None else self.test_clock.now()

    def prepared(self, key: str, build: Callable[[], Executable]) -> Prepared:
        """The compiled statement of that name, built on first use."""
        found = self._prepared.get(key)
        if found is None:
            found = self._prepared[key] = self.dialect.prepared(build(), self.engine)
        return found

    def schema_version(self, connection: Connection | None = None) -> int | None:
        """The version of the tables that are there, or None."""
        return self.read(lambda c: version.read(self.tables, c), connection)

    def ensure_schema(self, connection: Connection | None = None) -> None:
        """Raise unless the tables have exactly the version of this code. Asked once of each database in this place."""
        if self.schema_checked and not self._was_replaced():
            return
        self.read(self.dialect.refuse_server, connection)
        version.refuse(self.engine.url, self.schema_version(connection))
        self.schema_checked = True

    def _was_replaced(self) -> bool:
        """Whether what is open leads to another file than who opens it now; that is closed then."""
        if self._file is None or not self._file.was_replaced():
            return False
        self.engine.dispose()
        self.schema_checked = False
        self._file.accept()
        return True

    # Transactions

    def write(self, work: Callable[[Connection], T], connection: Connection | None = None) -> T:
        """Run ``work`` in a transaction of its own, retried after a transient fault; or in the caller's."""
        if connection is not None:
            with self.naming_outages(), self.translating(connection):
                return work(connection)
        return self.retry(lambda: self.write_once(work))

    def read(self, work: Callable[[Connection], T], connection: Connection | None = None) -> T:
        """Run ``work``, which writes nothing, on a connection of its own or on the caller's."""
        if connection is not None:
            with self.naming_outages(), self.translating(connection):
                return work(connection)
        shared = self._snapshot()
        with self._stopping_in_words():
            if shared is not None:
                return shared.run(lambda c: self.read(work, c))
            return self.retry(lambda: self.read_once(work))

    def snapshot(self, work: Callable[[], T]) -> T:
        """Run ``work``, whose reads share one transaction and one instant; retried as a whole after a transient fault.

        ``work`` writes nothing.
        """
        if self._snapshot() is not None:
            return work()
        return self.retry(lambda: self._snapshot_once(work))

    def bounded(self, connection: Connection) -> Connection:
        """The connection, whose reads have bounded plans and give up after 3 s, until the end of its transaction."""
        shared = self._snapshot()
        settings = self.dialect.read_settings
        if settings and (shared is None or shared.now(connection) is None):
            connection.exec_driver_sql(f"SELECT {settings}")
        return connection

    def begin_reading(self, connection: Connection) -> datetime:
        """Bound the transaction and ask the clock, in one statement."""
        settings = self.dialect.read_settings
        if not settings:
            return self.now(connection)
        row = connection.exec_driver_sql(f"SELECT {self.dialect.now_sql}, {settings}").one()
        return self.by_clock(row[0])

    def seen(self) -> dict[Any, Any]:
        """What the reads of one page remember for each other; forgotten at once outside of ``snapshot``."""
        shared = self._snapshot()
        return {} if shared is None else shared.seen

    def _snapshot(self) -> read_snapshot.Snapshot | None:
        """The snapshot of this thread or task on this database."""
        found = read_snapshot.in_force.get()
        return found if found is not None and found.engine is self.engine else None

    def _snapshot_once(self, work: Callable[[], T]) -> T:
        with read_snapshot.opened(read_snapshot.Snapshot(self.engine, self.begin_reading)):
            return work()

    @contextmanager
    def _stopping_in_words(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            if self.dialect.is_timeout(error):
                raise errors.ReadTimeout("the database took longer than a page may take; narrow the filters") from error
            raise

    def write_once(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in a transaction of its own, without a retry."""
        committing = False
        try:
            with self.writing() as connection, self._leaving_read_only(connection), self.translating(connection):
                connection.info.pop(_AFTER_COMMIT, None)
                answer = work(connection)
                later: Later = connection.info.pop(_AFTER_COMMIT, {})
                committing = True
        except DBAPIError as error:
            # Whatever happens before COMMIT is sent ends in a rollback, also when the connection is lost.
            if committing and self.dialect.is_lost(error):
                raise StorageUnavailable.of(error, maybe_done=True) from error
            raise
        for call, names in later.items():
            call(names)
        return answer

    def after_commit(self, connection: Connection, call: Callable[[Collection[str]], None], names: set[str]) -> None:
        """Call with these names once the transaction is committed, if it is one of ours; a caller's is not waited for.

        What is called must not raise, and nothing may depend on it: the process may end before.
        """
        later: Later = connection.info.setdefault(_AFTER_COMMIT, {})
        later.setdefault(call, set()).update(names)

    def read_once(self, work: Callable[[Connection], T]) -> T:
        """Run ``work``, which writes nothing, on a connection of its own, without a retry."""
        with self.engine.connect() as connection, self.translating(connection):
            return work(connection)

    @contextmanager
    def translating(self, connection: Connection) -> Iterator[None]:
        """Errors of the driver's own cursor look as if SQLAlchemy had executed the statement."""
        try:
            yield
        except self.engine.dialect.loaded_dbapi.Error as error:
            broken = self.engine.dialect.is_disconnect(error, connection.connection, None)
            if broken:
                connection.invalidate(error)
            raise as_sqlalchemy(error, self.engine, broken=broken) from error

    @contextmanager
    def naming_outages(self, *, maybe_done: bool = False) -> Iterator[None]:
        """Errors which mean that the database is away leave as ``StorageUnavailable``."""
        try:
            yield
        except DBAPIError as error:
            self._raise_named(error, maybe_done=maybe_done)

    def _raise_named(self, error: DBAPIError, *, maybe_done: bool) -> NoReturn:
        named = isinstance(error, StorageUnavailable)
        denied = self.dialect.is_denied(error)
        if not named and not denied and not self.dialect.is_unavailable(error):
            raise error
        told = StorageUnavailable.of(
            error,
            maybe_done=maybe_done,
            read_only=self.dialect.is_read_only(error),
            timed_out=self.dialect.is_timeout(error),
            wrong_address=self.dialect.is_wrong_address(error),
            denied=denied,
        )
        raise told from (None if named else error)

    @contextmanager
    def _leaving_read_only(self, connection: Connection) -> Iterator[None]:
        """A connection of ours to a server that can only be read is closed: the next one may find the primary."""
        try:
            yield
        except DBAPIError as error:
            if self.dialect.is_read_only(error) and not connection.invalidated:
                connection.invalidate(error)
            raise

    def writing(self) -> AbstractContextManager[Connection]:
        """A connection in a transaction that has the right to write; committed at the end."""
        return self.dialect.writing(self.engine, ours=self.owns_engine)

    def retry(self, attempt: Callable[[], T]) -> T:
        """Run ``attempt``, which is a whole transaction, until it meets no transient fault; at most for 30 s."""
        deadline, pause = time.monotonic() + RETRY_SECONDS, 0.001
        maybe_done, reconnects = False, None
        while True:
            try:
                return attempt()
            except Conflict:
                if time.monotonic() > deadline:
                    raise
            except PoolTimeout as error:
                # It has been waited for already, as long as the pool says.
                told = PoolExhausted.of(error, maybe_done=maybe_done)
                raise told from (None if told is error else error)
            except DBAPIError as error:
                # What one attempt may have done stays in doubt, whatever becomes of the next.
                maybe_done = maybe_done or (isinstance(error, StorageUnavailable) and error.maybe_done)
                if self.dialect.is_read_only(error):
                    reconnects = (self._idle_connections() + 1 if reconnects is None else reconnects) - 1
                    over = reconnects < 0
                else:
                    over = not self.dialect.is_transient(error) or time.monotonic() > deadline
                if over:
                    self._raise_named(error, maybe_done=maybe_done)
            # Jitter, so that two writers who met once do not meet again at every step.
            time.sleep(pause * (0.5 + random.random()))  # noqa: S311
            pause = min(pause * 2, 0.05)

    def _idle_connections(self) -> int:
        """How many connections of the pool may be to the same server as the one that has just failed."""
        pool = self.engine.pool
        return pool.checkedin() if isinstance(pool, QueuePool) else 0

    def watch(self) -> Watcher:
        """A watcher for news from other processes."""
        return self.dialect.watcher(self.engine)

    def on_engine(self, engine: Engine) -> Database:
        """The same tables on connections of this engine, which is the application's."""
        return Database(engine, dialect=self.dialect, clock=self.test_clock, owns_engine=False)

    def with_own_connections(self) -> Database:
        """The same database on connections that nobody else can use up; itself where they are its own already.

        What an application has set for its connections holds for these too.
        """
        if self.owns_engine or not isinstance(self.engine.pool, QueuePool):
            return self
        other = Database(_unbounded_copy(self.engine), dialect=self.dialect, clock=self.test_clock, owns_engine=True)
        other.schema_checked = self.schema_checked
        return other

    def close(self) -> None:
        """Close the pool, if it is ours."""
        if self.owns_engine:
            self.engine.dispose()


def _shared_statements(engine: Engine, dialect: Dialect) -> dict[str, Prepared]:
    """The compiled statements over these tables for this driver; databases share them, since compiling is slow."""
    key = ("prepared", type(dialect), engine.dialect.driver, engine.dialect.paramstyle)
    found: dict[str, Prepared] = dialect.tables.metadata.info.setdefault(key, {})
    return found


def _unbounded_copy(engine: Engine) -> Engine:
    """An engine with a pool of its own, which opens as many connections as are in use at once.

    The application's bound is for the application. ``recreate`` keeps it and takes no other, so a private attribute
    of the pool is set here; ``tests/worker/test_connections.py`` says when that stops working.
    """
    pool = engine.pool.recreate()
    pool._max_overflow = -1  # type: ignore[attr-defined]
    copy = Engine(pool, engine.dialect, engine.url)
    copy.update_execution_options(**engine.get_execution_options())
    return copy


class _DatabaseClock:
    """The database's clock as a value; asking it is a query."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def now(self) -> datetime:
        return self._database.read(self._database.now)


class OverDatabase(Protocol):
    """An operation that has the database to read from."""

    database: Database


Operation = TypeVar("Operation", bound=OverDatabase)
P = ParamSpec("P")


def bounded_read(method: Callable[Concatenate[Operation, Connection, P], T]) -> Callable[Concatenate[Operation, P], T]:
    """A method that reads on a connection it is given: the snapshot's in force, or one of its own.

    Where there are no tables, or those of another version, it says so.
    """

    @wraps(method)
    def read(operation: Operation, /, *arguments: P.args, **named: P.kwargs) -> T:
        database = operation.database
        database.ensure_schema()
        return database.read(lambda connection: method(operation, database.bounded(connection), *arguments, **named))

    return read
