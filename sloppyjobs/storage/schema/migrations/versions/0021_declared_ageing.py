"""Ageing that code declares, rules for alerts that are muted, and how far ``rekey`` is."""

from __future__ import annotations

import sqlalchemy as sa

from sloppyjobs.storage.schema.column_types import ByteText, KeyText, LongText
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.migrations.steps import add_column, create_index, create_table

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Columns of queues and of rules, and a table of the runs of ``rekey``."""
    add_column("job_queues", "ageing_declared_as", LongText)
    add_column("job_queues", "ageing_application", ByteText)
    add_column("job_queues", "ageing_vanished_at", Instant)
    add_column("job_alert_rules", "muted_at", Instant)
    add_column("job_alert_rules", "muted_until", Instant)
    add_column("job_alert_rules", "muted_by", KeyText)
    add_column("job_alert_rules", "mute_reason", LongText)
    create_table(
        "job_rekeys",
        sa.Column("id", ByteText, primary_key=True),
        sa.Column("key_id", ByteText, nullable=False),
        sa.Column("actor", KeyText),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("examined", sa.BigInteger, nullable=False),
        sa.Column("rewritten", sa.BigInteger, nullable=False),
        sa.Column("changed", sa.BigInteger, nullable=False),
        sa.Column("unreadable", sa.BigInteger, nullable=False),
        sa.Column("started_at", Instant, nullable=False),
        sa.Column("moved_at", Instant, nullable=False),
        sa.Column("finished_at", Instant),
    )
    create_index("job_rekeys", "moved", "moved_at", "id")
