"""The tables around the jobs: queues, schedules, workers, locks, counters, the audit trail, secret keys, throttles."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, MetaData, PrimaryKeyConstraint, SmallInteger, Table

from sloppyjobs.storage.schema.column_types import ByteText, KeyText, LongText, Number, RowNumber, Word
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.partial_indexes import partial_index
from sloppyjobs.storage.schema.style import TableStyle


def queues(prefix: str, metadata: MetaData) -> None:
    """Every queue ever seen, and whether it is paused."""
    Table(
        f"{prefix}job_queues",
        metadata,
        Column("name", ByteText, primary_key=True),
        Column("created_at", Instant, nullable=False),
        Column("paused_at", Instant),
        Column("paused_until", Instant),
        Column("paused_by", KeyText),
        Column("pause_reason", LongText),
        # Each so many seconds of waiting raise the priority of a job by one, and by so much at most.
        Column("ageing_seconds", Number),
        Column("ageing_most", Integer),
        # What the code said last: an operator's change holds until the code says something else.
        Column("ageing_declared_as", LongText),
        Column("ageing_application", ByteText),
        Column("ageing_vanished_at", Instant),
    )


def recurring(prefix: str, metadata: MetaData, style: TableStyle) -> None:
    """Schedule definitions."""
    recurring = Table(
        f"{prefix}recurring_jobs",
        metadata,
        Column("id", ByteText, primary_key=True),
        Column("name", ByteText, nullable=False, unique=True),
        Column("job_name", ByteText, nullable=False),
        # Without a queue or a priority of its own, a schedule takes the definition's.
        Column("queue", ByteText),
        Column("priority", Integer),
        Column("payload", LongText, nullable=False),
        # What the definition said when the schedule was registered, for schedulers that do not know it.
        Column("job_defaults", LongText),
        Column("kind", Word, nullable=False),
        Column("cron", KeyText),
        Column("interval_seconds", Number),
        Column("run_once_at", Instant),
        Column("timezone", KeyText, nullable=False),
        Column("misfire", Word, nullable=False),
        Column("catch_up_limit", Integer, nullable=False),
        Column("paused", Boolean, nullable=False),
        Column("declared", Boolean, nullable=False),
        Column("application", ByteText),
        Column("vanished_at", Instant),
        Column("next_run_at", Instant),
        Column("last_run_at", Instant),
        Column("last_error", LongText),
        Column("last_error_at", Instant),
        Column("created_at", Instant, nullable=False),
        Column("updated_at", Instant, nullable=False),
        # What it passed over, as JSON, bounded: written with the cursor, so that it tells what the cursor did.
        Column("missed", LongText),
        *style.own_columns("recurring_jobs"),
    )
    name = f"ix_{prefix}recurring_jobs"
    fine, broken = f"{style.enabled} AND last_error_at IS NULL", f"{style.enabled} AND last_error_at IS NOT NULL"
    partial_index(recurring, style, f"{name}_due", ("next_run_at", "id"), fine)
    partial_index(recurring, style, f"{name}_broken", ("last_error_at", "id"), broken)


def workers(prefix: str, metadata: MetaData) -> None:
    """Worker registrations and heartbeats."""
    workers = Table(
        f"{prefix}job_workers",
        metadata,
        Column("id", ByteText, primary_key=True),
        Column("hostname", KeyText, nullable=False),
        Column("pid", Integer, nullable=False),
        Column("queues", LongText, nullable=False),
        Column("names", LongText, nullable=False),
        Column("concurrency", Integer, nullable=False),
        Column("heartbeat_seconds", Number, nullable=False),
        Column("version", Word, nullable=False),
        Column("status", Word, nullable=False),
        Column("running", Integer, nullable=False),
        Column("started_at", Instant, nullable=False),
        Column("heartbeat_at", Instant, nullable=False),
        Column("stopped_at", Instant),
        # What an operator wants of it: to take no jobs, or to end. It reads this with its heartbeat.
        Column("wanted", Word),
        # What it says of its process: bytes, and the attempts that it has settled since it started.
        Column("memory", BigInteger),
        Column("done", BigInteger),
        Column("failed", BigInteger),
        # The version of the application whose handlers it runs; ``version`` is the library's.
        Column("app_version", ByteText),
    )
    Index(f"ix_{prefix}job_workers_heartbeat", workers.c.heartbeat_at, workers.c.id)


def locks(prefix: str, metadata: MetaData) -> None:
    """Named locks."""
    Table(
        f"{prefix}job_locks",
        metadata,
        Column("name", ByteText, primary_key=True),
        Column("owner", ByteText, nullable=False),
        Column("locked_until", Instant, nullable=False),
        Column("updated_at", Instant, nullable=False),
    )


def stats(prefix: str, metadata: MetaData, style: TableStyle) -> None:
    """Settlements per minute, by queue and name."""
    Table(
        f"{prefix}job_stats",
        metadata,
        Column("minute", Instant, nullable=False),
        Column("queue", ByteText, nullable=False),
        Column("name", ByteText, nullable=False),
        # Workers of different shards count in different rows and so never wait for each other.
        Column("shard", SmallInteger, nullable=False),
        Column("succeeded", Integer, nullable=False),
        Column("failed", Integer, nullable=False),
        Column("dead", Integer, nullable=False),
        Column("cancelled", Integer, nullable=False),
        Column("run_seconds", Number, nullable=False),
        PrimaryKeyConstraint("minute", "queue", "name", "shard", name=f"pk_{prefix}job_stats", **style.long_key),
    )


def audit(prefix: str, metadata: MetaData) -> None:
    """Who commanded what, when and why."""
    audit = Table(
        f"{prefix}job_audit",
        metadata,
        Column("id", RowNumber, primary_key=True, autoincrement=True),
        Column("created_at", Instant, nullable=False),
        Column("actor", KeyText),
        Column("action", Word, nullable=False),
        Column("target_type", Word, nullable=False),
        Column("target", KeyText, nullable=False),
        Column("reason", LongText),
        Column("detail", LongText),
    )
    Index(f"ix_{prefix}job_audit_target", audit.c.target, audit.c.id)


def redactions(prefix: str, metadata: MetaData, style: TableStyle) -> None:
    """Secret keys, by the name of their job."""
    Table(
        f"{prefix}job_redactions",
        metadata,
        Column("name", ByteText, nullable=False),
        Column("key", ByteText, nullable=False),
        PrimaryKeyConstraint("name", "key", name=f"pk_{prefix}job_redactions", **style.long_key),
    )


def throttles(prefix: str, metadata: MetaData) -> None:
    """Failures of clients, counted over a span of time."""
    Table(
        f"{prefix}job_throttles",
        metadata,
        Column("client", ByteText, primary_key=True),
        Column("failures", Integer, nullable=False),
        Column("since", Instant, nullable=False),
    )
