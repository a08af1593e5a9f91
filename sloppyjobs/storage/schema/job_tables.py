"""The tables of jobs and of what happens to them.

Indexes on ``sloppy_jobs`` are few and partial, and each is named after the query it serves: every further
one is paid for at each status change.
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
    Table,
    Text,
    text,
)

from sloppyjobs.domain.states import Status
from sloppyjobs.storage.schema.column_types import ByteText, RowNumber, Word, partial
from sloppyjobs.storage.schema.columns import ATTEMPT_COLUMNS, EVENT_COLUMNS, JOB_COLUMNS, JobColumn, New
from sloppyjobs.storage.schema.instants import Instant

QUEUED = "coalesce(status, '') = 'queued'"
SETTLED = "coalesce(status, '') NOT IN ('queued', 'processing')"
"""What the two indexes of lists hold; queries that mean to walk one of them say so in these words.

Expressions, because a planner must not derive them from ``status = 'queued'``: without statistics it would take such an
index for a claim, and read and sort the whole backlog. Queued jobs have an index of their own, which needs no status:
every enqueue pays for its bytes.
"""


def in_list(status: Status) -> str:
    """The condition by which jobs of a status are found in the order of their creation."""
    if status is Status.PROCESSING:
        return "status = 'processing'"
    return f"status = '{status.value}' AND {QUEUED if status is Status.QUEUED else SETTLED}"


def _job_column(column: JobColumn) -> Column[Any]:
    return Column(column.name, column.type, primary_key=True) if column.new is New.ID else column.build()


def jobs(prefix: str, metadata: MetaData, *, by_instant: bool) -> None:
    """Durable job instances. ``by_instant``: a claim needs no id to take them in the order of their creation."""
    jobs = Table(f"{prefix}jobs", metadata, *map(_job_column, JOB_COLUMNS))
    c = jobs.c
    partial(
        f"ix_{prefix}jobs_claim",
        c.queue,
        c.name,
        c.priority.desc(),
        c.run_at,
        c.created_at,
        *(() if by_instant else (c.id,)),
        where="status = 'queued'",
        all_different=True,
    )
    partial(f"ix_{prefix}jobs_lease", c.locked_until, where="status = 'processing'")
    partial(f"ix_{prefix}jobs_due", c.run_at, c.id, where="status IN ('scheduled', 'retrying')")
    partial(f"ix_{prefix}jobs_list", c.status, c.created_at, c.id, where=SETTLED, all_different=True)
    partial(f"ix_{prefix}jobs_list_queued", c.created_at, c.id, where=QUEUED, all_different=True)
    Index(
        f"uq_{prefix}jobs_idempotency_key",
        c.idempotency_key,
        unique=True,
        postgresql_where=text("idempotency_key IS NOT NULL"),
        sqlite_where=text("idempotency_key IS NOT NULL"),
    )
    partial(f"ix_{prefix}jobs_schedule", c.schedule_id, c.occurrence_at, c.id, where="schedule_id IS NOT NULL")
    partial(
        f"ix_{prefix}jobs_correlation",
        c.correlation_id,
        c.created_at,
        c.id,
        where="correlation_id IS NOT NULL",
    )
    partial(f"ix_{prefix}jobs_dead", c.error_type, c.error_frame, c.name, c.created_at, c.id, where="status = 'dead'")


def attempts(prefix: str, metadata: MetaData) -> None:
    """One row per execution attempt."""
    Table(
        f"{prefix}job_attempts",
        metadata,
        *(column.build() for column in ATTEMPT_COLUMNS),
        PrimaryKeyConstraint("job_id", "attempt_number", name=f"pk_{prefix}job_attempts"),
    )


def events(prefix: str, metadata: MetaData, *, by_job: bool) -> None:
    """``by_job``: one index serves as key and for reading a job's history; SQLite numbers only a lone key."""
    number = Column("id", RowNumber, Identity()) if by_job else Column("id", RowNumber, primary_key=True)
    events = Table(
        f"{prefix}job_events",
        metadata,
        number,
        *(column.build() for column in EVENT_COLUMNS[1:]),
    )
    if by_job:
        events.append_constraint(PrimaryKeyConstraint("job_id", "id", name=f"pk_{prefix}job_events"))
    else:
        Index(f"ix_{prefix}job_events_job", events.c.job_id, events.c.id)


def logs(prefix: str, metadata: MetaData) -> None:
    """What handlers logged."""
    logs = Table(
        f"{prefix}job_logs",
        metadata,
        Column("id", RowNumber, primary_key=True, autoincrement=True),
        Column("job_id", ByteText, nullable=False),
        Column("attempt_number", Integer, nullable=False),
        Column("level", Word, nullable=False),
        Column("message", Text, nullable=False),
        Column("fields", Text),
        Column("created_at", Instant, nullable=False),
    )
    Index(f"ix_{prefix}job_logs_job", logs.c.job_id, logs.c.id)


def archive(prefix: str, metadata: MetaData) -> None:
    """Jobs that a purge moved out of the way."""
    archive = Table(
        f"{prefix}job_archive",
        metadata,
        *(_job_column(column) for column in JOB_COLUMNS if column.archived),
        Column("archived_at", Instant, nullable=False),
        Column("history", Text, nullable=False),
    )
    Index(f"ix_{prefix}job_archive_archived", archive.c.archived_at, archive.c.id)
