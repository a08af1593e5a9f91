"""Opening a store in PostgreSQL, by every synchronous driver that SQLAlchemy has for it.

psycopg 3 replaces the hot operations by single set-based statements. Other drivers run what all databases share.
"""

from __future__ import annotations

from sqlalchemy import URL, Engine

from sloppyjobs.domain import options
from sloppyjobs.storage.answer_timeout import DEFAULT
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialects.postgres.dialect import PostgresDialect
from sloppyjobs.storage.dialects.postgres.engine import own_engine
from sloppyjobs.storage.schema.tables import Tables
from sloppyjobs.storage.store import SqlStore


@options.known_only("storage.postgres", besides=("target",))
def open_store(
    target: URL | Engine,
    *,
    clock: Clock | None = None,
    prefix: str = "sloppy_",
    schema: str | None = None,
    notify: bool = True,
    answer_timeout: float | None = DEFAULT,
) -> SqlStore:
    """Many workers on many machines."""
    if answer_timeout is not None:
        answer_timeout = options.seconds("answer_timeout", answer_timeout, zero=False)
    tables = Tables(prefix=prefix, schema=schema, style=PostgresDialect.style)
    dialect = PostgresDialect(tables, notify=notify, answer_timeout=answer_timeout)
    owns = not isinstance(target, Engine)
    engine = target if isinstance(target, Engine) else own_engine(target)
    return SqlStore(Database(engine, dialect=dialect, clock=clock, owns_engine=owns))
