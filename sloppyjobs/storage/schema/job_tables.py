"""The tables of jobs and of what happens to them.

Indexes on ``sloppy_jobs`` are few and partial, and each is named after the query it serves: every status change pays
for each of them.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Column,
    Identity,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
)

from sloppyjobs.storage.schema.column_types import ByteText, KeyText, LongText, Number, RowNumber, Word
from sloppyjobs.storage.schema.columns import ATTEMPT_COLUMNS, EVENT_COLUMNS, JOB_COLUMNS, JobColumn, New
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.partial_indexes import partial_index
from sloppyjobs.storage.schema.style import TableStyle


def _job_column(column: JobColumn) -> Column[Any]:
    return Column(column.name, column.type, primary_key=True) if column.new is New.ID else column.build()


def jobs(prefix: str, metadata: MetaData, style: TableStyle) -> None:
    """Durable job instances."""
    jobs = Table(f"{prefix}jobs", metadata, *map(_job_column, JOB_COLUMNS), *style.own_columns("jobs"))
    last = () if style.claim_by_instant else ("id",)
    claim = ("queue", "name", "priority DESC", "run_at", "created_at", *last)
    partial_index(jobs, style, f"ix_{prefix}jobs_claim", claim, style.status_in("queued"), distinct=True)
    for suffix, columns, where in (
        ("lease", ("locked_until",), style.status_in("processing")),
        ("due", ("run_at", "id"), style.status_in("scheduled", "retrying")),
        ("schedule", ("schedule_id", "occurrence_at", "id"), "schedule_id IS NOT NULL"),
        ("correlation", ("correlation_id", "created_at", "id"), "correlation_id IS NOT NULL"),
        ("batch", ("batch_id", "id"), style.ended_members or "batch_id IS NOT NULL"),
        ("business_key", ("business_key", "created_at", "id"), "business_key IS NOT NULL"),
        ("workflow", style.members_of_workflow, "workflow_id IS NOT NULL"),
        ("dead", ("error_type", "error_frame", "name", "created_at", "id"), style.status_in("dead")),
    ):
        partial_index(jobs, style, f"ix_{prefix}jobs_{suffix}", columns, where)
    by_creation = ("created_at", "id")
    listed = ("status", *by_creation)
    partial_index(jobs, style, f"ix_{prefix}jobs_list", listed, style.settled_list, distinct=True)
    partial_index(jobs, style, f"ix_{prefix}jobs_list_queued", by_creation, style.queued_list, distinct=True)
    key = "idempotency_key"
    partial_index(jobs, style, f"uq_{prefix}jobs_{key}", (key,), f"{key} IS NOT NULL", unique=True)


def attempts(prefix: str, metadata: MetaData, style: TableStyle) -> None:
    """One row per execution attempt."""
    Table(
        f"{prefix}job_attempts",
        metadata,
        *(column.build() for column in ATTEMPT_COLUMNS),
        *style.own_columns("job_attempts"),
        PrimaryKeyConstraint("job_id", "attempt_number", name=f"pk_{prefix}job_attempts"),
    )


def events(prefix: str, metadata: MetaData, style: TableStyle) -> None:
    """One row per change of a job's status."""
    by_job = style.events_by_job
    number = Column("id", RowNumber, Identity()) if by_job else Column("id", RowNumber, primary_key=True)
    events = Table(
        f"{prefix}job_events",
        metadata,
        number,
        *(column.build() for column in EVENT_COLUMNS[1:]),
        *style.own_columns("job_events"),
    )
    if by_job:
        events.append_constraint(PrimaryKeyConstraint("job_id", "id", name=f"pk_{prefix}job_events"))
    else:
        Index(f"ix_{prefix}job_events_job", events.c.job_id, events.c.id)


def keys(prefix: str, metadata: MetaData) -> None:
    """Business keys that are taken, and by which job, whose own row says the key too."""
    Table(
        f"{prefix}job_keys",
        metadata,
        Column("key", KeyText, primary_key=True),
        Column("job_id", ByteText, nullable=False),
        Column("until_start", SmallInteger, nullable=False),
        Column("reserved_until", Instant),
        Column("created_at", Instant, nullable=False),
    )


def expiries(prefix: str, metadata: MetaData) -> None:
    """When jobs expire that have not started."""
    expiries = Table(
        f"{prefix}job_expiries",
        metadata,
        Column("job_id", ByteText, primary_key=True),
        Column("expires_at", Instant, nullable=False),
    )
    Index(f"ix_{prefix}job_expiries_at", expiries.c.expires_at, expiries.c.job_id)


def tags(prefix: str, metadata: MetaData) -> None:
    """The tags of jobs, in the order of their creation. What finds the rows of a job is in its own row."""
    Table(
        f"{prefix}job_tags",
        metadata,
        Column("tag", ByteText, primary_key=True),
        Column("created_at", Instant, primary_key=True),
        Column("job_id", ByteText, primary_key=True),
    )


def dependencies(prefix: str, metadata: MetaData) -> None:
    """Jobs that wait for other jobs."""
    edges = Table(
        f"{prefix}job_dependencies",
        metadata,
        Column("child_id", ByteText, primary_key=True),
        Column("parent_id", ByteText, primary_key=True),
        Column("needs", Word, nullable=False),
        Column("result_test", LongText),
        Column("state", SmallInteger, nullable=False),
    )
    # Without the state: where no index holds what is written when a parent ends, the row is rewritten in its place.
    Index(f"ix_{prefix}job_dependencies_parent", edges.c.parent_id, edges.c.child_id)


def steps(prefix: str, metadata: MetaData, style: TableStyle) -> None:
    """Steps, sleeps and signals of jobs, by name."""
    steps = Table(
        f"{prefix}job_steps",
        metadata,
        Column("job_id", ByteText, nullable=False),
        Column("kind", Word, nullable=False),
        Column("name", ByteText, nullable=False),
        Column("state", Word, nullable=False),
        Column("attempt_number", Integer, nullable=False),
        Column("place", Integer, nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("finished_at", Instant),
        Column("wake_at", Instant),
        Column("run_seconds", Number),
        Column("size", Integer, nullable=False),
        Column("result", LongText),
        Column("token", ByteText),
        PrimaryKeyConstraint("job_id", "kind", "name", name=f"pk_{prefix}job_steps", **style.long_key),
    )
    partial_index(steps, style, f"ix_{prefix}job_steps_wake", ("wake_at", "job_id"), "wake_at IS NOT NULL")


def workflows(prefix: str, metadata: MetaData) -> None:
    """Named graphs of jobs."""
    workflows = Table(
        f"{prefix}job_workflows",
        metadata,
        Column("id", ByteText, primary_key=True),
        Column("name", ByteText, nullable=False),
        # ``open`` until it has ended for good; then how, when, and how many of its jobs had which status.
        Column("status", Word, nullable=False),
        Column("jobs", Integer, nullable=False),
        Column("edges", Integer, nullable=False),
        Column("correlation_id", KeyText),
        Column("metadata", LongText),
        Column("counts", LongText),
        Column("created_at", Instant, nullable=False),
        Column("finished_at", Instant),
        Column("cancelled_at", Instant),
        Column("cancelled_by", KeyText),
        Column("cancel_reason", LongText),
    )
    c = workflows.c
    Index(f"ix_{prefix}job_workflows_created", c.created_at, c.id)
    Index(f"ix_{prefix}job_workflows_status", c.status, c.created_at, c.id)
    Index(f"ix_{prefix}job_workflows_name", c.name, c.created_at, c.id)
    Index(f"ix_{prefix}job_workflows_correlation", c.correlation_id, c.created_at, c.id)


def logs(prefix: str, metadata: MetaData) -> None:
    """What handlers logged."""
    logs = Table(
        f"{prefix}job_logs",
        metadata,
        Column("id", RowNumber, primary_key=True, autoincrement=True),
        Column("job_id", ByteText, nullable=False),
        Column("attempt_number", Integer, nullable=False),
        Column("level", Word, nullable=False),
        Column("message", LongText, nullable=False),
        Column("fields", LongText),
        Column("created_at", Instant, nullable=False),
    )
    Index(f"ix_{prefix}job_logs_job", logs.c.job_id, logs.c.id)


def archive(prefix: str, metadata: MetaData, style: TableStyle) -> None:
    """Jobs that a purge moved out of the way."""
    archive = Table(
        f"{prefix}job_archive",
        metadata,
        *(_job_column(column) for column in JOB_COLUMNS if column.archived),
        Column("archived_at", Instant, nullable=False),
        Column("history", LongText, nullable=False),
        Column("ended_as", Word),
        Column("restored_as", ByteText),
        Column("restored_at", Instant),
    )
    c = archive.c
    Index(f"ix_{prefix}job_archive_archived", c.archived_at, c.id)
    Index(f"ix_{prefix}job_archive_created", c.created_at, c.id)
    Index(f"ix_{prefix}job_archive_name", c.name, c.created_at, c.id)
    for key in ("business_key", "idempotency_key"):
        columns = (key, "created_at", "id")
        partial_index(archive, style, f"ix_{prefix}job_archive_{key}", columns, f"{key} IS NOT NULL")
