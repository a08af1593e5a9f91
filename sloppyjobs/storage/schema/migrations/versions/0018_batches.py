"""Batches: jobs that are counted together."""

from __future__ import annotations

import sqlalchemy as sa

from sloppyjobs.storage.schema.column_types import ByteText, KeyText, LongText, Number, Word
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.migrations.steps import create_index, create_table

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Three tables, and the index by which the members of a batch are listed."""
    create_table(
        "job_batches",
        sa.Column("id", ByteText, primary_key=True),
        sa.Column("name", ByteText, nullable=False),
        sa.Column("status", Word, nullable=False),
        sa.Column("success_rate", Number, nullable=False),
        sa.Column("callbacks", LongText),
        sa.Column("metadata", LongText),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
        *(sa.Column(f"{name}_at", Instant) for name in ("sealed", "finished", "first_ended", "succeeded", "cancelled")),
        sa.Column("first_status", Word),
        sa.Column("action", Word),
        sa.Column("action_after", ByteText),
        sa.Column("actor", KeyText),
        sa.Column("reason", LongText),
    )
    create_index("job_batches", "status", "status", "id")
    create_index("job_batches", "action", "action", "id")
    create_table(
        "job_batch_members",
        sa.Column("batch_id", ByteText, primary_key=True),
        sa.Column("state", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("job_id", ByteText, primary_key=True),
    )
    create_table(
        "job_batch_counts",
        sa.Column("batch_id", ByteText, primary_key=True),
        sa.Column("queue", ByteText, primary_key=True),
        sa.Column("shard", sa.SmallInteger, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("total", "succeeded", "dead", "cancelled")),
        sa.Column("first_at", Instant),
        sa.Column("last_at", Instant),
    )
    create_index("jobs", "batch", "batch_id", "created_at", "id", where="batch_id IS NOT NULL")
