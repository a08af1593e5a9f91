"""The tables of version 1, as they were then. What ``tables.py`` says later is the business of later migrations."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from sloppyjobs.storage.schema.column_types import ByteText, ErrorCode, KeyText, LongText, Number, RowNumber, Word
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.migrations.steps import apply_settings, create_index, create_table, full_name, style

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create everything."""
    for create in (_jobs, _attempts, _events, _recurring, _workers, _small_tables, _records, _archive):
        create()
    apply_settings("jobs", "job_attempts", "job_locks", "job_stats", "job_workers")


def _job_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", ByteText, primary_key=True),
        sa.Column("name", ByteText, nullable=False),
        sa.Column("queue", ByteText, nullable=False),
        sa.Column("status", Word, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("run_at", Instant, nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
        sa.Column("attempt_count", sa.Integer, nullable=False),
        sa.Column("max_attempts", sa.Integer, nullable=False),
        sa.Column("timeout_seconds", Number),
        sa.Column("locked_by", ByteText),
        sa.Column("locked_until", Instant),
        sa.Column("idempotency_key", KeyText),
        sa.Column("correlation_id", KeyText),
        sa.Column("schedule_id", ByteText),
        sa.Column("occurrence_at", Instant),
        sa.Column("principal", KeyText),
        sa.Column("payload", LongText, nullable=False),
        sa.Column("retry_policy", LongText),
        sa.Column("metadata", LongText),
        sa.Column("result", LongText),
        sa.Column("progress_percent", Number),
        sa.Column("progress_message", LongText),
        sa.Column("error_code", ErrorCode),
        sa.Column("error_type", KeyText),
        sa.Column("error_frame", KeyText),
        sa.Column("error_message", LongText),
        sa.Column("paused_from", Word),
        sa.Column("finished_at", Instant),
    ]


def _jobs() -> None:
    create_table("jobs", *_job_columns())
    create_index(
        "jobs",
        "claim",
        "queue",
        "name",
        "priority DESC",
        "run_at",
        "created_at",
        "id",
        where=style().status_in("queued"),
    )
    create_index("jobs", "correlation", "correlation_id", "created_at", "id", where="correlation_id IS NOT NULL")
    create_index("jobs", "dead", "error_type", "error_frame", "created_at", "id", where=style().status_in("dead"))
    create_index("jobs", "due", "run_at", "id", where=style().status_in("scheduled", "retrying"))
    create_index("jobs", "lease", "locked_until", where=style().status_in("processing"))
    create_index("jobs", "list", "status", "created_at", "id", where=f"{style().listed_status} <> 'processing'")
    create_index("jobs", "schedule", "schedule_id", "occurrence_at", "id", where="schedule_id IS NOT NULL")
    create_index("jobs", "idempotency_key", "idempotency_key", where="idempotency_key IS NOT NULL", unique=True)


def _archive() -> None:
    create_table(
        "job_archive",
        *_job_columns(),
        sa.Column("archived_at", Instant, nullable=False),
        sa.Column("history", LongText, nullable=False),
    )
    create_index("job_archive", "archived", "archived_at", "id")


def _attempts() -> None:
    create_table(
        "job_attempts",
        sa.Column("job_id", ByteText, nullable=False),
        sa.Column("attempt_number", sa.Integer, nullable=False),
        sa.Column("worker_id", ByteText, nullable=False),
        sa.Column("status", Word, nullable=False),
        sa.Column("started_at", Instant, nullable=False),
        sa.Column("finished_at", Instant),
        sa.Column("run_seconds", Number),
        sa.Column("error_code", ErrorCode),
        sa.Column("error_type", KeyText),
        sa.Column("error_frame", KeyText),
        sa.Column("error_message", LongText),
        sa.Column("traceback", LongText),
        sa.PrimaryKeyConstraint("job_id", "attempt_number", name="pk_" + full_name("job_attempts")),
    )


def _events() -> None:
    columns: list[Any] = [
        sa.Column("job_id", ByteText, nullable=False),
        sa.Column("event_type", Word, nullable=False),
        sa.Column("from_status", Word),
        sa.Column("to_status", Word, nullable=False),
        sa.Column("attempt_number", sa.Integer),
        sa.Column("worker_id", ByteText),
        sa.Column("actor", KeyText),
        sa.Column("message", LongText),
        sa.Column("created_at", Instant, nullable=False),
    ]
    if style().events_by_job:
        key = sa.PrimaryKeyConstraint("job_id", "id", name="pk_" + full_name("job_events"))
        create_table("job_events", sa.Column("id", RowNumber, sa.Identity()), *columns, key)
    else:
        create_table("job_events", sa.Column("id", RowNumber, primary_key=True), *columns)
        create_index("job_events", "job", "job_id", "id")


def _recurring() -> None:
    create_table(
        "recurring_jobs",
        sa.Column("id", ByteText, primary_key=True),
        sa.Column("name", ByteText, nullable=False, unique=True),
        sa.Column("job_name", ByteText, nullable=False),
        sa.Column("queue", ByteText),
        sa.Column("priority", sa.Integer),
        sa.Column("payload", LongText, nullable=False),
        sa.Column("job_defaults", LongText),
        sa.Column("kind", Word, nullable=False),
        sa.Column("cron", KeyText),
        sa.Column("interval_seconds", Number),
        sa.Column("run_once_at", Instant),
        sa.Column("timezone", KeyText, nullable=False),
        sa.Column("misfire", Word, nullable=False),
        sa.Column("catch_up_limit", sa.Integer, nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("declared", sa.Boolean, nullable=False),
        sa.Column("application", ByteText),
        sa.Column("vanished_at", Instant),
        sa.Column("next_run_at", Instant),
        sa.Column("last_run_at", Instant),
        sa.Column("last_error", LongText),
        sa.Column("last_error_at", Instant),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
    )
    create_index(
        "recurring_jobs",
        "broken",
        "last_error_at",
        "id",
        where=f"{style().enabled} AND last_error_at IS NOT NULL",
    )
    create_index(
        "recurring_jobs",
        "due",
        "next_run_at",
        "id",
        where=f"{style().enabled} AND last_error_at IS NULL",
    )


def _workers() -> None:
    create_table(
        "job_workers",
        sa.Column("id", ByteText, primary_key=True),
        sa.Column("hostname", KeyText, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("queues", LongText, nullable=False),
        sa.Column("names", LongText, nullable=False),
        sa.Column("concurrency", sa.Integer, nullable=False),
        sa.Column("heartbeat_seconds", Number, nullable=False),
        sa.Column("version", Word, nullable=False),
        sa.Column("status", Word, nullable=False),
        sa.Column("running", sa.Integer, nullable=False),
        sa.Column("started_at", Instant, nullable=False),
        sa.Column("heartbeat_at", Instant, nullable=False),
        sa.Column("stopped_at", Instant),
    )
    create_index("job_workers", "heartbeat", "heartbeat_at", "id")


def _small_tables() -> None:
    create_table(
        "job_queues",
        sa.Column("name", ByteText, primary_key=True),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("paused_at", Instant),
        sa.Column("paused_until", Instant),
    )
    create_table(
        "job_locks",
        sa.Column("name", ByteText, primary_key=True),
        sa.Column("owner", ByteText, nullable=False),
        sa.Column("locked_until", Instant, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
    )
    create_table(
        "job_stats",
        sa.Column("minute", Instant, nullable=False),
        sa.Column("queue", ByteText, nullable=False),
        sa.Column("name", ByteText, nullable=False),
        sa.Column("shard", sa.SmallInteger, nullable=False),
        sa.Column("succeeded", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("dead", sa.Integer, nullable=False),
        sa.Column("cancelled", sa.Integer, nullable=False),
        sa.Column("run_seconds", Number, nullable=False),
        sa.PrimaryKeyConstraint(
            "minute", "queue", "name", "shard", name="pk_" + full_name("job_stats"), **style().long_key
        ),
    )


def _records() -> None:
    create_table(
        "job_audit",
        sa.Column("id", RowNumber, primary_key=True),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("actor", KeyText),
        sa.Column("action", Word, nullable=False),
        sa.Column("target_type", Word, nullable=False),
        sa.Column("target", KeyText, nullable=False),
        sa.Column("reason", LongText),
        sa.Column("detail", LongText),
    )
    create_index("job_audit", "target", "target", "id")
    create_table(
        "job_logs",
        sa.Column("id", RowNumber, primary_key=True),
        sa.Column("job_id", ByteText, nullable=False),
        sa.Column("attempt_number", sa.Integer, nullable=False),
        sa.Column("level", Word, nullable=False),
        sa.Column("message", LongText, nullable=False),
        sa.Column("fields", LongText),
        sa.Column("created_at", Instant, nullable=False),
    )
    create_index("job_logs", "job", "job_id", "id")
