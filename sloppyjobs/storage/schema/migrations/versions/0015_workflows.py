"""Workflows: named graphs of jobs."""

from __future__ import annotations

import sqlalchemy as sa

from sloppyjobs.storage.schema.column_types import ByteText, KeyText, LongText, Word
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.migrations.steps import create_index, create_table

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """One table more, and an index of the jobs of each workflow."""
    create_table(
        "job_workflows",
        sa.Column("id", ByteText, primary_key=True),
        sa.Column("name", ByteText, nullable=False),
        sa.Column("status", Word, nullable=False),
        sa.Column("jobs", sa.Integer, nullable=False),
        sa.Column("edges", sa.Integer, nullable=False),
        sa.Column("correlation_id", KeyText),
        sa.Column("metadata", LongText),
        sa.Column("counts", LongText),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("finished_at", Instant),
        sa.Column("cancelled_at", Instant),
        sa.Column("cancelled_by", KeyText),
        sa.Column("cancel_reason", LongText),
    )
    for suffix, *columns in (("created",), ("status", "status"), ("name", "name"), ("correlation", "correlation_id")):
        create_index("job_workflows", suffix, *columns, "created_at", "id")
    create_index("jobs", "workflow", "workflow_id", "status", "id", where="workflow_id IS NOT NULL")
