"""Connections in autocommit mode, for transactions of one statement or of few."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, NamedTuple, Protocol

from sqlalchemy import Engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialects.postgres.arrays import taking_arrays
from sloppyjobs.storage.dialects.postgres.connections import DENIED, is_read_only
from sloppyjobs.storage.dialects.postgres.drivers import sqlstate
from sloppyjobs.storage.driver import as_sqlalchemy, detached
from sloppyjobs.storage.forking import never_touch
from sloppyjobs.storage.unavailable import PoolExhausted, StorageUnavailable

MAX_IDLE = 10
"""Connections that are kept for their next use; as many as an engine's pool would keep."""

MAX_IN_USE = 50
"""Connections that are checked out at once; a server takes a hundred connections unless it is told otherwise."""

CHECKOUT_TIMEOUT = 30.0
"""Seconds after which it is an error that none of them has come back."""

_NO_TRANSACTION = 0
"""libpq's word for a connection outside any transaction."""


class Checkout(NamedTuple):
    """A connection of the driver's own and a cursor that takes arrays. Its errors are raised as SQLAlchemy's."""

    driver: Any
    cursor: Any


class AutocommitPool(Protocol):
    """Where connections come from."""

    def checkout(self) -> AbstractContextManager[Checkout]:
        """A connection for one transaction."""
        ...


class OwnPool:
    """Connections of an engine of our own. The idle ones are kept ready, which is far cheaper than the engine's pool.

    They end with the engine's connections: when it is disposed of, and in a forked child.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._process = os.getpid()
        # Lists are safe between threads for this; the connection that was used last is the next.
        self._idle: list[Checkout] = []
        self._left = threading.Semaphore(MAX_IN_USE)
        event.listen(engine, "engine_disposed", self._disposed)

    @contextmanager
    def checkout(self) -> Iterator[Checkout]:
        """The connection that was used last, or a new one."""
        left = self._left
        if not left.acquire(timeout=CHECKOUT_TIMEOUT):
            raise PoolExhausted(
                f"all {MAX_IN_USE} connections for enqueues were in use for {CHECKOUT_TIMEOUT:g} s: "
                "let fewer threads enqueue at once, or pass transactions of your own as session= or connection="
            )
        try:
            with self._opened() as one:
                yield one
        finally:
            left.release()

    @contextmanager
    def _opened(self) -> Iterator[Checkout]:
        idle = self._idle
        try:
            one = idle.pop()
        except IndexError:
            one = self._open()
        try:
            yield one
        except self._engine.dialect.loaded_dbapi.Error as error:
            broken = bool(one.driver.closed) or is_read_only(error)
            if broken and idle is self._idle:
                # What ended this one, a restart for example, mostly ended the others too.
                self._engine.dispose()
            raise _translated(error, self._engine, broken=broken) from error
        finally:
            usable = one.driver.pgconn.transaction_status == _NO_TRANSACTION
            if usable and len(idle) < MAX_IDLE and idle is self._idle:
                self._keep(one, idle)
            else:
                one.driver.close()

    def _keep(self, one: Checkout, idle: list[Checkout]) -> None:
        idle.append(one)
        if idle is not self._idle:
            # Another thread has closed all that were idle a moment ago; one that has taken it since will close it.
            with suppress(ValueError):
                idle.remove(one)
                one.driver.close()

    def _open(self) -> Checkout:
        try:
            driver = detached(self._engine)
            driver.autocommit = True
            return Checkout(driver, taking_arrays(driver.cursor()))
        except self._engine.dialect.loaded_dbapi.Error as error:
            raise _unconnected(error, self._engine) from error

    def _disposed(self, _engine: Engine) -> None:
        if self._process == os.getpid():
            self._close()
        else:
            # They are the parent's, who still uses them.
            never_touch(self._idle)
            self._idle, self._left, self._process = [], threading.Semaphore(MAX_IN_USE), os.getpid()

    def _close(self) -> None:
        # Those that are checked out do not find their list again, and are closed as well.
        idle, self._idle = self._idle, []
        for one in idle:
            one.driver.close()


class EnginePool:
    """Connections of an application's engine: they count in its pool, whose bound it is, and go back to it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def checkout(self) -> Iterator[Checkout]:
        """A connection from the pool, as it was when it goes back."""
        try:
            pooled = self._engine.raw_connection()
        except PoolTimeout as error:
            raise PoolExhausted.of(error) from error
        except self._engine.dialect.loaded_dbapi.Error as error:
            raise _unconnected(error, self._engine) from error
        driver: Any = pooled.driver_connection
        autocommit = driver.autocommit
        try:
            driver.autocommit = True
            yield Checkout(driver, taking_arrays(driver.cursor()))
        except self._engine.dialect.loaded_dbapi.Error as error:
            broken = self._engine.dialect.is_disconnect(error, pooled, None) or is_read_only(error)
            if broken:
                pooled.invalidate(error)
            raise _translated(error, self._engine, broken=broken) from error
        finally:
            if pooled.is_valid:
                if driver.pgconn.transaction_status != _NO_TRANSACTION:
                    driver.rollback()
                driver.autocommit = autocommit
            pooled.close()


def _translated(error: Exception, engine: Engine, *, broken: bool) -> Exception:
    """The driver's error as SQLAlchemy's; in autocommit mode a statement without an answer may have been done."""
    told = as_sqlalchemy(error, engine, broken=broken)
    if broken and isinstance(told, DBAPIError):
        return StorageUnavailable.of(told, maybe_done=sqlstate(error) is None)
    if isinstance(told, DBAPIError) and sqlstate(error) == DENIED:
        return StorageUnavailable.of(told, maybe_done=False, denied=True)
    return told


def pool_for(database: Database) -> AutocommitPool:
    """Connections of the database's own engine, or of the application's."""
    return OwnPool(database.engine) if database.owns_engine else EnginePool(database.engine)


def _unconnected(error: Exception, engine: Engine) -> Exception:
    told = as_sqlalchemy(error, engine, broken=False)
    return StorageUnavailable.of(told, maybe_done=False) if isinstance(told, DBAPIError) else told
