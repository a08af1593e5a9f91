"""Where jobs are kept: ``sqlite``, ``postgres``, ``mariadb`` and ``from_url`` make a storage for ``Jobs``."""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Engine

from sloppyjobs.storage import urls
from sloppyjobs.storage.clock import Clock, FakeClock
from sloppyjobs.storage.dialects import DIALECTS
from sloppyjobs.storage.forking import forget_connections_after_fork as forget_connections_after_fork
from sloppyjobs.storage.forking import forget_inherited_connections as forget_inherited_connections
from sloppyjobs.storage.store import SqlStore

__all__ = [
    "BACKENDS",
    "Clock",
    "FakeClock",
    "SqlStore",
    "from_url",
    "mariadb",
    "offline",
    "postgres",
    "sqlite",
    "sqlserver",
]

Target = str | URL | Engine

BACKENDS = tuple(kind.name for kind in DIALECTS)
"""The kinds of databases there are, by SQLAlchemy's names for them."""


def sqlite(target: Target, **options: Any) -> SqlStore:
    """Jobs in a SQLite file: ``clock``, ``prefix``, ``synchronous`` ("FULL", "NORMAL", "EXTRA")."""
    from sloppyjobs.storage.dialects.sqlite.store import open_store  # noqa: PLC0415

    return open_store(urls.checked(target, "sqlite"), **options)


def postgres(target: Target, **options: Any) -> SqlStore:
    """Jobs in PostgreSQL: ``clock``, ``prefix``, ``schema``, ``notify``, ``answer_timeout``.

    Fastest by psycopg 3; any driver works. ``answer_timeout`` is for how many seconds a statement on a connection of
    the library's own making waits for a sign of life (10; None: for ever) before the connection is given up; by
    psycopg 3 only.
    """
    from sloppyjobs.storage.dialects.postgres.store import open_store  # noqa: PLC0415

    return open_store(urls.checked(target, "postgres"), **options)


def sqlserver(target: Target, **options: Any) -> SqlStore:
    """Jobs in SQL Server 2019 or newer: ``clock``, ``prefix``, ``schema``. By mssql-python, pyodbc or pymssql."""
    from sloppyjobs.storage.dialects.sqlserver.store import open_store  # noqa: PLC0415

    return open_store(urls.checked(target, "sqlserver"), **options)


def mariadb(target: Target, **options: Any) -> SqlStore:
    """Jobs in MariaDB 10.6 or newer, or MySQL 8.0 or newer: ``clock``, ``prefix``, ``answer_timeout``.

    ``answer_timeout`` is for how many seconds a statement on a connection of the library's own making waits for a sign
    of life (10; None: for ever) before the connection is given up; by PyMySQL only.
    """
    from sloppyjobs.storage.dialects.mariadb.store import open_store  # noqa: PLC0415

    return open_store(urls.checked(target, "mariadb"), **options)


def from_url(target: Target, **options: Any) -> SqlStore:
    """The storage that fits a SQLAlchemy URL or engine. Raises ``InvalidOption`` for one that does not work here."""
    checked = urls.checked(target)
    return urls.kind(checked).open_store(checked, **options)


def offline(backend: str) -> SqlStore:
    """A storage for a kind of database that leads to none: its ``ddl`` can be printed."""
    return from_url(f"{backend}://")
