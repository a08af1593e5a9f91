"""Tags: words by which jobs are found together."""

from __future__ import annotations

import sqlalchemy as sa

from sloppyjobs.storage.schema.column_types import ByteText, LongText
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.migrations.steps import add_column, create_index, create_table

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """One table more, and a column of jobs and of archived jobs."""
    for table in ("jobs", "job_archive"):
        add_column(table, "tags", LongText)
    create_table(
        "job_tags",
        sa.Column("tag", ByteText, primary_key=True),
        sa.Column("created_at", Instant, primary_key=True),
        sa.Column("job_id", ByteText, primary_key=True),
    )
    create_index("job_tags", "job", "job_id")
