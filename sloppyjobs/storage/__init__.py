"""Where jobs are kept: ``sqlite``, ``postgres`` and ``from_url`` make a storage for ``Jobs``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError

from sloppyjobs import errors
from sloppyjobs.storage.clock import Clock, FakeClock
from sloppyjobs.storage.storage import SqlStorage

if TYPE_CHECKING:
    from sloppyjobs.storage.dialects.postgres import PostgresStorage
    from sloppyjobs.storage.dialects.sqlite import SqliteStorage

__all__ = ["Clock", "FakeClock", "SqlStorage", "from_url", "postgres", "sqlite"]

Target = str | URL | Engine


def sqlite(target: Target, **options: Any) -> SqliteStorage:
    """Jobs in a SQLite file: ``clock``, ``prefix``, ``synchronous`` ("FULL", "NORMAL", "EXTRA")."""
    from sloppyjobs.storage.dialects.sqlite import SqliteStorage  # noqa: PLC0415

    return SqliteStorage(target, **options)


def postgres(target: Target, **options: Any) -> PostgresStorage:
    """Jobs in PostgreSQL through psycopg 3: ``clock``, ``prefix``, ``schema``, ``notify``."""
    from sloppyjobs.storage.dialects.postgres import PostgresStorage  # noqa: PLC0415

    return PostgresStorage(target, **options)


_FACTORIES = {"sqlite": sqlite, "postgresql": postgres, "postgres": postgres}


def from_url(target: Target, **options: Any) -> SqlStorage:
    """The storage that fits a SQLAlchemy URL or engine."""
    if isinstance(target, Engine):
        name = target.dialect.name
    else:
        try:
            name = make_url(target).get_backend_name()
        except ArgumentError as error:
            raise errors.InvalidOption(
                f"{target!r} is not a database URL; it looks like sqlite:///app.db or postgresql://user@host/database"
            ) from error
    try:
        factory = _FACTORIES[name]
    except KeyError:
        raise errors.InvalidOption(
            f"database {name!r} is not supported; use a sqlite:/// or postgresql:// URL, or an engine of these"
        ) from None
    return factory(target, **options)
