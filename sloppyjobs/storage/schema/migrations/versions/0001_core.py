"""The tables of version 1, as they were then. What ``tables.py`` says later is the business of later migrations."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from sloppyjobs.storage.schema.instants import Instant

revision = "0001"
down_revision = None

NAME = sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")
KEY = sa.String(255).with_variant(sa.String(255, collation="C"), "postgresql")
WORD = sa.String(32).with_variant(sa.String(32, collation="C"), "postgresql")
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

# A queue's rows live for seconds. Vacuum by number of changes, not by a share of a table that history has made large.
TUNING = {
    "jobs": "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, "
    "autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000, autovacuum_vacuum_cost_delay = 0",
    # Half of each page stays free, so that closing an attempt rewrites it in place.
    "job_attempts": "fillfactor = 50",
    "job_locks": "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500",
    "job_stats": "fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000",
    "job_workers": "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500",
}


def upgrade() -> None:
    """Create everything."""
    for create in (_jobs, _attempts, _events, _recurring, _workers, _small_tables, _records, _archive):
        create()
    if _postgres():
        preparer = op.get_context().dialect.identifier_preparer
        for name, settings in TUNING.items():
            table = preparer.format_table(sa.table(_name(name), schema=_schema()))
            op.execute(f"ALTER TABLE {table} SET ({settings})")


def _postgres() -> bool:
    return op.get_context().dialect.name == "postgresql"


def _schema() -> str | None:
    schema: str | None = op.get_context().opts["sloppy_tables"].schema
    return schema


def _name(name: str) -> str:
    return f"{op.get_context().opts['sloppy_tables'].prefix}{name}"


def _table(name: str, *parts: Any) -> None:
    op.create_table(_name(name), *parts, schema=_schema())


def _index(kind: str, table: str, suffix: str, *columns: Any, where: str | None = None) -> None:
    condition = None if where is None else sa.text(where)
    op.create_index(
        f"{kind}_{_name(table)}_{suffix}",
        _name(table),
        list(columns),
        unique=kind == "uq",
        schema=_schema(),
        postgresql_where=condition,
        sqlite_where=condition,
    )


def _job_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", NAME, primary_key=True),
        sa.Column("name", NAME, nullable=False),
        sa.Column("queue", NAME, nullable=False),
        sa.Column("status", WORD, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("run_at", Instant, nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
        sa.Column("attempt_count", sa.Integer, nullable=False),
        sa.Column("max_attempts", sa.Integer, nullable=False),
        sa.Column("timeout_seconds", sa.Float),
        sa.Column("locked_by", NAME),
        sa.Column("locked_until", Instant),
        sa.Column("idempotency_key", KEY),
        sa.Column("correlation_id", KEY),
        sa.Column("schedule_id", NAME),
        sa.Column("occurrence_at", Instant),
        sa.Column("principal", KEY),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("retry_policy", sa.Text),
        sa.Column("metadata", sa.Text),
        sa.Column("result", sa.Text),
        sa.Column("progress_percent", sa.Float),
        sa.Column("progress_message", sa.Text),
        sa.Column("error_code", sa.String(64)),
        sa.Column("error_type", KEY),
        sa.Column("error_frame", KEY),
        sa.Column("error_message", sa.Text),
        sa.Column("paused_from", WORD),
        sa.Column("finished_at", Instant),
    ]


def _jobs() -> None:
    _table("jobs", *_job_columns())
    _index(
        "ix",
        "jobs",
        "claim",
        "queue",
        "name",
        sa.text("priority DESC"),
        "run_at",
        "created_at",
        "id",
        where="status = 'queued'",
    )
    _index("ix", "jobs", "correlation", "correlation_id", "created_at", "id", where="correlation_id IS NOT NULL")
    _index("ix", "jobs", "dead", "error_type", "error_frame", "created_at", "id", where="status = 'dead'")
    _index("ix", "jobs", "due", "run_at", "id", where="status IN ('scheduled', 'retrying')")
    _index("ix", "jobs", "lease", "locked_until", where="status = 'processing'")
    _index("ix", "jobs", "list", "status", "created_at", "id", where="coalesce(status, '') <> 'processing'")
    _index("ix", "jobs", "schedule", "schedule_id", "occurrence_at", "id", where="schedule_id IS NOT NULL")
    _index("uq", "jobs", "idempotency_key", "idempotency_key", where="idempotency_key IS NOT NULL")


def _archive() -> None:
    _table(
        "job_archive",
        *_job_columns(),
        sa.Column("archived_at", Instant, nullable=False),
        sa.Column("history", sa.Text, nullable=False),
    )
    _index("ix", "job_archive", "archived", "archived_at", "id")


def _attempts() -> None:
    _table(
        "job_attempts",
        sa.Column("job_id", NAME, nullable=False),
        sa.Column("attempt_number", sa.Integer, nullable=False),
        sa.Column("worker_id", NAME, nullable=False),
        sa.Column("status", WORD, nullable=False),
        sa.Column("started_at", Instant, nullable=False),
        sa.Column("finished_at", Instant),
        sa.Column("run_seconds", sa.Float),
        sa.Column("error_code", sa.String(64)),
        sa.Column("error_type", KEY),
        sa.Column("error_frame", KEY),
        sa.Column("error_message", sa.Text),
        sa.Column("traceback", sa.Text),
        sa.PrimaryKeyConstraint("job_id", "attempt_number", name="pk_" + _name("job_attempts")),
    )


def _events() -> None:
    columns: list[Any] = [
        sa.Column("job_id", NAME, nullable=False),
        sa.Column("event_type", WORD, nullable=False),
        sa.Column("from_status", WORD),
        sa.Column("to_status", WORD, nullable=False),
        sa.Column("attempt_number", sa.Integer),
        sa.Column("worker_id", NAME),
        sa.Column("actor", KEY),
        sa.Column("message", sa.Text),
        sa.Column("created_at", Instant, nullable=False),
    ]
    if _postgres():
        # One index serves as key and for reading a job's history; SQLite numbers only a lone key.
        key = sa.PrimaryKeyConstraint("job_id", "id", name="pk_" + _name("job_events"))
        _table("job_events", sa.Column("id", NUMBER, sa.Identity()), *columns, key)
    else:
        _table("job_events", sa.Column("id", NUMBER, primary_key=True), *columns)
        _index("ix", "job_events", "job", "job_id", "id")


def _recurring() -> None:
    _table(
        "recurring_jobs",
        sa.Column("id", NAME, primary_key=True),
        sa.Column("name", NAME, nullable=False, unique=True),
        sa.Column("job_name", NAME, nullable=False),
        sa.Column("queue", NAME),
        sa.Column("priority", sa.Integer),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("job_defaults", sa.Text),
        sa.Column("kind", WORD, nullable=False),
        sa.Column("cron", KEY),
        sa.Column("interval_seconds", sa.Float),
        sa.Column("run_once_at", Instant),
        sa.Column("timezone", KEY, nullable=False),
        sa.Column("misfire", WORD, nullable=False),
        sa.Column("catch_up_limit", sa.Integer, nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("declared", sa.Boolean, nullable=False),
        sa.Column("application", NAME),
        sa.Column("vanished_at", Instant),
        sa.Column("next_run_at", Instant),
        sa.Column("last_run_at", Instant),
        sa.Column("last_error", sa.Text),
        sa.Column("last_error_at", Instant),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
    )
    _index(
        "ix",
        "recurring_jobs",
        "broken",
        "last_error_at",
        "id",
        where="NOT paused AND vanished_at IS NULL AND last_error_at IS NOT NULL",
    )
    _index(
        "ix",
        "recurring_jobs",
        "due",
        "next_run_at",
        "id",
        where="NOT paused AND vanished_at IS NULL AND last_error_at IS NULL",
    )


def _workers() -> None:
    _table(
        "job_workers",
        sa.Column("id", NAME, primary_key=True),
        sa.Column("hostname", KEY, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("queues", sa.Text, nullable=False),
        sa.Column("names", sa.Text, nullable=False),
        sa.Column("concurrency", sa.Integer, nullable=False),
        sa.Column("heartbeat_seconds", sa.Float, nullable=False),
        sa.Column("version", WORD, nullable=False),
        sa.Column("status", WORD, nullable=False),
        sa.Column("running", sa.Integer, nullable=False),
        sa.Column("started_at", Instant, nullable=False),
        sa.Column("heartbeat_at", Instant, nullable=False),
        sa.Column("stopped_at", Instant),
    )
    _index("ix", "job_workers", "heartbeat", "heartbeat_at", "id")


def _small_tables() -> None:
    _table(
        "job_queues",
        sa.Column("name", NAME, primary_key=True),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("paused_at", Instant),
        sa.Column("paused_until", Instant),
    )
    _table(
        "job_locks",
        sa.Column("name", NAME, primary_key=True),
        sa.Column("owner", NAME, nullable=False),
        sa.Column("locked_until", Instant, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
    )
    _table(
        "job_stats",
        sa.Column("minute", Instant, nullable=False),
        sa.Column("queue", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("shard", sa.SmallInteger, nullable=False),
        sa.Column("succeeded", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("dead", sa.Integer, nullable=False),
        sa.Column("cancelled", sa.Integer, nullable=False),
        sa.Column("run_seconds", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("minute", "queue", "name", "shard", name="pk_" + _name("job_stats")),
    )


def _records() -> None:
    _table(
        "job_audit",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("actor", KEY),
        sa.Column("action", WORD, nullable=False),
        sa.Column("target_type", WORD, nullable=False),
        sa.Column("target", KEY, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("detail", sa.Text),
    )
    _index("ix", "job_audit", "target", "target", "id")
    _table(
        "job_logs",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("job_id", NAME, nullable=False),
        sa.Column("attempt_number", sa.Integer, nullable=False),
        sa.Column("level", WORD, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("fields", sa.Text),
        sa.Column("created_at", Instant, nullable=False),
    )
    _index("ix", "job_logs", "job", "job_id", "id")
