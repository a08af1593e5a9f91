"""Connections, transactions and the clock: what every part of the storage stands on.

A transaction is a function of a connection. It is run again as a whole when the database reports a passing
fault (a deadlock, a serialization failure, a busy file) and on a ``Conflict`` with another writer, so that no caller
ever sees one. What lasts is raised as ``StorageUnavailable``, which says whether the work may have been done.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from datetime import datetime
from typing import Any, NoReturn, Self, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Connection, Engine, Executable, Text, cast, literal_column
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from sloppyjobs import errors
from sloppyjobs.storage import reading
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.conflicts import Conflict
from sloppyjobs.storage.forking import forget_connections_after_fork
from sloppyjobs.storage.instants import Instant
from sloppyjobs.storage.outages import StorageUnavailable
from sloppyjobs.storage.tables import Tables
from sloppyjobs.storage.watch import Watcher

T = TypeVar("T")

RETRY_SECONDS = 30.0


class Prepared:
    """A Core statement, compiled once and then run on the driver's own cursor.

    Building and compiling a statement costs more than executing it, so the hot paths do it once.
    Instants are passed and returned in the driver's own form.
    """

    __slots__ = ("_fixed", "_names", "sql")

    def __init__(self, statement: Executable, engine: Engine) -> None:
        compiled = statement.compile(dialect=engine.dialect)  # type: ignore[attr-defined]
        self.sql: str = compiled.string
        self._names: Sequence[str] | None = compiled.positiontup
        self._fixed: Mapping[str, Any] = {k: v for k, v in compiled.params.items() if v is not None}

    def bind(self, values: Mapping[str, Any]) -> Any:
        """The values in the order or form that the driver wants."""
        if self._fixed:
            values = {**self._fixed, **values}
        if self._names is None:
            return values
        return tuple([values[name] for name in self._names])

    def rows(self, cursor: Any, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Execute and fetch everything."""
        cursor.execute(self.sql, self.bind(values))
        fetched: list[tuple[Any, ...]] = cursor.fetchall()
        return fetched

    def run(self, cursor: Any, values: Mapping[str, Any]) -> int:
        """Execute, and return how many rows were touched."""
        cursor.execute(self.sql, self.bind(values))
        count: int = cursor.rowcount
        return count

    def many(self, cursor: Any, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute once per row, in one call to the driver."""
        if rows:
            cursor.executemany(self.sql, [self.bind(row) for row in rows])


class Database:
    """One database: its engine, its tables and its clock. Dialects say what is different in theirs."""

    dialect: str
    now_sql: str
    """The statement clock as SQL."""

    def __init__(self, engine: Engine, *, tables: Tables, clock: Clock | None, owns_engine: bool) -> None:
        self.tables = tables
        self._test_clock = clock
        self._prepared: dict[str, Prepared] = {}
        self._now_type = Instant()
        self._stand_on(engine, ours=owns_engine)

    def _stand_on(self, engine: Engine, *, ours: bool) -> None:
        """Take connections from this engine, which is ours to close or not."""
        self.engine = engine
        self._owns_engine = ours
        forget_connections_after_fork(engine)

    @property
    def owns_engine(self) -> bool:
        """Whether the engine is of our making, or the application's."""
        return self._owns_engine

    @property
    def clock(self) -> Clock:
        """The clock in force."""
        return self._test_clock or _DatabaseClock(self)

    def now(self, connection: Connection) -> datetime:
        """What time it is, by the clock in force."""
        if self._test_clock is not None:
            return self._test_clock.now()
        together = reading.in_force(self.engine)
        if together is not None and (taken := together.now(connection)) is not None:
            return taken
        with self.translating(connection):
            cursor = cursor_of(connection)
            cursor.execute(f"SELECT {self.now_sql}")
            return self.by_clock(cursor.fetchone()[0])

    def clock_column(self) -> ColumnElement[Any]:
        """The statement clock as a column of a prepared query, which saves asking for it; ``by_clock`` reads it."""
        return literal_column(self.now_sql)

    def by_clock(self, value: Any) -> datetime:
        """What time it is, by the clock in force; ``value`` is what the database's own said."""
        moment = self.from_driver(value) if self._test_clock is None else self._test_clock.now()
        assert moment is not None
        return moment

    def prepared(self, key: str, build: Callable[[], Executable]) -> Prepared:
        """The compiled statement of that name, built on first use."""
        found = self._prepared.get(key)
        if found is None:
            found = self._prepared[key] = self.prepare(build())
        return found

    def prepare(self, statement: Executable) -> Prepared:
        """A statement for the driver's cursor."""
        return Prepared(statement, self.engine)

    # Transactions

    def write(self, work: Callable[[Connection], T], connection: Connection | None = None) -> T:
        """Run ``work`` in a transaction of its own, again after a passing fault; or in the caller's."""
        if connection is not None:
            with self.naming_outages(), self.translating(connection):
                return work(connection)
        return self._again(lambda: self._write_once(work))

    def read(self, work: Callable[[Connection], T], connection: Connection | None = None) -> T:
        """Run ``work``, which writes nothing, on a connection of its own or on the caller's."""
        if connection is not None:
            with self.naming_outages(), self.translating(connection):
                return work(connection)
        together = reading.in_force(self.engine)
        with self._stopping_in_words():
            if together is not None:
                return together.run(lambda shared: self.read(work, shared))
            return self._again(lambda: self._read_once(work))

    def together(self, work: Callable[[], T]) -> T:
        """Run ``work``, whose reads share one transaction and one instant; again as a whole after a passing fault.

        ``work`` writes nothing.
        """
        if reading.in_force(self.engine) is not None:
            return work()
        return self._again(lambda: self._together_once(work))

    def begin_reading(self, connection: Connection) -> datetime:
        """Prepare a transaction of reads; what time it is."""
        return self.now(connection)

    def seen(self) -> dict[Any, Any]:
        """What the reads of one page remember for each other; forgotten at once outside of ``together``."""
        together = reading.in_force(self.engine)
        return {} if together is None else together.seen

    def _together_once(self, work: Callable[[], T]) -> T:
        with reading.opened(reading.Reading(self.engine, self.begin_reading)):
            return work()

    @contextmanager
    def _stopping_in_words(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            if self.is_timeout(error):
                raise errors.ReadTimeout("the database took longer than a page may take; narrow the filters") from error
            raise

    def _write_once(self, work: Callable[[Connection], T]) -> T:
        committing = False
        try:
            with self.writing() as connection, self._leaving_read_only(connection), self.translating(connection):
                answer, committing = work(connection), True
        except DBAPIError as error:
            # Whatever happens before COMMIT is sent ends in a rollback, also when the connection is lost.
            if committing and self.is_lost(error):
                raise StorageUnavailable.of(error, maybe_done=True) from error
            raise
        return answer

    def _read_once(self, work: Callable[[Connection], T]) -> T:
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
        if not named and not self.is_unavailable(error):
            raise error
        told = StorageUnavailable.of(error, maybe_done=maybe_done)
        raise told from (None if named else error)

    @contextmanager
    def _leaving_read_only(self, connection: Connection) -> Iterator[None]:
        """A connection of ours to a server that can only be read is closed: the next one may find the primary."""
        try:
            yield
        except DBAPIError as error:
            if self.is_read_only(error) and not connection.invalidated:
                connection.invalidate(error)
            raise

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A connection in a transaction that has the right to write; committed at the end."""
        with self.engine.begin() as connection:
            yield connection

    def _again(self, attempt: Callable[[], T]) -> T:
        deadline, pause = time.monotonic() + RETRY_SECONDS, 0.001
        maybe_done, reconnects = False, None
        while True:
            try:
                return attempt()
            except Conflict:
                if time.monotonic() > deadline:
                    raise
            except DBAPIError as error:
                # What one attempt may have done stays in doubt, whatever becomes of the next.
                maybe_done = maybe_done or (isinstance(error, StorageUnavailable) and error.maybe_done)
                if self.is_read_only(error):
                    reconnects = (self._idle_connections() + 1 if reconnects is None else reconnects) - 1
                    over = reconnects < 0
                else:
                    over = not self.is_passing(error) or time.monotonic() > deadline
                if over:
                    self._raise_named(error, maybe_done=maybe_done)
            # Jitter, so that two writers who met once do not meet again at every step.
            time.sleep(pause * (0.5 + random.random()))  # noqa: S311
            pause = min(pause * 2, 0.05)

    def _idle_connections(self) -> int:
        """How many connections of the pool may be to the same server as the one that has just failed."""
        pool = self.engine.pool
        return pool.checkedin() if isinstance(pool, QueuePool) else 0

    def is_passing(self, error: DBAPIError) -> bool:
        """Whether the same transaction may well succeed when it is run again."""
        raise NotImplementedError

    def is_unavailable(self, error: DBAPIError) -> bool:
        """Whether the database is away, or cannot do what it should; rather than the statement being wrong."""
        raise NotImplementedError

    def is_lost(self, error: DBAPIError) -> bool:
        """Whether nobody knows what has become of the statement."""
        return error.connection_invalidated

    def is_read_only(self, error: DBAPIError) -> bool:  # noqa: ARG002
        """Whether the server can only be read, and another one might be written to."""
        return False

    def is_timeout(self, error: DBAPIError) -> bool:  # noqa: ARG002
        """Whether the database gave up because of its time-out for statements."""
        return False

    def is_duplicate(self, error: DBAPIError) -> bool:
        """Whether a unique key refused the row."""
        raise NotImplementedError

    def is_unreadable(self, error: Exception) -> bool:
        """Whether a row is to blame, and not the database: no value could be made of what it sent."""
        unreadable = (ValueError, TypeError, KeyError, AttributeError, OverflowError, msgspec.MsgspecError)
        return isinstance(error, unreadable)

    def raw_text(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """The column as text or bytes that every driver can read, whatever is in it."""
        return cast(column, Text)

    # Differences between the drivers, for statements that run on their cursors

    def to_driver(self, instant: datetime) -> Any:
        """An instant as the driver takes it."""
        return instant

    def from_driver(self, value: Any) -> datetime | None:
        """An instant as the driver gave it."""
        return self._now_type.process_result_value(value, self.engine.dialect)

    def beside(self, engine: Engine) -> Self:
        """A storage of the same tables that writes on connections of this engine, whose driver is another one."""
        raise NotImplementedError

    def identity(self, connection: Connection) -> tuple[Any, ...]:
        """What tells the database of this connection from every other."""
        raise NotImplementedError

    def watch(self) -> Watcher:
        """A watcher for news from other processes."""
        raise NotImplementedError

    def announce(self, connection: Connection) -> None:
        """Wake the workers when this transaction commits; their polling is enough where this does nothing."""

    def apart(self) -> Self:
        """The same storage on connections of its own, which nobody can use up; itself where they are its own already.

        What an application has set for its connections holds for these too.
        """
        if self._owns_engine or not isinstance(self.engine.pool, QueuePool):
            return self
        pool = self.engine.pool.recreate()
        # The application's bound is for the application; our own is how few of them are ever in use at once.
        pool._max_overflow = -1
        engine = Engine(pool, self.engine.dialect, self.engine.url)
        engine.update_execution_options(**self.engine.get_execution_options())
        other = copy(self)
        other._stand_on(engine, ours=True)
        return other

    def close(self) -> None:
        """Close the pool, if it is ours."""
        if self._owns_engine:
            self.engine.dispose()


class _DatabaseClock:
    """The database's clock as a value; asking it is a query."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def now(self) -> datetime:
        return self._database.read(self._database.now)


def cursor_of(connection: Connection) -> Any:
    """A cursor of the driver's own, inside the connection's transaction."""
    return driver_of(connection).cursor()


def driver_of(connection: Connection) -> Any:
    """The driver's own connection, inside a transaction that SQLAlchemy knows of.

    Of an asynchronous driver it is SQLAlchemy's synchronous face.
    """
    if not connection.in_transaction():
        # What it did not see begin, it would not commit when it is asked to.
        connection.begin()
    return connection.connection.dbapi_connection


def as_sqlalchemy(error: Exception, engine: Engine, *, broken: bool) -> Exception:
    """An error of the driver as SQLAlchemy would have raised it."""
    base = engine.dialect.loaded_dbapi.Error
    found: Exception = DBAPIError.instance(
        None, None, error, base, connection_invalidated=broken, dialect=engine.dialect
    )
    return found


def detached(engine: Engine) -> Any:
    """A connection of the driver's own that the pool does not know any more; the caller closes it."""
    pooled = engine.raw_connection()
    driver = pooled.driver_connection
    pooled.detach()
    return driver
