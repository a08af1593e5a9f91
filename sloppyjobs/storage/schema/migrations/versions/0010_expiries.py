"""Jobs that are not to be run late: each expires at an instant, unless it has started by then."""

from __future__ import annotations

import sqlalchemy as sa

from sloppyjobs.storage.schema.column_types import ByteText
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.migrations.steps import add_column, create_index, create_table

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """One table more, and a column of jobs and of archived jobs."""
    for table in ("jobs", "job_archive"):
        add_column(table, "expires_at", Instant)
    create_table(
        "job_expiries",
        sa.Column("job_id", ByteText, primary_key=True),
        sa.Column("expires_at", Instant, nullable=False),
    )
    create_index("job_expiries", "at", "expires_at", "job_id")
