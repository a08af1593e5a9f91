"""PostgreSQL: set-based statements, COPY and pipelines by psycopg 3, and the common statements by any other driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

    from sloppyjobs.storage.dialects.postgres.storage import PlainPostgresStorage


def open_storage(target: URL | Engine, **options: Any) -> PlainPostgresStorage:
    """The storage over a server, as the driver allows it."""
    from sloppyjobs.storage.dialects.postgres import drivers  # noqa: PLC0415 - loaded when it is used
    from sloppyjobs.storage.dialects.postgres.storage import PlainPostgresStorage, PostgresStorage  # noqa: PLC0415

    fast = drivers.driver_name(target) == drivers.FAST
    return PostgresStorage(target, **options) if fast else PlainPostgresStorage(target, **options)
