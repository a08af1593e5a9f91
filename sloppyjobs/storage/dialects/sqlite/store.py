"""Opening a store in a SQLite file."""

from __future__ import annotations

import sqlite3

from sqlalchemy import URL, Engine

from sloppyjobs import errors
from sloppyjobs.domain import options
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialects.sqlite.dialect import SqliteDialect
from sloppyjobs.storage.dialects.sqlite.engine import own_engine
from sloppyjobs.storage.schema.tables import Tables
from sloppyjobs.storage.store import SqlStore

OLDEST = (3, 33, 0)
"""The version of SQLite that brought UPDATE … FROM."""


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
