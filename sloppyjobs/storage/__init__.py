"""Where jobs are kept: ``sqlite``, ``postgres`` and ``from_url`` make a storage for ``Jobs``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Engine

from sloppyjobs.storage import urls
from sloppyjobs.storage.clock import Clock, FakeClock
from sloppyjobs.storage.store import SqlStorage

if TYPE_CHECKING:
    from sloppyjobs.storage.dialects.postgres.storage import PlainPostgresStorage
    from sloppyjobs.storage.dialects.sqlite.storage import SqliteStorage

__all__ = ["BACKENDS", "Clock", "FakeClock", "SqlStorage", "from_url", "offline", "postgres", "sqlite"]

Target = str | URL | Engine


def sqlite(target: Target, **options: Any) -> SqliteStorage:
    """Jobs in a SQLite file: ``clock``, ``prefix``, ``synchronous`` ("FULL", "NORMAL", "EXTRA")."""
    from sloppyjobs.storage.dialects.sqlite.storage import SqliteStorage  # noqa: PLC0415

    return SqliteStorage(urls.checked(target), **options)


def postgres(target: Target, **options: Any) -> PlainPostgresStorage:
    """Jobs in PostgreSQL: ``clock``, ``prefix``, ``schema``, ``notify``, ``answer_timeout``.

    Fastest by psycopg 3; any driver works. ``answer_timeout`` is for how many seconds a statement on a connection of
    the library's own making waits for a sign of life (10; None: for ever) before the connection is given up; by
    psycopg 3 only.
    """
    from sloppyjobs.storage.dialects.postgres import drivers  # noqa: PLC0415
    from sloppyjobs.storage.dialects.postgres.storage import PlainPostgresStorage, PostgresStorage  # noqa: PLC0415

    checked = urls.checked(target)
    fast = drivers.driver_name(checked) == drivers.FAST
    return PostgresStorage(checked, **options) if fast else PlainPostgresStorage(checked, **options)


def from_url(target: Target, **options: Any) -> SqlStorage:
    """The storage that fits a SQLAlchemy URL or engine. Raises ``InvalidOption`` for one that does not work here."""
    checked = urls.checked(target)
    return _FACTORIES[urls.backend(checked)](checked, **options)


_FACTORIES: Mapping[str, Callable[..., SqlStorage]] = {"sqlite": sqlite, "postgresql": postgres}

BACKENDS = tuple(_FACTORIES)
"""The kinds of databases there are, by SQLAlchemy's names for them."""


def offline(backend: str) -> SqlStorage:
    """A storage for a kind of database that leads to none: its ``ddl`` can be printed."""
    return _FACTORIES[backend](f"{backend}://")
