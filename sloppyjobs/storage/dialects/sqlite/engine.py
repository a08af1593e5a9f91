"""The engine of a SQLite file, and the lock by which the threads of a process take turns to write to it."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from sloppyjobs.storage.database import RETRY_SECONDS

MEMORY = ("", ":memory:", None)
"""What a URL calls a database that has no file."""


def own_engine(url: URL, synchronous: str) -> Engine:
    """An engine of our own, with the settings that the jobs want."""
    engine_options: dict[str, Any] = {"connect_args": {"timeout": RETRY_SECONDS, "check_same_thread": False}}
    probe = create_engine(url)
    if probe.url.database in MEMORY:
        # The data lives in its one connection: everybody waits for it in turn.
        engine_options |= {"poolclass": QueuePool, "pool_size": 1, "max_overflow": 0}
    else:
        engine_options |= {"pool_size": 10, "max_overflow": 50}
    engine = create_engine(url, **engine_options)

    @event.listens_for(engine, "do_connect")
    def find_folder(*_given: Any) -> None:
        name = engine.url.database
        if name not in MEMORY and not name.startswith("file:") and not Path(name).parent.is_dir():
            # As SQLite would, which does not say what is missing.
            error = sqlite3.OperationalError(
                f"there is no folder {Path(name).resolve().parent} for the SQLite file: create it, or correct the "
                "database URL"
            )
            error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
            raise error

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.execute(f"PRAGMA synchronous={synchronous}")

    return engine


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
        self._lock.release()


_writer_locks: weakref.WeakValueDictionary[str, WriterLock] = weakref.WeakValueDictionary()


def _renew_locks() -> None:
    for lock in list(_writer_locks.values()):
        lock.renew()


os.register_at_fork(after_in_child=_renew_locks)


def writer_lock(engine: Engine) -> WriterLock:
    """The lock for the engine's file."""
    if engine.url.database in MEMORY:
        return WriterLock()
    return _writer_locks.setdefault(str(engine.url.database), WriterLock())
