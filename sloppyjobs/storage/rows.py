"""From rows to values, in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from math import isfinite
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
    "progress_fields",
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

WHOLE = frozenset({"priority", "attempt_count", "max_attempts"})
NUMBERS = frozenset({"timeout_seconds", "progress_percent"})
INSTANTS = frozenset({"run_at", "created_at", "updated_at", "locked_until", "occurrence_at", "finished_at"})
"""Which of these columns are not text."""

_STATUS = {status.value: status for status in Status}
_ATTEMPT_STATUS = {status.value: status for status in AttemptStatus}
_decode = msgspec.json.decode


def columns(table: Table, names: Sequence[str]) -> list[ColumnElement[Any]]:
    """The named columns of a table, in order."""
    return [table.c[name] for name in names]


def as_is(value: Any) -> Any:
    """For rows whose instants Core has converted already."""
    return value


def job(row: Sequence[Any], instant: ReadInstant = as_is, *, existing: bool = False) -> Job:
    """A row that begins with ``JOB_FIELDS`` as a ``Job``.

    ``ValueError``, ``TypeError`` or ``KeyError`` for a damaged one, of which ``damaged_rows`` reads what it can.
    """
    _check_types(row)
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
        None if row[27] is None else _decode(row[27]),
        _object(row[28], "progress_fields"),
        existing,
    )


def metadata(text: str | None) -> dict[str, Any]:
    """The stored metadata, a dict of its own for each caller, who may write into it; empty when there is none.

    ``ValueError`` for anything but a JSON object.
    """
    return _object(text, "metadata")


def _object(text: str | None, what: str) -> dict[str, Any]:
    if text is None:
        return {}
    found = _decode(text)
    if type(found) is not dict:
        raise ValueError(f"{what} is not a JSON object")
    return found


def claims(found: Iterable[Sequence[Any]], worker_id: str, instant: ReadInstant = as_is) -> list[Claim]:
    """Rows of ``CLAIM_FIELDS``, as they stand after one claim, as claims; raises as ``job`` does."""
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
        # SQLite keeps text in a column of numbers, and a number may be NaN: both would fail later, in a worker's loop.
        if not most >= 0 or (timeout is not None and not timeout > 0):
            raise ValueError("max_attempts or timeout_seconds is no number that makes sense")
        job = Job(
            id, name, queue, status, priority, run_at, created_at, now, attempt, most, timeout, worker_id,  # type: ignore[arg-type]
            until, key, correlation_id, schedule_id, occurrence_at, principal, None, None,
            code, kind, message, frame, None, None, {} if more is None else metadata(more),
        )
        made.append(Claim(job, attempt, worker_id, until, payload, retry))  # type: ignore[arg-type]
    # fmt: on
    return made


def _kinds(name: str) -> frozenset[type]:
    if name in WHOLE:
        return frozenset({int})
    return frozenset({int, float, type(None)}) if name in NUMBERS else frozenset({str, type(None)})


_TYPED = tuple((place, _kinds(name)) for place, name in enumerate(JOB_FIELDS) if name not in INSTANTS)


def _check_types(row: Sequence[Any]) -> None:
    """SQLite keeps whatever was put into a column."""
    for place, kinds in _TYPED:
        if type(row[place]) not in kinds:
            raise TypeError(f"{JOB_FIELDS[place]} is of type {type(row[place]).__name__}")
        # A number less itself is zero, unless it is NaN or infinite.
        if type(row[place]) is float and row[place] - row[place] != 0:
            raise ValueError(f"{JOB_FIELDS[place]} is not finite")


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
    return Attempt(
        job_id=row[0],
        attempt_number=row[1],
        worker_id=row[2],
        # A word that somebody else wrote must not hide the other attempts.
        status=_ATTEMPT_STATUS.get(row[3], AttemptStatus.FAILED),
        started_at=started,
        finished_at=finished,
        duration=elapsed(started, finished, measured),
        error_code=row[7],
        error_type=row[8],
        error_message=row[9],
        error_frame=row[10],
        traceback=row[11],
    )


def elapsed(started: datetime | None, finished: datetime | None, measured: float | None) -> float | None:
    """The seconds of an attempt: what the worker measured of the handler, else from claim to settlement."""
    # SQLite keeps whatever was put into a column.
    if isinstance(measured, int | float) and isfinite(measured):
        return measured
    return None if finished is None or started is None else (finished - started).total_seconds()


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
        from_status=None if row[3] is None else _STATUS.get(row[3], Status.FAILED),
        to_status=_STATUS.get(row[4], Status.FAILED),
        created_at=row[5],
        attempt_number=row[6],
        worker_id=row[7],
        actor=row[8],
        message=row[9],
    )
