"""From rows to values, in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Table

from sloppyjobs.model import Attempt, Claim, Event, Job
from sloppyjobs.states import AttemptStatus, Status

ReadInstant = Callable[[Any], datetime | None]

JOB_FIELDS = (
    "id",
    "name",
    "queue",
    "status",
    "priority",
    "run_at",
    "created_at",
    "updated_at",
    "attempt_count",
    "max_attempts",
    "timeout_seconds",
    "locked_by",
    "locked_until",
    "idempotency_key",
    "correlation_id",
    "schedule_id",
    "occurrence_at",
    "principal",
    "progress_percent",
    "progress_message",
    "error_code",
    "error_type",
    "error_message",
    "error_frame",
    "paused_from",
    "finished_at",
    "metadata",
    "result",
)
"""The columns of a job without its payload, in the order of the fields of ``Job``."""

CLAIM_FIELDS = (
    "id",
    "name",
    "queue",
    "priority",
    "run_at",
    "created_at",
    "updated_at",
    "attempt_count",
    "max_attempts",
    "timeout_seconds",
    "locked_until",
    "idempotency_key",
    "correlation_id",
    "schedule_id",
    "occurrence_at",
    "principal",
    "error_code",
    "error_type",
    "error_message",
    "error_frame",
    "metadata",
    "payload",
    "retry_policy",
)
"""The columns of a job that has just been claimed; the others are known then, or empty."""

_STATUS = {status.value: status for status in Status}
_NO_METADATA: dict[str, Any] = {}
_decode = msgspec.json.decode


def columns(table: Table, names: Sequence[str]) -> list[ColumnElement[Any]]:
    """The named columns of a table, in order."""
    return [table.c[name] for name in names]


def as_is(value: Any) -> Any:
    """For rows whose instants Core has converted already."""
    return value


def job(row: Sequence[Any], instant: ReadInstant = as_is, *, existing: bool = False) -> Job:
    """A row that begins with ``JOB_FIELDS`` as a ``Job``."""
    # By position and one by one, for thousands are made in a second.
    return Job(
        row[0],
        row[1],
        row[2],
        _STATUS[row[3]],
        row[4],
        instant(row[5]),  # type: ignore[arg-type]
        instant(row[6]),  # type: ignore[arg-type]
        instant(row[7]),  # type: ignore[arg-type]
        row[8],
        row[9],
        row[10],
        row[11],
        instant(row[12]),
        row[13],
        row[14],
        row[15],
        None if row[16] is None else instant(row[16]),
        row[17],
        row[18],
        row[19],
        row[20],
        row[21],
        row[22],
        row[23],
        None if row[24] is None else _STATUS[row[24]],
        None if row[25] is None else instant(row[25]),
        metadata(row[26]),
        None if row[27] is None else _readable(row[27], None),
        existing,
    )


def metadata(text: str | None) -> dict[str, Any]:
    """The stored metadata; empty when there is none."""
    return _NO_METADATA if text is None else _readable(text, _NO_METADATA)


def _readable(text: str, otherwise: Any) -> Any:
    # A row that somebody damaged by hand must not stop the worker or the page that meets it.
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return otherwise


def claims(found: Iterable[Sequence[Any]], worker_id: str, instant: ReadInstant = as_is) -> list[Claim]:
    """Rows of ``CLAIM_FIELDS``, as they stand after one claim, as claims."""
    made: list[Claim] = []
    claimed_at: Any = None
    status = Status.PROCESSING
    # By position and in one go: thousands are made in a second, and anything more elaborate takes three times as long.
    # fmt: off
    for (
        id, name, queue, priority, due, created, updated, attempt, most, timeout, locked, key, correlation_id,
        schedule_id, occurrence, principal, code, kind, message, frame, more, payload, retry,
    ) in found:
        if updated != claimed_at:
            claimed_at, now, until = updated, instant(updated), instant(locked)
        created_at = instant(created)
        run_at = created_at if due == created else instant(due)
        occurrence_at = None if occurrence is None else instant(occurrence)
        job = Job(
            id, name, queue, status, priority, run_at, created_at, now, attempt, most, timeout, worker_id,  # type: ignore[arg-type]
            until, key, correlation_id, schedule_id, occurrence_at, principal, None, None,
            code, kind, message, frame, None, None, _NO_METADATA if more is None else metadata(more),
        )
        made.append(Claim(job, attempt, worker_id, until, payload, retry))  # type: ignore[arg-type]
    # fmt: on
    return made


ATTEMPT_FIELDS = (
    "job_id",
    "attempt_number",
    "worker_id",
    "status",
    "started_at",
    "finished_at",
    "run_seconds",
    "error_code",
    "error_type",
    "error_message",
    "error_frame",
    "traceback",
)


def attempt(row: Sequence[Any]) -> Attempt:
    """A row of ``ATTEMPT_FIELDS`` as an ``Attempt``."""
    started, finished, measured = row[4], row[5], row[6]
    # What the worker measured is the handler alone; without it, the time between claim and settlement.
    elapsed = measured if measured is not None or finished is None else (finished - started).total_seconds()
    return Attempt(
        job_id=row[0],
        attempt_number=row[1],
        worker_id=row[2],
        status=AttemptStatus(row[3]),
        started_at=started,
        finished_at=finished,
        duration=elapsed,
        error_code=row[7],
        error_type=row[8],
        error_message=row[9],
        error_frame=row[10],
        traceback=row[11],
    )


EVENT_FIELDS = (
    "id",
    "job_id",
    "event_type",
    "from_status",
    "to_status",
    "created_at",
    "attempt_number",
    "worker_id",
    "actor",
    "message",
)


def event(row: Sequence[Any]) -> Event:
    """A row of ``EVENT_FIELDS`` as an ``Event``."""
    return Event(
        id=row[0],
        job_id=row[1],
        event_type=row[2],
        from_status=None if row[3] is None else _STATUS[row[3]],
        to_status=_STATUS[row[4]],
        created_at=row[5],
        attempt_number=row[6],
        worker_id=row[7],
        actor=row[8],
        message=row[9],
    )
