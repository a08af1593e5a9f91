"""Transactions on a SQLite file, which lets one of them write at a time.

Those that write begin with ``BEGIN IMMEDIATE``: a deferred transaction that reads and then writes fails at once when
another writer came between, whatever the timeout. The threads of a process take turns by a lock of their own.

A thread must not wait for itself. Whoever has flushed a session and then enqueues without it waits for a commit that
can only come when the wait is over. SQLAlchemy tells us of every transaction that begins, and the driver how many rows
were changed since; so this is known at once, and is never a guess. Of coroutines, the task counts instead of the
thread.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import SingletonThreadPool, StaticPool

from sloppyjobs import errors
from sloppyjobs.storage.acting_task import acting_task
from sloppyjobs.storage.database import RETRY_SECONDS
from sloppyjobs.storage.dialects.sqlite.result_codes import is_busy
from sloppyjobs.storage.driver import as_sqlalchemy, cursor_of
from sloppyjobs.storage.unavailable import StorageUnavailable

MEMORY = ("", ":memory:", None)
"""What a URL calls a database that has no file."""


class WriterLock:
    """A lock between the threads of one process; a forked child gets it free."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin with a free lock."""
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self.release()

    def acquire(self, timeout: float) -> bool:
        """Take the lock, or give up after so many seconds."""
        return self._lock.acquire(timeout=timeout)

    def release(self) -> None:
        """Let the next thread write."""
        self._lock.release()


_writer_locks: weakref.WeakValueDictionary[str, WriterLock] = weakref.WeakValueDictionary()

FORK_SECONDS = 5.0
"""How long a fork waits for the transactions of other threads; one that lasts longer is waiting for another process."""


# SQLite remembers per process, not per connection, who has locked a file. A child that is forked in the middle of a
# transaction of another thread inherits that memory, and could never write to the file itself.
class _AcrossFork(threading.local):
    """What the thread that forks has taken for that: two threads may be about to fork, and each gives back its own."""

    def __init__(self) -> None:
        self.locks: list[WriterLock] = []


_across_fork = _AcrossFork()


def _hold_locks() -> None:
    until = time.monotonic() + FORK_SECONDS
    for lock in list(_writer_locks.values()):
        if lock.acquire(max(0.0, until - time.monotonic())):
            _across_fork.locks.append(lock)


def _release_locks() -> None:
    while _across_fork.locks:
        _across_fork.locks.pop().release()


def _renew_locks() -> None:
    _across_fork.locks.clear()
    for lock in list(_writer_locks.values()):
        lock.renew()


os.register_at_fork(before=_hold_locks, after_in_parent=_release_locks, after_in_child=_renew_locks)


def writer_lock(engine: Engine) -> WriterLock:
    """The lock for the engine's file."""
    if engine.url.database in MEMORY:
        return WriterLock()
    return _writer_locks.setdefault(str(engine.url.database), WriterLock())


@contextmanager
def immediate_transaction(engine: Engine, *, ours: bool) -> Iterator[Connection]:
    """A connection that has the right to write; committed at the end."""
    if waits_for_itself(engine):
        raise waiting_for_itself()
    with read_only_in_words(engine), engine.connect() as connection:
        _begin_immediate(connection, ours=ours)
        yield connection
        connection.commit()


def waiting_for_itself() -> errors.InvalidOption:
    """The error for a write that could only be done when another one of its own thread has ended."""
    return errors.InvalidOption(
        "a transaction of this thread has written to the database and is still open, and SQLite lets no other "
        "write meanwhile: pass it as session= or connection=, or commit it first"
    )


@contextmanager
def read_only_in_words(engine: Engine) -> Iterator[None]:
    """The same error for a file that is read-only, but it says what to do."""
    try:
        yield
    except DBAPIError as error:
        code = getattr(error.orig, "sqlite_errorcode", 0)
        if code & 0xFF != sqlite3.SQLITE_READONLY:
            raise
        told = sqlite3.OperationalError(
            f"the SQLite file {engine.url.database} is read-only: let this user write to it and to its "
            "folder, where SQLite keeps further files, and see that nothing is mounted read-only"
        )
        told.sqlite_errorcode = code
        raise as_sqlalchemy(told, engine, broken=False) from error


def _begin_immediate(connection: Connection, *, ours: bool) -> None:
    cursor = cursor_of(connection)
    if ours:
        cursor.execute("PRAGMA busy_timeout=0")
    try:
        with outside_transaction(connection):
            begin_in_turn(cursor, connection.engine)
    finally:
        if ours:
            cursor.execute(f"PRAGMA busy_timeout={int(RETRY_SECONDS * 1000)}")


@contextmanager
def outside_transaction(connection: Connection) -> Iterator[None]:
    """Without the empty transaction that some engines of applications begin on every connection from the pool.

    They do so to have real savepoints: by ``autocommit=False`` of the driver, which wants one to be there at the end,
    or by SQLAlchemy's event ``begin``. Where others have the same connection, the transaction may be theirs, and stays.
    """
    shared = isinstance(connection.engine.pool, StaticPool | SingletonThreadPool)
    cursor = cursor_of(connection)
    if shared or not cursor.connection.in_transaction:
        yield
        return
    cursor.execute("ROLLBACK")
    try:
        yield
    finally:
        if not cursor.connection.in_transaction:
            cursor.execute("BEGIN")


def begin_in_turn(cursor: sqlite3.Cursor, engine: Engine) -> None:
    """Begin as soon as no other process writes; the connection itself must not wait."""
    deadline = time.monotonic() + RETRY_SECONDS
    while True:
        try:
            cursor.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise as_sqlalchemy(error, engine, broken=False) from error
            if time.monotonic() > deadline:
                reason = (
                    f"another connection has been writing to {engine.url.database} for "
                    f"{RETRY_SECONDS:g} s (if it is a transaction of your own, pass it as session= or connection=)"
                )
                raise StorageUnavailable(reason, error, maybe_done=False, connection_invalidated=False) from error
        # SQLite's own back-off is the same in every process; jitter gives each of them a chance.
        time.sleep(0.001 + random.random() * 0.004)  # noqa: S311


Transactions = WeakSet[Connection]

_CHANGES = "sloppyjobs: rows that were changed before this transaction"


class _OfThread(threading.local):
    """The transactions that the thread has begun."""

    def __init__(self) -> None:
        self.transactions: Transactions = WeakSet()


_of_thread = _OfThread()
_of_tasks: WeakKeyDictionary[asyncio.Task[Any], Transactions] = WeakKeyDictionary()


def follow_transactions() -> None:
    """Take note of the transactions of every engine from now on; those of other databases cost nothing."""
    if not event.contains(Engine, "begin", _note):
        event.listen(Engine, "begin", _note)


def waits_for_itself(engine: Engine) -> bool:
    """Whether this thread or task has a transaction open that has written to the engine's file."""
    return any(_has_written(one) and _file(one.engine) == _file(engine) for one in list(_ours()))


def _note(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        connection.info[_CHANGES] = _driver(connection).total_changes
        _ours().add(connection)


def _ours() -> Transactions:
    task = acting_task()
    return _of_thread.transactions if task is None else _of_tasks.setdefault(task, WeakSet())


def _has_written(connection: Connection) -> bool:
    if connection.closed or connection.invalidated or not connection.in_transaction():
        return False
    driver = _driver(connection)
    # A transaction that has only read keeps nobody from writing; nor does one that has changed no row yet.
    return bool(driver.in_transaction and driver.total_changes > connection.info.get(_CHANGES, driver.total_changes))


def _driver(connection: Connection) -> Any:
    return connection.connection.driver_connection


def _file(engine: Engine) -> Path | str:
    name = engine.url.database or ":memory:"
    return name if name.startswith((":memory:", "file:")) else Path(name).resolve()
