"""A connection that is kept ready for transactions of few statements.

To take a connection from the engine's pool, to begin and to give it back takes as long as to write a job. Who writes
has the writer lock of the file, so there is mostly one such connection. It ends with the engine's own: when the engine
is disposed of, and in a forked child.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import DBAPIError

from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialects.sqlite import transactions
from sloppyjobs.storage.driver import as_sqlalchemy, detached
from sloppyjobs.storage.forking import never_touch
from sloppyjobs.storage.unavailable import StorageUnavailable


class KeptWriter:
    """The connection for short writes of this process. Its errors are raised as SQLAlchemy's."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._engine = database.engine
        self._lock = transactions.writer_lock(self._engine)
        self._writing = False
        self._process = os.getpid()
        # Safe between threads for this: another one may dispose of the engine at any time.
        self._idle: list[Any] = []
        event.listen(self._engine, "engine_disposed", self._disposed)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A cursor in a transaction that has the right to write; committed at the end."""
        engine = self._engine
        with self._lock, transactions.read_only_in_words(engine):
            # The lock lets its own thread in again, as a signal handler may be: it would wait for itself.
            if self._writing or transactions.waits_for_itself(engine):
                raise transactions.waiting_for_itself()
            self._writing = True
            try:
                with self._translated(), self._opened() as driver:
                    cursor = driver.cursor()
                    transactions.begin_in_turn(cursor, engine)
                    yield cursor
                    self._commit(driver)
            finally:
                self._writing = False

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        idle = self._idle
        try:
            driver = idle.pop()
        except IndexError:
            driver = self._open()
        try:
            yield driver
        except BaseException:
            # What state it is in is not worth a thought: this is rare.
            driver.close()
            raise
        self._keep(driver, idle)

    def _open(self) -> Any:
        driver = detached(self._engine)
        # Each try to begin says at once whether it may; how long to wait in between is decided there.
        driver.execute("PRAGMA busy_timeout=0")
        return driver

    def _keep(self, driver: Any, idle: list[Any]) -> None:
        idle.append(driver)
        if idle is not self._idle:
            # Another thread has closed what was idle a moment ago.
            with suppress(ValueError):
                idle.remove(driver)
                driver.close()

    def _commit(self, driver: Any) -> None:
        try:
            driver.commit()
        except sqlite3.Error as error:
            told = as_sqlalchemy(error, self._engine, broken=False)
            if isinstance(told, DBAPIError) and self._database.dialect.is_lost(told):
                raise StorageUnavailable.of(told, maybe_done=True) from error
            raise told from error

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise as_sqlalchemy(error, self._engine, broken=False) from error

    def _disposed(self, _engine: Engine) -> None:
        idle, self._idle = self._idle, []
        if self._process != os.getpid():
            # It is the parent's, who still uses it.
            never_touch(idle)
            self._process, self._writing = os.getpid(), False
            return
        with suppress(IndexError):
            while True:
                idle.pop().close()


def kept_writer(database: Database) -> KeptWriter | None:
    """For a file that is opened by an engine of our own; the connections of applications are counted by them."""
    engine = database.engine
    in_file = database.dialect.file(engine.url) is not None
    return KeptWriter(database) if database.owns_engine and in_file and engine.dialect.driver == "pysqlite" else None
