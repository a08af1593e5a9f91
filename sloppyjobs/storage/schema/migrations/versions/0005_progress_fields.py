"""Progress has fields of the application's, and dead jobs are grouped by their name too."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """One column more, of jobs and of archived jobs, and an index that has the name."""
    tables = op.get_context().opts["sloppy_tables"]
    for name in ("jobs", "job_archive"):
        op.add_column(f"{tables.prefix}{name}", sa.Column("progress_fields", sa.Text), schema=tables.schema)
    table = f"{tables.prefix}jobs"
    condition = sa.text("status = 'dead'")
    op.drop_index(f"ix_{table}_dead", table_name=table, schema=tables.schema)
    op.create_index(
        f"ix_{table}_dead",
        table,
        ["error_type", "error_frame", "name", "created_at", "id"],
        schema=tables.schema,
        postgresql_where=condition,
        sqlite_where=condition,
    )
