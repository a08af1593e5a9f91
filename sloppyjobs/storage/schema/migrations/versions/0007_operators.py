"""What operators do: deaths that retries would forget, retries of a cause, forms sent once, why a queue is paused."""

from __future__ import annotations

import sqlalchemy as sa

from sloppyjobs.storage.schema.column_types import ByteText, KeyText, LongText, Number, Word
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.migrations.steps import add_column, create_index, create_table

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Four tables more, and two columns of queues."""
    add_column("job_queues", "paused_by", KeyText)
    add_column("job_queues", "pause_reason", LongText)
    create_table(
        "job_deaths",
        sa.Column("cause", Word, primary_key=True),
        sa.Column("queue", ByteText, primary_key=True),
        sa.Column("hour", Instant, primary_key=True),
        sa.Column("name", ByteText, nullable=False),
        sa.Column("error_type", KeyText),
        sa.Column("error_frame", KeyText),
        sa.Column("deaths", sa.Integer, nullable=False),
        sa.Column("first_at", Instant, nullable=False),
        sa.Column("last_at", Instant, nullable=False),
    )
    create_table(
        "job_retry_runs",
        sa.Column("id", ByteText, primary_key=True),
        sa.Column("cause", Word, nullable=False),
        sa.Column("name", ByteText, nullable=False),
        sa.Column("error_type", KeyText),
        sa.Column("error_frame", KeyText),
        sa.Column("queues", LongText),
        sa.Column("kind", Word, nullable=False),
        sa.Column("state", Word, nullable=False),
        sa.Column("rate", Number),
        sa.Column("wanted", sa.Integer, nullable=False),
        sa.Column("retried", sa.Integer, nullable=False),
        sa.Column("actor", KeyText),
        sa.Column("reason", LongText),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("next_at", Instant),
        sa.Column("ended_at", Instant),
        sa.Column("ended_because", LongText),
    )
    create_index("job_retry_runs", "cause", "cause", "created_at", "id")
    create_index("job_retry_runs", "due", "state", "next_at")
    create_table(
        "job_retry_members",
        sa.Column("run_id", ByteText, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("job_id", ByteText, nullable=False),
        sa.Column("attempt_count", sa.Integer, nullable=False),
    )
    create_table(
        "job_form_keys",
        sa.Column("key", ByteText, primary_key=True),
        sa.Column("claimed_by", ByteText, nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("answer", LongText),
    )
    create_index("job_form_keys", "created_at", "created_at")
