"""Connections in autocommit mode, for transactions of one statement or of few."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, NamedTuple, Protocol

from sqlalchemy import Engine, event
from sqlalchemy.exc import DBAPIError, TimeoutError

from sloppyjobs.storage.database import as_sqlalchemy, detached
from sloppyjobs.storage.dialects.postgres.arrays import taking_arrays
from sloppyjobs.storage.dialects.postgres.connections import is_read_only
from sloppyjobs.storage.dialects.postgres.drivers import sqlstate
from sloppyjobs.storage.forking import never_touch
from sloppyjobs.storage.unavailable import StorageUnavailable

KEPT = 10
"""Lines that wait for their next use; as many as an engine's pool would keep."""

MOST = 50
"""Lines that are lent at once; a server takes a hundred connections unless it is told otherwise."""

PATIENCE = 30.0
"""Seconds after which it is an error that none of them has come back."""

_IDLE = 0
"""libpq's word for a connection outside any transaction."""


class Line(NamedTuple):
    """A connection of the driver's own and a cursor that takes arrays. Its errors are raised as SQLAlchemy's."""

    driver: Any
    cursor: Any


class Lines(Protocol):
    """Where lines come from."""

    def lent(self) -> AbstractContextManager[Line]:
        """A line for one transaction."""
        ...


class OwnLines:
    """Lines of an engine of our own. They wait here, ready, which is cheaper by far than a pool's give and take.

    They end with the engine's connections: when it is disposed of, and in a forked child.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._process = os.getpid()
        # Lists are safe between threads for this; the line that was used last is the next.
        self._waiting: list[Line] = []
        self._left = threading.Semaphore(MOST)
        event.listen(engine, "engine_disposed", self._let_go)

    @contextmanager
    def lent(self) -> Iterator[Line]:
        """The line that was used last, or a new one."""
        left = self._left
        if not left.acquire(timeout=PATIENCE):
            raise TimeoutError(
                f"all {MOST} connections for enqueues were in use for {PATIENCE:g} s: "
                "let fewer threads enqueue at once, or pass transactions of your own as session= or connection="
            )
        try:
            with self._taken() as line:
                yield line
        finally:
            left.release()

    @contextmanager
    def _taken(self) -> Iterator[Line]:
        waiting = self._waiting
        try:
            line = waiting.pop()
        except IndexError:
            line = self._open()
        try:
            yield line
        except self._engine.dialect.loaded_dbapi.Error as error:
            broken = bool(line.driver.closed) or is_read_only(error)
            if broken and waiting is self._waiting:
                # What ended this one, a restart for example, mostly ended the others too.
                self._engine.dispose()
            raise _as_told(error, self._engine, broken=broken) from error
        finally:
            idle = line.driver.pgconn.transaction_status == _IDLE
            if idle and len(waiting) < KEPT and waiting is self._waiting:
                self._keep(line, waiting)
            else:
                line.driver.close()

    def _keep(self, line: Line, waiting: list[Line]) -> None:
        waiting.append(line)
        if waiting is not self._waiting:
            # Another thread has closed all that were waiting a moment ago; one that has taken it since will close it.
            with suppress(ValueError):
                waiting.remove(line)
                line.driver.close()

    def _open(self) -> Line:
        try:
            driver = detached(self._engine)
            driver.autocommit = True
            return Line(driver, taking_arrays(driver.cursor()))
        except self._engine.dialect.loaded_dbapi.Error as error:
            raise _unconnected(error, self._engine) from error

    def _let_go(self, _engine: Engine) -> None:
        if self._process == os.getpid():
            self._close()
        else:
            # They are the parent's, who still uses them.
            never_touch(self._waiting)
            self._waiting, self._left, self._process = [], threading.Semaphore(MOST), os.getpid()

    def _close(self) -> None:
        # Those that are lent do not find their list again, and are closed as well.
        waiting, self._waiting = self._waiting, []
        for line in waiting:
            line.driver.close()


class PooledLines:
    """Lines of an application's engine: they count in its pool, whose bound is the application's, and go back to it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def lent(self) -> Iterator[Line]:
        """A connection from the pool, as it was when it goes back."""
        try:
            pooled = self._engine.raw_connection()
        except self._engine.dialect.loaded_dbapi.Error as error:
            raise _unconnected(error, self._engine) from error
        driver: Any = pooled.driver_connection
        try:
            driver.autocommit = True
            yield Line(driver, taking_arrays(driver.cursor()))
        except self._engine.dialect.loaded_dbapi.Error as error:
            broken = self._engine.dialect.is_disconnect(error, pooled, None) or is_read_only(error)
            if broken:
                pooled.invalidate(error)
            raise _as_told(error, self._engine, broken=broken) from error
        finally:
            if pooled.is_valid:
                if driver.pgconn.transaction_status != _IDLE:
                    driver.rollback()
                driver.autocommit = False
            pooled.close()


def _as_told(error: Exception, engine: Engine, *, broken: bool) -> Exception:
    """The driver's error as SQLAlchemy's; in autocommit mode a statement without an answer may have been done."""
    told = as_sqlalchemy(error, engine, broken=broken)
    if broken and isinstance(told, DBAPIError):
        return StorageUnavailable.of(told, maybe_done=sqlstate(error) is None)
    return told


def _unconnected(error: Exception, engine: Engine) -> Exception:
    told = as_sqlalchemy(error, engine, broken=False)
    return StorageUnavailable.of(told, maybe_done=False) if isinstance(told, DBAPIError) else told
