"""Business keys: at most one live job for each, and jobs that take the place of others."""

from __future__ import annotations

import sqlalchemy as sa

from sloppyjobs.storage.schema.column_types import ByteText, KeyText
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.migrations.steps import add_column, create_index, create_table

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """One table more, and three columns of jobs and of archived jobs."""
    for table in ("jobs", "job_archive"):
        add_column(table, "business_key", KeyText)
        add_column(table, "superseded_by", ByteText)
        add_column(table, "supersedes", ByteText)
    create_index("jobs", "business_key", "business_key", "created_at", "id", where="business_key IS NOT NULL")
    create_table(
        "job_keys",
        sa.Column("key", KeyText, primary_key=True),
        sa.Column("job_id", ByteText, nullable=False),
        sa.Column("until_start", sa.SmallInteger, nullable=False),
        sa.Column("reserved_until", Instant),
        sa.Column("created_at", Instant, nullable=False),
    )
    create_index("job_keys", "job", "job_id")
    create_index("job_keys", "reserved", "reserved_until", "key")
