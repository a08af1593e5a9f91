"""New jobs, and the events of their creation, as the rows of binary COPYs.

A row is the number of its fields, and before each field its length. Jobs that are enqueued together are mostly alike:
the fields in which they differ come first, and the others are written once and repeated. Columns that none of the jobs
fills are left out, for the server takes its time to read that there is nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from struct import Struct, pack
from typing import Any

from sloppyjobs.model import Job, NewJob, Terms
from sloppyjobs.states import INITIAL

EVENT_COLUMNS = ("job_id", "created_at", "event_type", "to_status")

BEGINNING = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
ENDING = b"\xff\xff"
SLICE = 250
"""Rows that are sent at once: the server writes them while the next are made."""

_EACH = (
    *("id", "run_at", "created_at", "updated_at", "payload"),
    *("status", "name", "queue", "priority", "attempt_count", "max_attempts"),
)
# And the term that fills it.
_SOME = {
    "timeout_seconds": "timeout",
    "idempotency_key": "idempotency_key",
    "correlation_id": "correlation_id",
    "schedule_id": "schedule_id",
    "occurrence_at": "occurrence_at",
    "principal": "principal",
    "retry_policy": "retry_policy",
    "metadata": "metadata",
}
_NULL = pack(">i", -1)
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def columns(new: Sequence[NewJob]) -> tuple[str, ...]:
    """The columns that the rows of these jobs have."""
    different = {id(job.terms): job.terms for job in new}.values()
    filled = [name for name, term in _SOME.items() if any(getattr(terms, term) is not None for terms in different)]
    return (*_EACH, *filled)


def job_rows(
    new: Sequence[NewJob], columns: Sequence[str], now: datetime, step: timedelta, encoding: str
) -> Iterator[bytes]:
    """The jobs, slice by slice; the first is created ``now``, and each a step after the one before."""
    created, step_us = _microseconds(now), step // _MICROSECOND
    alike: dict[tuple[int, bool], bytes] = {}
    parts = [BEGINNING]
    for place, job in enumerate(new, start=1):
        terms, run_at = job.terms, created
        if terms.run_at is not None:
            run_at = _microseconds(terms.run_at)
        elif terms.delay:
            run_at = created + timedelta(seconds=terms.delay) // _MICROSECOND
        likeness = id(terms), run_at <= created
        rest = alike.get(likeness)
        if rest is None:
            rest = alike[likeness] = _rest(terms, columns[len(_EACH) :], encoding, queued=run_at <= created)
        name, payload = job.id.encode(encoding), job.payload.encode(encoding)
        begin = _beginning(len(name))
        parts += (
            begin(len(columns), len(name), name, 8, run_at, 8, created, 8, created, len(payload)),
            payload,
            rest,
        )
        created += step_us
        if place % SLICE == 0:
            yield b"".join(parts)
            parts = []
    parts.append(ENDING)
    yield b"".join(parts)


def event_rows(jobs: Sequence[Job], now: datetime, step: timedelta, encoding: str) -> bytes:
    """What happened to the jobs: they were created, the first of them ``now``."""
    created, step_us = _microseconds(now), step // _MICROSECOND
    rest = {status: _field("created", encoding) + _field(status.value, encoding) for status in INITIAL}
    parts = [BEGINNING]
    for job in jobs:
        name = job.id.encode(encoding)
        begin = _event_beginning(len(name))
        parts += (begin(len(EVENT_COLUMNS), len(name), name, 8, created), rest[job.status])
        created += step_us
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


def _rest(terms: Terms, some: Sequence[str], encoding: str, *, queued: bool) -> bytes:
    """The fields after the payload."""
    attempts = 0
    values = [
        *("queued" if queued else "scheduled", terms.name, terms.queue),
        *(terms.priority, attempts, terms.max_attempts),
        *(getattr(terms, _SOME[name]) for name in some),
    ]
    return b"".join([_field(value, encoding) for value in values])


def _field(value: Any, encoding: str) -> bytes:
    match value:
        case None:
            return _NULL
        case int():
            return pack(">ii", 4, value)
        case float():
            return pack(">id", 8, value)
        case datetime():
            return pack(">iq", 8, _microseconds(value))
        case _:
            data = value.encode(encoding)
            return pack(">i", len(data)) + bytes(data)


def _microseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND
