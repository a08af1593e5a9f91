"""Limits: permits, jobs that wait for one, buckets of rates; and the ageing of a queue's priorities."""

from __future__ import annotations

import sqlalchemy as sa

from sloppyjobs.storage.schema.column_types import ByteText, LongText, Number
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.migrations.steps import add_column, create_index, create_table

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Four tables, what a queue says of ageing, and the priority that a job had before."""
    create_table(
        "job_limits",
        sa.Column("name", ByteText, primary_key=True),
        sa.Column("concurrency", sa.Integer),
        sa.Column("rate", sa.Integer),
        sa.Column("per_seconds", Number),
        sa.Column("declared", sa.Boolean, nullable=False),
        sa.Column("declared_as", LongText),
        sa.Column("application", ByteText),
        sa.Column("vanished_at", Instant),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
    )
    create_table(
        "job_permits",
        sa.Column("resource", ByteText, primary_key=True),
        sa.Column("partition_key", ByteText, primary_key=True),
        sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("job_id", ByteText, nullable=False),
        sa.Column("taken_at", Instant, nullable=False),
    )
    create_index("job_permits", "job", "job_id")
    create_table(
        "job_parked",
        sa.Column("job_id", ByteText, primary_key=True),
        sa.Column("resource", ByteText, nullable=False),
        sa.Column("partition_key", ByteText, nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("run_at", Instant, nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("released", sa.SmallInteger, nullable=False),
        sa.Column("released_at", Instant),
    )
    line = ("released", "resource", "partition_key", "place", "run_at", "created_at", "job_id")
    create_index("job_parked", "line", *line)
    create_table(
        "job_buckets",
        sa.Column("resource", ByteText, primary_key=True),
        sa.Column("partition_key", ByteText, primary_key=True),
        sa.Column("full_at", Instant, nullable=False),
    )
    create_index("job_buckets", "full", "full_at", "resource", "partition_key")
    for table in ("jobs", "job_archive"):
        add_column(table, "base_priority", sa.Integer)
    add_column("job_queues", "ageing_seconds", Number)
    add_column("job_queues", "ageing_most", sa.Integer)
