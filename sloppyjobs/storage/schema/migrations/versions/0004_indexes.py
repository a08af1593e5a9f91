"""Smaller indexes: every enqueue pays for their bytes.

Queued jobs get a list of their own, which needs no status. On PostgreSQL the instant of creation orders claims without
the ids of the jobs, and nobody looks for equal keys where there are none.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Replace the indexes."""
    table = f"{op.get_context().opts['sloppy_tables'].prefix}jobs"
    _replace(
        f"ix_{table}_list",
        ["status", "created_at", "id"],
        "coalesce(status, '') NOT IN ('queued', 'processing')",
    )
    _create(f"ix_{table}_list_queued", ["created_at", "id"], "coalesce(status, '') = 'queued'")
    if op.get_context().dialect.name == "postgresql":
        _replace(
            f"ix_{table}_claim",
            ["queue", "name", sa.text("priority DESC"), "run_at", "created_at"],
            "status = 'queued'",
        )


def _replace(name: str, columns: list[str | sa.TextClause], where: str) -> None:
    tables = op.get_context().opts["sloppy_tables"]
    op.drop_index(name, table_name=f"{tables.prefix}jobs", schema=tables.schema)
    _create(name, columns, where)


def _create(name: str, columns: list[str | sa.TextClause], where: str) -> None:
    tables = op.get_context().opts["sloppy_tables"]
    condition = sa.text(where)
    op.create_index(
        name,
        f"{tables.prefix}jobs",
        columns,
        schema=tables.schema,
        postgresql_where=condition,
        postgresql_with={"deduplicate_items": "off"},
        sqlite_where=condition,
    )
