"""New jobs, and the events of their creation, as the rows of binary COPYs.

A row is the number of its fields, and before each field its length. Jobs that are enqueued together are mostly alike:
the fields in which they differ come first, and the others are written once and repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from struct import Struct, pack

from sloppyjobs.model import Job, NewJob
from sloppyjobs.states import INITIAL

JOB_COLUMNS = (
    *("id", "run_at", "created_at", "updated_at", "payload"),
    *("status", "name", "queue", "priority", "attempt_count", "max_attempts", "timeout_seconds", "idempotency_key"),
    *("correlation_id", "schedule_id", "occurrence_at", "principal", "retry_policy", "metadata"),
)
EVENT_COLUMNS = ("job_id", "created_at", "event_type", "to_status")

BEGINNING = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
ENDING = b"\xff\xff"
SLICE = 250
"""Rows that are sent at once: the server writes them while the next are made."""

_NULL = pack(">i", -1)
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def job_rows(new: Sequence[NewJob], now: datetime, step: timedelta, encoding: str) -> Iterator[bytes]:
    """The jobs, slice by slice; the first is created ``now``, and each a step after the one before."""
    created, step_us = _microseconds(now), step // _MICROSECOND
    alike: dict[tuple[object, ...], bytes] = {}
    parts = [BEGINNING]
    for place, job in enumerate(new, start=1):
        run_at = created
        if job.run_at is not None:
            run_at = _microseconds(job.run_at)
        elif job.delay:
            run_at = created + timedelta(seconds=job.delay) // _MICROSECOND
        likeness = (
            *(run_at <= created, job.name, job.queue, job.priority, job.max_attempts, job.timeout),
            *(job.idempotency_key, job.correlation_id, job.schedule_id, job.occurrence_at, job.principal),
            *(job.retry_policy, job.metadata),
        )
        rest = alike.get(likeness)
        if rest is None:
            rest = alike[likeness] = _rest(job, encoding, queued=run_at <= created)
        id, payload = job.id.encode(encoding), job.payload.encode(encoding)
        begin = _beginning(len(id))
        parts += (
            begin(len(JOB_COLUMNS), len(id), id, 8, run_at, 8, created, 8, created, len(payload)),
            payload,
            rest,
        )
        created += step_us
        if place % SLICE == 0:
            yield b"".join(parts)
            parts = []
    parts.append(ENDING)
    yield b"".join(parts)


def event_rows(jobs: Sequence[Job], encoding: str) -> bytes:
    """What happened to the jobs: they were created."""
    rest = {status: _text("created", encoding) + _text(status.value, encoding) for status in INITIAL}
    parts = [BEGINNING]
    for job in jobs:
        id = job.id.encode(encoding)
        begin = _event_beginning(len(id))
        parts += (begin(len(EVENT_COLUMNS), len(id), id, 8, _microseconds(job.created_at)), rest[job.status])
    parts.append(ENDING)
    return b"".join(parts)


@cache
def _beginning(id_length: int) -> Callable[..., bytes]:
    """Packs a row up to its payload."""
    return Struct(f">hi{id_length}siqiqiqi").pack


@cache
def _event_beginning(id_length: int) -> Callable[..., bytes]:
    """Packs an event's row up to its instant."""
    return Struct(f">hi{id_length}siq").pack


def _rest(job: NewJob, encoding: str, *, queued: bool) -> bytes:
    def text(value: str | None) -> bytes:
        return _NULL if value is None else _text(value, encoding)

    fields = [
        text("queued" if queued else "scheduled"),
        text(job.name),
        text(job.queue),
        pack(">ii", 4, job.priority),
        pack(">ii", 4, 0),
        pack(">ii", 4, job.max_attempts),
        _NULL if job.timeout is None else pack(">id", 8, job.timeout),
        text(job.idempotency_key),
        text(job.correlation_id),
        text(job.schedule_id),
        _NULL if job.occurrence_at is None else pack(">iq", 8, _microseconds(job.occurrence_at)),
        *(text(job.principal), text(job.retry_policy), text(job.metadata)),
    ]
    return b"".join(fields)


def _text(value: str, encoding: str) -> bytes:
    data = value.encode(encoding)
    return pack(">i", len(data)) + data


def _microseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND
