"""What a store has written, as the conformance suite sees it: one value per row, with nothing left out or decoded.

Statuses are words, JSON is text, instants are aware. The fields have the names of the columns.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple


class JobRecord(NamedTuple):
    """A job."""

    id: str
    name: str
    queue: str
    status: str
    priority: int
    run_at: datetime
    created_at: datetime
    updated_at: datetime
    attempt_count: int
    max_attempts: int
    payload: str
    timeout_seconds: float | None = None
    locked_by: str | None = None
    locked_until: datetime | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    schedule_id: str | None = None
    occurrence_at: datetime | None = None
    principal: str | None = None
    retry_policy: str | None = None
    metadata: str | None = None
    result: str | None = None
    progress_percent: float | None = None
    progress_message: str | None = None
    progress_fields: str | None = None
    error_code: str | None = None
    error_type: str | None = None
    error_frame: str | None = None
    error_message: str | None = None
    paused_from: str | None = None
    finished_at: datetime | None = None
    business_key: str | None = None
    superseded_by: str | None = None
    supersedes: str | None = None
    expires_at: datetime | None = None
    tags: str | None = None
    waiting_for: str | None = None
    batch_id: str | None = None
    workflow_id: str | None = None
    followups: int | None = None
    resource: str | None = None
    partition_key: str | None = None


class LimitRecord(NamedTuple):
    """A limit."""

    name: str
    concurrency: int | None
    rate: int | None
    vanished_at: datetime | None
    created_at: datetime
    updated_at: datetime


class PermitRecord(NamedTuple):
    """A permit that a job holds."""

    resource: str
    partition_key: str
    slot: int
    job_id: str
    taken_at: datetime


class ParkedRecord(NamedTuple):
    """A job in the line of a limit."""

    job_id: str
    resource: str
    partition_key: str
    released: int


class DependencyRecord(NamedTuple):
    """A job that another one waits for, or has waited for."""

    child_id: str
    parent_id: str
    needs: str
    state: int
    result_test: str | None = None


class BatchRecord(NamedTuple):
    """A batch, its numbers, and the members that have a row."""

    id: str
    status: str
    success_rate: float
    callbacks: str | None
    sealed_at: datetime | None
    finished_at: datetime | None
    first_ended_at: datetime | None
    first_status: str | None
    succeeded_at: datetime | None
    action: str | None
    total: int = 0
    succeeded: int = 0
    dead: int = 0
    cancelled: int = 0
    outstanding_ids: tuple[str, ...] = ()
    dead_ids: tuple[str, ...] = ()


class AttemptRecord(NamedTuple):
    """An execution attempt."""

    job_id: str
    attempt_number: int
    worker_id: str
    status: str
    started_at: datetime
    finished_at: datetime | None = None
    run_seconds: float | None = None
    error_code: str | None = None
    error_type: str | None = None
    error_frame: str | None = None
    error_message: str | None = None
    traceback: str | None = None


class EventRecord(NamedTuple):
    """A change of a job's status."""

    job_id: str
    event_type: str
    from_status: str | None
    to_status: str
    created_at: datetime
    attempt_number: int | None = None
    worker_id: str | None = None
    actor: str | None = None
    message: str | None = None


class QueueRecord(NamedTuple):
    """A queue that was used or paused."""

    name: str
    created_at: datetime
    paused_at: datetime | None = None
    paused_until: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    ageing_seconds: float | None = None
    ageing_most: int | None = None
    ageing_declared_as: str | None = None
    """What code declared last, as JSON."""
    ageing_vanished_at: datetime | None = None


class LockRecord(NamedTuple):
    """A named lock."""

    name: str
    owner: str
    locked_until: datetime
    updated_at: datetime


class WorkerRecord(NamedTuple):
    """A worker; ``queues`` and ``names`` are JSON."""

    id: str
    queues: str
    names: str
    status: str
    running: int
    started_at: datetime
    heartbeat_at: datetime
    stopped_at: datetime | None = None
    wanted: str | None = None
    memory: int | None = None
    done: int | None = None
    failed: int | None = None
    app_version: str | None = None


class LogRecord(NamedTuple):
    """A line that a handler logged."""

    job_id: str
    attempt_number: int
    level: str
    message: str
    created_at: datetime
    fields: str | None = None


class CounterRecord(NamedTuple):
    """Settlements of a minute; a store may divide a minute among several."""

    minute: datetime
    queue: str
    name: str
    succeeded: int
    failed: int
    dead: int
    cancelled: int
    run_seconds: float


class ArchiveRecord(NamedTuple):
    """A job that a purge moved to the archive; ``history`` is JSON."""

    job: JobRecord
    archived_at: datetime
    history: str


class StepRecord(NamedTuple):
    """The row of a step, a sleep or a signal."""

    job_id: str
    kind: str
    name: str
    state: str
    attempt_number: int
    created_at: datetime
    finished_at: datetime | None = None
    wake_at: datetime | None = None
    result: str | None = None
