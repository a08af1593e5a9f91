"""One package per database; each reads as the difference from the common SQL.

``DIALECTS`` lists them. A package has ``open_store(target, **options)`` in its module ``store``, and ``TYPES`` in its
module ``schema``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

    from sloppyjobs.storage.schema.style import ColumnTypes
    from sloppyjobs.storage.store import SqlStore


class Registered(NamedTuple):
    """A kind of database: SQLAlchemy's name for it, our package, and a URL as an example."""

    name: str
    package: str
    example: str
    aliases: tuple[str, ...] = ()
    """Other names with which URLs begin."""
    async_drivers: tuple[str, ...] = ()
    """Asynchronous drivers in whose transactions jobs can be written."""
    needs: Mapping[str, str] = {}
    """What else must be installed for a driver, by the name of the driver."""

    def open_store(self, target: URL | Engine, **options: Any) -> SqlStore:
        """A store over a URL or an engine of this kind."""
        store: SqlStore = self._module("store").open_store(target, **options)
        return store

    @property
    def types(self) -> ColumnTypes:
        """The types of its columns."""
        types: ColumnTypes = self._module("schema").TYPES
        return types

    def _module(self, *path: str) -> Any:
        return import_module(".".join((__name__, self.package, *path)))


DIALECTS = (
    Registered("sqlite", "sqlite", "sqlite:///app.db", async_drivers=("aiosqlite",)),
    Registered(
        "postgresql",
        "postgres",
        "postgresql://user@host:5432/database",
        aliases=("postgres",),
        async_drivers=("psycopg",),
    ),
    Registered("mysql", "mariadb", "mysql://user@host:3306/database", aliases=("mariadb",)),
    Registered(
        "mssql",
        "sqlserver",
        "mssql+mssqlpython://user@host:1433/database",
        needs={"mssqlpython": "SQLAlchemy 2.1 or newer"},
    ),
)


def examples() -> str:
    """URLs of every kind, for messages."""
    return " or ".join(one.example for one in DIALECTS)


def registered(name: str) -> Registered | None:
    """The kind of database with which a URL of that name is meant."""
    return next((one for one in DIALECTS if name in (one.name, *one.aliases)), None)


def in_memory(engine: Engine) -> bool:
    """Whether a database, of whomever, is in the memory of this process, and lost with its connection."""
    url = engine.url
    return engine.dialect.name == "sqlite" and (
        ":memory:" in (url.database or ":memory:") or url.query.get("mode") == "memory"
    )


@cache
def column_types() -> Mapping[str, ColumnTypes]:
    """The types of columns by SQLAlchemy's name of the database."""
    return {name: one.types for one in DIALECTS for name in (one.name, *one.aliases)}
