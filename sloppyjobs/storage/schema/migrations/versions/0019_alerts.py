"""Alerts: the rules that were declared, and what they found."""

from __future__ import annotations

import sqlalchemy as sa

from sloppyjobs.storage.schema.column_types import ByteText, KeyText, LongText, Number, Word
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.migrations.steps import create_index, create_table

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Two tables more."""
    create_table(
        "job_alert_rules",
        sa.Column("name", ByteText, primary_key=True),
        sa.Column("watch", LongText, nullable=False),
        sa.Column("target", KeyText, nullable=False),
        sa.Column("job_name", ByteText, nullable=False),
        sa.Column("queue", ByteText, nullable=False),
        sa.Column("seen_at", Instant, nullable=False),
    )
    create_table(
        "job_alerts",
        sa.Column("rule", ByteText, primary_key=True),
        sa.Column("cause", Word, primary_key=True),
        sa.Column("window_start", Instant, primary_key=True),
        sa.Column("job_id", ByteText, nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("window_seconds", Number, nullable=False),
        sa.Column("target", KeyText, nullable=False),
        sa.Column("told", LongText, nullable=False),
        sa.Column("state", Word, nullable=False),
        sa.Column("ended_at", Instant),
        sa.Column("tries", sa.Integer),
        sa.Column("error", LongText),
    )
    create_index("job_alerts", "created", "created_at", "job_id")
    create_index("job_alerts", "rule", "rule", "created_at", "job_id")
    create_index("job_alerts", "state", "state", "created_at")
    create_index("job_alerts", "job", "job_id")
