"""Which version of the tables is there, and which one this code needs."""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Column, Connection, MetaData, String, Table, inspect, select

from sloppyjobs import errors
from sloppyjobs.storage import shown_urls
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.tables import Tables

VERSION = 29
"""The schema version that this code works with."""


def table(tables: Tables) -> Table:
    """The table that holds the version; made once."""
    info = tables.metadata.info
    if "version_table" not in info:
        info["version_table"] = _new_table(tables)
    found: Table = info["version_table"]
    return found


def _new_table(tables: Tables) -> Table:
    options: dict[str, Any] = {"schema": tables.schema, **tables.style.table_options}
    return Table(
        tables.schema_name,
        MetaData(),
        # Alembic's own column, which it updates by name; the time beside it is ours.
        Column("version_num", String(32), primary_key=True),
        Column("updated_at", Instant),
        **options,
    )


def read(tables: Tables, connection: Connection) -> int | None:
    """The version that is there, or None."""
    if not inspect(connection).has_table(tables.schema_name, schema=tables.schema):
        return None
    number = connection.execute(select(table(tables).c.version_num)).scalar_one_or_none()
    return None if number is None else int(number)


def refuse(url: URL, found: int | None) -> None:
    """Raise unless the version is the one that this code needs."""
    where = shown_urls.shown(url)
    if found is None:
        raise errors.SchemaMissing(
            f"the tables of sloppyjobs are not in {where}; create them with "
            f"`sloppyjobs --database {where} init`, `flask jobs init` or jobs.init()"
        )
    if found > VERSION:
        raise errors.SchemaVersionMismatch(
            f"{where} has schema version {found}, which is newer than this library knows ({VERSION}); "
            "upgrade sloppyjobs. Nothing was written"
        )
    if found < VERSION:
        raise errors.SchemaVersionMismatch(
            f"{where} has schema version {found}, this library needs {VERSION}; upgrade it with "
            f"`sloppyjobs --database {where} init`, `flask jobs init` or jobs.init()"
        )
