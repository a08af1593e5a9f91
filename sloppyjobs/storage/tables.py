"""The tables, once, for every dialect. The migrations build the same; a test compares the two.

Indexes on ``sloppy_jobs`` are few and partial, and each is named after the query it serves: every further
one is paid for at each status change.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Identity,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    text,
)

from sloppyjobs.errors import InvalidOption
from sloppyjobs.storage.instants import Instant

NAME_LENGTH = 128
_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,30}")
_SCHEMA = re.compile(r'[^"\0]{1,63}')
KEY_LENGTH = 255
ENABLED = "NOT paused AND vanished_at IS NULL"
"""Which schedules fire; queries say it in these words, so that the partial indexes serve them."""

LISTED = "coalesce(status, '') <> 'processing'"
"""What the index of lists holds; queries that mean to walk it say so in these words.

An expression, because a planner must not derive it from ``status = 'queued'``: without statistics it would take this
index for a claim, and read and sort the whole backlog.
"""

# Ids and names sort byte by byte on every database, so that a cursor means the same everywhere.
ByteText = String(NAME_LENGTH).with_variant(String(NAME_LENGTH, collation="C"), "postgresql")
KeyText = String(KEY_LENGTH).with_variant(String(KEY_LENGTH, collation="C"), "postgresql")
Word = String(32).with_variant(String(32, collation="C"), "postgresql")
# SQLite numbers rows by itself only for a column of exactly this type.
RowNumber = BigInteger().with_variant(Integer(), "sqlite")


def _partial(name: str, *columns: object, where: str) -> Index:
    condition = text(where)
    return Index(name, *columns, postgresql_where=condition, sqlite_where=condition)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Tables:
    """Every table of one installation; a schema or a prefix of its own lets several share a database."""

    prefix: str = "sloppy_"
    schema: str | None = None
    dialect: str = "sqlite"
    metadata: MetaData = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if not _PREFIX.fullmatch(self.prefix):
            raise InvalidOption(f"prefix={self.prefix!r}: must be a letter or _, then up to 30 letters, digits or _")
        if self.schema is not None and not _SCHEMA.fullmatch(self.schema):
            raise InvalidOption(f"schema={self.schema!r}: must have 1 to 63 characters and no quotation mark")
        object.__setattr__(self, "metadata", MetaData(schema=self.schema))
        builders = (
            _jobs,
            _attempts,
            _queues,
            _recurring,
            _workers,
            _locks,
            _stats,
            _audit,
            _logs,
            _archive,
            _redactions,
        )
        for build in builders:
            build(self.prefix, self.metadata)
        _events(self.prefix, self.metadata, by_job=self.dialect == "postgresql")

    def _table(self, name: str) -> Table:
        key = f"{self.schema}.{self.prefix}{name}" if self.schema else f"{self.prefix}{name}"
        return self.metadata.tables[key]

    @property
    def jobs(self) -> Table:
        """Durable job instances."""
        return self._table("jobs")

    @property
    def attempts(self) -> Table:
        """One row per execution attempt."""
        return self._table("job_attempts")

    @property
    def events(self) -> Table:
        """One row per edge that a job walked."""
        return self._table("job_events")

    @property
    def queues(self) -> Table:
        """Every queue ever seen, and whether it is paused."""
        return self._table("job_queues")

    @property
    def recurring(self) -> Table:
        """Schedule definitions."""
        return self._table("recurring_jobs")

    @property
    def workers(self) -> Table:
        """Worker registrations and heartbeats."""
        return self._table("job_workers")

    @property
    def locks(self) -> Table:
        """Named locks."""
        return self._table("job_locks")

    @property
    def stats(self) -> Table:
        """Settlements per minute, by queue and name."""
        return self._table("job_stats")

    @property
    def audit(self) -> Table:
        """Who commanded what, when and why."""
        return self._table("job_audit")

    @property
    def logs(self) -> Table:
        """What handlers logged."""
        return self._table("job_logs")

    @property
    def archive(self) -> Table:
        """Jobs that a purge moved out of the way."""
        return self._table("job_archive")

    @property
    def redactions(self) -> Table:
        """The keys that are hidden in what is shown of a job, by its name."""
        return self._table("job_redactions")

    @property
    def schema_name(self) -> str:
        """The unqualified name of the version table."""
        return f"{self.prefix}job_schema"


def job_columns() -> list[Column[object]]:
    """The columns of a job row; the archive has the same."""
    return [
        Column("id", ByteText, primary_key=True),
        Column("name", ByteText, nullable=False),
        Column("queue", ByteText, nullable=False),
        Column("status", Word, nullable=False),
        Column("priority", Integer, nullable=False),
        Column("run_at", Instant, nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("updated_at", Instant, nullable=False),
        Column("attempt_count", Integer, nullable=False),
        Column("max_attempts", Integer, nullable=False),
        Column("timeout_seconds", Float),
        Column("locked_by", ByteText),
        Column("locked_until", Instant),
        Column("idempotency_key", KeyText),
        Column("correlation_id", KeyText),
        Column("schedule_id", ByteText),
        Column("occurrence_at", Instant),
        Column("principal", KeyText),
        Column("payload", Text, nullable=False),
        Column("retry_policy", Text),
        Column("metadata", Text),
        Column("result", Text),
        Column("progress_percent", Float),
        Column("progress_message", Text),
        Column("error_code", String(64)),
        Column("error_type", KeyText),
        Column("error_frame", KeyText),
        Column("error_message", Text),
        Column("paused_from", Word),
        Column("finished_at", Instant),
    ]


def _jobs(prefix: str, metadata: MetaData) -> None:
    jobs = Table(f"{prefix}jobs", metadata, *job_columns())
    c = jobs.c
    _partial(
        f"ix_{prefix}jobs_claim",
        c.queue,
        c.name,
        c.priority.desc(),
        c.run_at,
        c.created_at,
        c.id,
        where="status = 'queued'",
    )
    _partial(f"ix_{prefix}jobs_lease", c.locked_until, where="status = 'processing'")
    _partial(f"ix_{prefix}jobs_due", c.run_at, c.id, where="status IN ('scheduled', 'retrying')")
    _partial(f"ix_{prefix}jobs_list", c.status, c.created_at, c.id, where=LISTED)
    Index(
        f"uq_{prefix}jobs_idempotency_key",
        c.idempotency_key,
        unique=True,
        postgresql_where=text("idempotency_key IS NOT NULL"),
        sqlite_where=text("idempotency_key IS NOT NULL"),
    )
    _partial(f"ix_{prefix}jobs_schedule", c.schedule_id, c.occurrence_at, c.id, where="schedule_id IS NOT NULL")
    _partial(
        f"ix_{prefix}jobs_correlation",
        c.correlation_id,
        c.created_at,
        c.id,
        where="correlation_id IS NOT NULL",
    )
    _partial(f"ix_{prefix}jobs_dead", c.error_type, c.error_frame, c.created_at, c.id, where="status = 'dead'")


def _attempts(prefix: str, metadata: MetaData) -> None:
    Table(
        f"{prefix}job_attempts",
        metadata,
        Column("job_id", ByteText, nullable=False),
        Column("attempt_number", Integer, nullable=False),
        Column("worker_id", ByteText, nullable=False),
        Column("status", Word, nullable=False),
        Column("started_at", Instant, nullable=False),
        Column("finished_at", Instant),
        Column("run_seconds", Float),
        Column("error_code", String(64)),
        Column("error_type", KeyText),
        Column("error_frame", KeyText),
        Column("error_message", Text),
        Column("traceback", Text),
        PrimaryKeyConstraint("job_id", "attempt_number", name=f"pk_{prefix}job_attempts"),
    )


def _events(prefix: str, metadata: MetaData, *, by_job: bool) -> None:
    """``by_job``: one index serves as key and for reading a job's history; SQLite numbers only a lone key."""
    number = Column("id", RowNumber, Identity()) if by_job else Column("id", RowNumber, primary_key=True)
    events = Table(
        f"{prefix}job_events",
        metadata,
        number,
        Column("job_id", ByteText, nullable=False),
        Column("event_type", Word, nullable=False),
        Column("from_status", Word),
        Column("to_status", Word, nullable=False),
        Column("attempt_number", Integer),
        Column("worker_id", ByteText),
        Column("actor", KeyText),
        Column("message", Text),
        Column("created_at", Instant, nullable=False),
    )
    if by_job:
        events.append_constraint(PrimaryKeyConstraint("job_id", "id", name=f"pk_{prefix}job_events"))
    else:
        Index(f"ix_{prefix}job_events_job", events.c.job_id, events.c.id)


def _queues(prefix: str, metadata: MetaData) -> None:
    Table(
        f"{prefix}job_queues",
        metadata,
        Column("name", ByteText, primary_key=True),
        Column("created_at", Instant, nullable=False),
        Column("paused_at", Instant),
        Column("paused_until", Instant),
    )


def _recurring(prefix: str, metadata: MetaData) -> None:
    recurring = Table(
        f"{prefix}recurring_jobs",
        metadata,
        Column("id", ByteText, primary_key=True),
        Column("name", ByteText, nullable=False, unique=True),
        Column("job_name", ByteText, nullable=False),
        # Without a queue or a priority of its own, a schedule takes the definition's.
        Column("queue", ByteText),
        Column("priority", Integer),
        Column("payload", Text, nullable=False),
        # What the definition said when the schedule was registered, for schedulers that do not know it.
        Column("job_defaults", Text),
        Column("kind", Word, nullable=False),
        Column("cron", KeyText),
        Column("interval_seconds", Float),
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
        Column("last_error", Text),
        Column("last_error_at", Instant),
        Column("created_at", Instant, nullable=False),
        Column("updated_at", Instant, nullable=False),
        # What it passed over, as JSON, bounded: written with the cursor, so that it tells what the cursor did.
        Column("missed", Text),
    )
    c = recurring.c
    _partial(f"ix_{prefix}recurring_jobs_due", c.next_run_at, c.id, where=f"{ENABLED} AND last_error_at IS NULL")
    _partial(
        f"ix_{prefix}recurring_jobs_broken",
        c.last_error_at,
        c.id,
        where=f"{ENABLED} AND last_error_at IS NOT NULL",
    )


def _workers(prefix: str, metadata: MetaData) -> None:
    workers = Table(
        f"{prefix}job_workers",
        metadata,
        Column("id", ByteText, primary_key=True),
        Column("hostname", KeyText, nullable=False),
        Column("pid", Integer, nullable=False),
        Column("queues", Text, nullable=False),
        Column("names", Text, nullable=False),
        Column("concurrency", Integer, nullable=False),
        Column("heartbeat_seconds", Float, nullable=False),
        Column("version", Word, nullable=False),
        Column("status", Word, nullable=False),
        Column("running", Integer, nullable=False),
        Column("started_at", Instant, nullable=False),
        Column("heartbeat_at", Instant, nullable=False),
        Column("stopped_at", Instant),
    )
    Index(f"ix_{prefix}job_workers_heartbeat", workers.c.heartbeat_at, workers.c.id)


def _locks(prefix: str, metadata: MetaData) -> None:
    Table(
        f"{prefix}job_locks",
        metadata,
        Column("name", ByteText, primary_key=True),
        Column("owner", ByteText, nullable=False),
        Column("locked_until", Instant, nullable=False),
        Column("updated_at", Instant, nullable=False),
    )


def _stats(prefix: str, metadata: MetaData) -> None:
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
        Column("run_seconds", Float, nullable=False),
        PrimaryKeyConstraint("minute", "queue", "name", "shard", name=f"pk_{prefix}job_stats"),
    )


def _audit(prefix: str, metadata: MetaData) -> None:
    audit = Table(
        f"{prefix}job_audit",
        metadata,
        Column("id", RowNumber, primary_key=True, autoincrement=True),
        Column("created_at", Instant, nullable=False),
        Column("actor", KeyText),
        Column("action", Word, nullable=False),
        Column("target_type", Word, nullable=False),
        Column("target", KeyText, nullable=False),
        Column("reason", Text),
        Column("detail", Text),
    )
    Index(f"ix_{prefix}job_audit_target", audit.c.target, audit.c.id)


def _logs(prefix: str, metadata: MetaData) -> None:
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


def _archive(prefix: str, metadata: MetaData) -> None:
    archive = Table(
        f"{prefix}job_archive",
        metadata,
        *job_columns(),
        Column("archived_at", Instant, nullable=False),
        Column("history", Text, nullable=False),
    )
    Index(f"ix_{prefix}job_archive_archived", archive.c.archived_at, archive.c.id)


def _redactions(prefix: str, metadata: MetaData) -> None:
    Table(
        f"{prefix}job_redactions",
        metadata,
        Column("name", ByteText, nullable=False),
        Column("key", ByteText, nullable=False),
        PrimaryKeyConstraint("name", "key", name=f"pk_{prefix}job_redactions"),
    )
