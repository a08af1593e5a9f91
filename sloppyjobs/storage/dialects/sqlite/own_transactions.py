"""Whether a thread is about to wait for itself: it has a transaction open that has written to the SQLite file.

SQLite lets one transaction write at a time. Whoever has flushed a session and then enqueues without it waits for a
commit that can only come when the wait is over. SQLAlchemy tells us of every transaction that begins, and the driver
how many rows were changed since; so this is known at once, and is never a guess. Of coroutines, the task counts
instead of the thread.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from sqlalchemy import Connection, Engine, event

from sloppyjobs.storage.acting_task import acting_task

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
