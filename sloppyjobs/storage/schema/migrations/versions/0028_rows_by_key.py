"""Rows of business keys and of tags are found by their keys alone, and written once.

A job's own row says its business key, its tags and when it was created: no index of the ids of jobs is needed, and
every new row paid for it. SQLite keeps both tables in the order of their primary keys.
"""

from __future__ import annotations

import sqlalchemy as sa

from sloppyjobs.storage.schema.column_types import ByteText, KeyText
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.migrations.steps import drop_index, keep_by_key

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    """Two indexes go, and two tables are kept by their keys."""
    drop_index("job_keys", "job")
    drop_index("job_tags", "job")
    keep_by_key(
        "job_keys",
        sa.Column("key", KeyText, primary_key=True),
        sa.Column("job_id", ByteText, nullable=False),
        sa.Column("until_start", sa.SmallInteger, nullable=False),
        sa.Column("reserved_until", Instant),
        sa.Column("created_at", Instant, nullable=False),
    )
    keep_by_key(
        "job_tags",
        sa.Column("tag", ByteText, primary_key=True),
        sa.Column("created_at", Instant, primary_key=True),
        sa.Column("job_id", ByteText, primary_key=True),
    )
