"""The tables of alerts: the rules that were declared, and what they found."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, MetaData, Table

from sloppyjobs.storage.schema.column_types import ByteText, KeyText, LongText, Number, Word
from sloppyjobs.storage.schema.instants import Instant


def alert_rules(prefix: str, metadata: MetaData) -> None:
    """Rules for alerts, as workers declared them last."""
    Table(
        f"{prefix}job_alert_rules",
        metadata,
        Column("name", ByteText, primary_key=True),
        Column("watch", LongText, nullable=False),
        Column("target", KeyText, nullable=False),
        Column("job_name", ByteText, nullable=False),
        Column("queue", ByteText, nullable=False),
        Column("seen_at", Instant, nullable=False),
        Column("muted_at", Instant),
        Column("muted_until", Instant),
        Column("muted_by", KeyText),
        Column("mute_reason", LongText),
    )


def alerts(prefix: str, metadata: MetaData) -> None:
    """Alerts that were raised, each with the job that delivers it."""
    alerts = Table(
        f"{prefix}job_alerts",
        metadata,
        Column("rule", ByteText, primary_key=True),
        Column("cause", Word, primary_key=True),
        Column("window_start", Instant, primary_key=True),
        Column("job_id", ByteText, nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("window_seconds", Number, nullable=False),
        Column("target", KeyText, nullable=False),
        Column("told", LongText, nullable=False),
        Column("state", Word, nullable=False),
        Column("ended_at", Instant),
        Column("tries", Integer),
        Column("error", LongText),
    )
    c = alerts.c
    Index(f"ix_{prefix}job_alerts_created", c.created_at, c.job_id)
    Index(f"ix_{prefix}job_alerts_rule", c.rule, c.created_at, c.job_id)
    Index(f"ix_{prefix}job_alerts_state", c.state, c.created_at)
    Index(f"ix_{prefix}job_alerts_job", c.job_id)
