"""Opening a store in MariaDB or MySQL, by PyMySQL or mysqlclient."""

from __future__ import annotations

from sqlalchemy import URL, Engine

from sloppyjobs.domain import options
from sloppyjobs.storage.answer_timeout import DEFAULT
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialects.mariadb.connections import own_engine
from sloppyjobs.storage.dialects.mariadb.dialect import MariaDbDialect
from sloppyjobs.storage.schema.tables import Tables
from sloppyjobs.storage.store import SqlStore


@options.known_only("storage.mariadb", besides=("target",))
def open_store(
    target: URL | Engine,
    *,
    clock: Clock | None = None,
    prefix: str = "sloppy_",
    answer_timeout: float | None = DEFAULT,
) -> SqlStore:
    """Many workers on many machines."""
    if answer_timeout is not None:
        answer_timeout = options.seconds("answer_timeout", answer_timeout, zero=False)
    owns = not isinstance(target, Engine)
    engine = target if isinstance(target, Engine) else own_engine(target)
    tables = Tables(prefix=prefix, style=MariaDbDialect.style)
    dialect = MariaDbDialect(tables, answer_timeout=answer_timeout)
    return SqlStore(Database(engine, dialect=dialect, clock=clock, owns_engine=owns))
