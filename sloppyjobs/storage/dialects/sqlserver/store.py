"""Opening a store in SQL Server, by every synchronous driver that SQLAlchemy has for it."""

from __future__ import annotations

from sqlalchemy import URL, Engine

from sloppyjobs.domain import options
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialects.sqlserver import drivers
from sloppyjobs.storage.dialects.sqlserver.dialect import SqlServerDialect
from sloppyjobs.storage.schema.tables import Tables
from sloppyjobs.storage.store import SqlStore


@options.known_only("storage.sqlserver", besides=("target",))
def open_store(
    target: URL | Engine,
    *,
    clock: Clock | None = None,
    prefix: str = "sloppy_",
    schema: str | None = None,
) -> SqlStore:
    """Many workers on many machines."""
    tables = Tables(prefix=prefix, schema=schema, style=SqlServerDialect.style)
    owns = not isinstance(target, Engine)
    if isinstance(target, Engine):
        engine = target
    else:
        engine = drivers.create(target, pool_size=10, max_overflow=50, pool_use_lifo=True)
    return SqlStore(Database(engine, dialect=SqlServerDialect(tables), clock=clock, owns_engine=owns))
