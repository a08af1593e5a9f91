"""Transactions that write begin with ``BEGIN IMMEDIATE``.

A deferred transaction that reads and then writes fails at once when another writer came between, whatever the timeout.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from sloppyjobs import errors
from sloppyjobs.storage.database import RETRY_SECONDS
from sloppyjobs.storage.dialects.sqlite import own_transactions
from sloppyjobs.storage.dialects.sqlite.result_codes import is_busy
from sloppyjobs.storage.driver import as_sqlalchemy, cursor_of
from sloppyjobs.storage.unavailable import StorageUnavailable


@contextmanager
def immediate_transaction(engine: Engine, *, ours: bool) -> Iterator[Connection]:
    """A connection that has the right to write; committed at the end."""
    if own_transactions.waits_for_itself(engine):
        raise errors.InvalidOption(
            "a transaction of this thread has written to the database and is still open, and SQLite lets no other "
            "write meanwhile: pass it as session= or connection=, or commit it first"
        )
    with _read_only_in_words(engine), engine.connect() as connection:
        _begin_immediate(connection, ours=ours)
        yield connection
        connection.commit()


@contextmanager
def _read_only_in_words(engine: Engine) -> Iterator[None]:
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
        _begin_in_turn(cursor, connection.engine)
    finally:
        if ours:
            cursor.execute(f"PRAGMA busy_timeout={int(RETRY_SECONDS * 1000)}")


def _begin_in_turn(cursor: sqlite3.Cursor, engine: Engine) -> None:
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
