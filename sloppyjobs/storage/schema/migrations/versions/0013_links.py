"""What a job belongs to, and what it waits for: a workflow, a batch, a limit."""

from __future__ import annotations

import sqlalchemy as sa

from sloppyjobs.storage.schema.column_types import ByteText, Word
from sloppyjobs.storage.schema.migrations.steps import add_column

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Six columns of jobs and of archived jobs."""
    for table in ("jobs", "job_archive"):
        add_column(table, "waiting_for", Word)
        for name in ("workflow_id", "batch_id", "resource", "partition_key"):
            add_column(table, name, ByteText)
        add_column(table, "payload_version", sa.Integer)
