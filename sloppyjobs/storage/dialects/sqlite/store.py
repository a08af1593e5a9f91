"""Opening a store in a SQLite file."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from sloppyjobs import errors
from sloppyjobs.domain import options
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.database import RETRY_SECONDS, Database
from sloppyjobs.storage.dialects.sqlite.dialect import SqliteDialect
from sloppyjobs.storage.dialects.sqlite.transactions import MEMORY
from sloppyjobs.storage.schema.tables import Tables
from sloppyjobs.storage.store import SqlStore

OLDEST = (3, 33, 0)
"""The version of SQLite that brought UPDATE … FROM."""


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


@options.known_only("storage.sqlite", besides=("target",))
def open_store(
    target: URL | Engine,
    *,
    clock: Clock | None = None,
    prefix: str = "sloppy_",
    synchronous: str = "FULL",
) -> SqlStore:
    """The embedded default: durable with nothing to install."""
    if synchronous not in ("FULL", "NORMAL", "EXTRA"):
        raise errors.InvalidOption(
            f"synchronous={synchronous!r}: use FULL (an acknowledged enqueue survives power loss), "
            "EXTRA, or NORMAL (faster; the last commits may be lost with the power)"
        )
    if sqlite3.sqlite_version_info < OLDEST:
        raise errors.DriverMissing(
            f"SQLite {'.'.join(map(str, OLDEST))} or newer is needed; this Python has {sqlite3.sqlite_version}"
        )
    owns = not isinstance(target, Engine)
    engine = target if isinstance(target, Engine) else own_engine(target, synchronous)
    dialect = SqliteDialect(Tables(prefix=prefix, style=SqliteDialect.style))
    return SqlStore(Database(engine, dialect=dialect, clock=clock, owns_engine=owns))
