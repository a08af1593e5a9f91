"""What the store in memory keeps, and its records as the values of ``sloppyjobs.domain.model``."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Self

import msgspec

from sloppyjobs.domain.model import Claim, Job
from sloppyjobs.domain.sealed import decode_stored
from sloppyjobs.domain.states import Status, event_type
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.ports.records import (
    AttemptRecord,
    CounterRecord,
    EventRecord,
    JobRecord,
    LockRecord,
    LogRecord,
    QueueRecord,
    WorkerRecord,
)


class State:
    """Everything that is kept. Entered as a context manager, it is one thread's alone: that is a transaction."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.jobs: dict[str, JobRecord] = {}
        self.attempts: dict[tuple[str, int], AttemptRecord] = {}
        self.events: list[EventRecord] = []
        self.queues: dict[str, QueueRecord] = {}
        self.locks: dict[str, LockRecord] = {}
        self.workers: dict[str, WorkerRecord] = {}
        self.logs: list[LogRecord] = []
        self.counters: dict[tuple[datetime, str, str], CounterRecord] = {}
        self.news = threading.Event()
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        self._lock.acquire()
        return self

    def __exit__(self, *_error: object) -> None:
        self._lock.release()

    def held(self, worker_id: str, fence: tuple[str, int]) -> JobRecord | None:
        """The job, if this worker holds it under this attempt."""
        job = self.jobs.get(fence[0])
        if job is None or (job.status, job.locked_by, job.attempt_count) != ("processing", worker_id, fence[1]):
            return None
        return job

    def is_paused(self, queue: str, now: datetime) -> bool:
        """Whether nobody may claim from the queue now."""
        found = self.queues.get(queue)
        if found is None or found.paused_at is None:
            return False
        return found.paused_until is None or found.paused_until > now


def moved(
    job_id: str,
    path: Sequence[Status],
    now: datetime,
    attempt: int | None = None,
    worker_id: str | None = None,
    message: str | None = None,
) -> Iterator[EventRecord]:
    """One event for each edge of the path; the message belongs to the first."""
    for source, target in pairwise(path):
        name = event_type(source, target)
        yield EventRecord(job_id, name, source.value, target.value, now, attempt, worker_id, None, message)
        message = None


def as_job(record: JobRecord, *, existing: bool = False) -> Job:
    """The job as callers see it."""
    return Job(
        id=record.id,
        name=record.name,
        queue=record.queue,
        status=Status(record.status),
        priority=record.priority,
        run_at=record.run_at,
        created_at=record.created_at,
        updated_at=record.updated_at,
        attempt_count=record.attempt_count,
        max_attempts=record.max_attempts,
        timeout=record.timeout_seconds,
        locked_by=record.locked_by,
        locked_until=record.locked_until,
        idempotency_key=record.idempotency_key,
        correlation_id=record.correlation_id,
        schedule_id=record.schedule_id,
        occurrence_at=record.occurrence_at,
        principal=record.principal,
        progress=record.progress_percent,
        progress_message=record.progress_message,
        error_code=record.error_code,
        error_type=record.error_type,
        error_message=record.error_message,
        error_frame=record.error_frame,
        paused_from=None if record.paused_from is None else Status(record.paused_from),
        finished_at=record.finished_at,
        metadata={} if record.metadata is None else msgspec.json.decode(record.metadata),
        result=None if record.result is None else decode_stored(record.result),
        progress_fields={} if record.progress_fields is None else msgspec.json.decode(record.progress_fields),
        existing=existing,
    )


def as_claim(record: JobRecord) -> Claim:
    """A job that has just been taken, as a claim."""
    assert record.locked_by is not None
    assert record.locked_until is not None
    # What an earlier attempt returned is not told to the next.
    job = as_job(record._replace(result=None))
    return Claim(job, record.attempt_count, record.locked_by, record.locked_until, record.payload, record.retry_policy)
