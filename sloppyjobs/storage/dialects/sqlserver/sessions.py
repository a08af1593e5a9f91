"""Settings of sessions: those that statements here rely on, whatever a server, a database or an application has set."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, event

from sloppyjobs.storage import answer_timeout

ISOLATION = "READ COMMITTED"
# Without XACT_ABORT a refused row ends its statement and not the transaction.
SETTINGS = f"SET TRANSACTION ISOLATION LEVEL {ISOLATION}; SET XACT_ABORT OFF"
# For drivers that have no numbers of errors, or only in texts.
ENGLISH = f"{SETTINGS}; SET LANGUAGE us_english"
# Of a script: what filtered indexes need and not every client sets, ``sqlcmd`` for one; an error undoes everything.
SCRIPT = (
    "SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;\n"
    "SET XACT_ABORT ON;"
)
XACT_ABORT = 16384
"""Its bit of ``@@OPTIONS``."""

_LOCK_TIMEOUT = "sloppyjobs: lock timeout"
NO_LIMIT = -1


def pin_connections(engine: Engine) -> None:
    """Give each new connection of an engine of our own its settings; nobody else changes them."""
    # pymssql has the numbers, and raises the message that the language is another one where its severity is 10.
    pin = _pin if engine.dialect.driver == "pymssql" else _pin_in_english
    if not event.contains(engine.pool, "connect", pin):
        event.listen(engine.pool, "connect", pin)


def _pin(driver: Any, _record: Any) -> None:
    _run(driver, SETTINGS)
    driver.commit()


def _pin_in_english(driver: Any, _record: Any) -> None:
    _run(driver, ENGLISH)
    driver.commit()


@contextmanager
def pinned(connection: Connection, *, ours: bool) -> Iterator[None]:
    """How long to wait for locks, in this block; on an application's connection, all settings, and its own after it."""
    if ours:
        _wait_for_locks(connection)
        yield
        return
    driver = connection.connection.dbapi_connection
    timeout, options = _ask(driver, f"SELECT @@LOCK_TIMEOUT, @@OPTIONS & {XACT_ABORT}")
    _run(driver, f"SET LOCK_TIMEOUT {_milliseconds()}; SET XACT_ABORT OFF")
    try:
        yield
    finally:
        if not connection.invalidated:
            _run(driver, f"SET LOCK_TIMEOUT {timeout}; SET XACT_ABORT {'ON' if options else 'OFF'}")


def _wait_for_locks(connection: Connection) -> None:
    """The setting survives the return to the pool, so it is remembered with the connection."""
    wanted = _milliseconds()
    if connection.info.get(_LOCK_TIMEOUT) != wanted:
        _run(connection.connection.dbapi_connection, f"SET LOCK_TIMEOUT {wanted}")
        connection.info[_LOCK_TIMEOUT] = wanted


def _milliseconds() -> int:
    seconds = answer_timeout.in_force(answer_timeout.DEFAULT)
    return NO_LIMIT if math.isinf(seconds) else int(seconds * 1000)


def _run(driver: Any, statement: str) -> None:
    cursor = driver.cursor()
    cursor.execute(statement)
    cursor.close()


def _ask(driver: Any, query: str) -> tuple[int, int]:
    cursor = driver.cursor()
    cursor.execute(query)
    first, second = cursor.fetchone()
    cursor.close()
    return first, second
