"""From rows to values, in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Table

from sloppyjobs import errors
from sloppyjobs.domain import options
from sloppyjobs.domain.model import Attempt, Claim, Event, Job, NewJob
from sloppyjobs.domain.sealed import decode_stored
from sloppyjobs.domain.states import AttemptStatus, Status
from sloppyjobs.storage.schema.column_types import NAME_LENGTH
from sloppyjobs.storage.schema.columns import (
    ATTEMPT_COLUMNS,
    EVENT_COLUMNS,
    JOB_COLUMNS,
    JobColumn,
    Kind,
    New,
    TableColumn,
    claim_columns,
    names,
    told,
)

ReadInstant = Callable[[Any], datetime | None]

JOB_FIELDS = names(told(JOB_COLUMNS, Job))
"""The columns of a job without its payload, in the order of the fields of ``Job``."""
CLAIM_FIELDS = names(claim_columns(JOB_COLUMNS))
"""The columns of a job that has just been claimed; the others are known then, or empty."""
ATTEMPT_FIELDS = names(told(ATTEMPT_COLUMNS, Attempt))
EVENT_FIELDS = names(told(EVENT_COLUMNS, Event))

_STATUS = {status.value: status for status in Status}
_ATTEMPT_STATUS = {status.value: status for status in AttemptStatus}
_decode = msgspec.json.decode
_decode_words = msgspec.json.Decoder(tuple[str, ...]).decode


def possible_id(job_id: object) -> str:
    """The id, if a row could have it; ``UnknownJob`` for what no database would even take as text."""
    if not could_be_id(job_id):
        raise unknown(job_id)
    return str.__str__(job_id)


def could_be_id(job_id: object) -> bool:
    """Whether every database would take it for an id."""
    return isinstance(job_id, str) and len(job_id) <= NAME_LENGTH and job_id.isprintable()


def unknown(job_id: object) -> errors.UnknownJob:
    """The error for an id that no row has."""
    return errors.UnknownJob(f"no job has the id {options.shown(job_id)}; it may have been purged")


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
    return _read_job(row, instant, existing)


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


def words(text: str | None) -> tuple[str, ...]:
    """The stored tags; ``ValueError`` for anything but a JSON array of texts."""
    return () if text is None else _decode_words(text)


def claims(found: Iterable[Sequence[Any]], worker_id: str, instant: ReadInstant = as_is) -> list[Claim]:
    """Rows of ``CLAIM_FIELDS``, as they stand after one claim, as claims; raises as ``job`` does."""
    return _read_claims(found, worker_id, instant)


_TYPES: dict[Kind, frozenset[type]] = {
    Kind.WHOLE: frozenset({int}),
    Kind.NUMBER: frozenset({int, float}),
}
_TEXT = frozenset({str})
_NONE = frozenset({type(None)})


def _types(column: TableColumn) -> frozenset[type]:
    known = _TYPES.get(column.kind, _TEXT)
    return known if column.kind is Kind.WHOLE and column.required else known | _NONE


_TYPED = tuple(
    (place, _types(column)) for place, column in enumerate(told(JOB_COLUMNS, Job)) if column.kind is not Kind.INSTANT
)


def _check_types(row: Sequence[Any]) -> None:
    """SQLite keeps whatever was put into a column."""
    for place, kinds in _TYPED:
        if type(row[place]) not in kinds:
            raise TypeError(f"{JOB_FIELDS[place]} is of type {type(row[place]).__name__}")
        # A number less itself is zero, unless it is NaN or infinite.
        if type(row[place]) is float and row[place] - row[place] != 0:
            raise ValueError(f"{JOB_FIELDS[place]} is not finite")


# By position and one by one, for thousands are made in a second, and anything more elaborate takes three times as long.
# So the functions are written from the list of columns when this module is loaded.


def _defined(source: str) -> Any:
    """The function ``read`` of this source."""
    scope: dict[str, Any] = {
        "Job": Job,
        "Claim": Claim,
        "PROCESSING": Status.PROCESSING,
        "STATUS": _STATUS,
        "as_object": _object,
        "as_words": words,
        "decode": decode_stored,
    }
    exec(source, scope)  # noqa: S102 - made of our own columns only
    return scope["read"]


def _expression(column: TableColumn, value: str) -> str:
    """How a field is made of the value of its column."""
    read = {
        Kind.INSTANT: f"instant({value})",
        Kind.STATUS: f"STATUS[{value}]",
        Kind.JSON: f"decode({value})",
        Kind.OBJECT: f"as_object({value}, {column.name!r})",
        Kind.WORDS: f"as_words({value})",
    }.get(column.kind, value)
    return read if column.required or read == value else f"{_empty(column)} if {value} is None else {read}"


def _empty(column: TableColumn) -> str:
    return {Kind.OBJECT: "{}", Kind.WORDS: "()"}.get(column.kind, "None")


MOST_ARGUMENTS = 30
"""With more arguments than this, Python collects them in a list and a tuple first, which takes as long as the call."""


def _call(columns: Sequence[TableColumn], expressions: Mapping[str, str], values: Mapping[str, str]) -> str:
    """A call of ``Job`` with these expressions for its fields; the others are empty.

    The last fields are those that few jobs have. Where their ``values`` are all None, they are not given.
    """
    empty = {column.field: _empty(column) for column in columns if column.told}
    fields = [expressions.get(field, empty.get(field, "None")) for field in Job.__struct_fields__]
    while fields[-1] in ("None", "{}", "()"):
        fields.pop()
    whole = f"Job({', '.join(fields)})"
    last = [values[field] for field in Job.__struct_fields__[MOST_ARGUMENTS : len(fields)] if field in values]
    if not last:
        return whole
    few = f"Job({', '.join(fields[:MOST_ARGUMENTS])})"
    return f"{few} if {' and '.join(f'{value} is None' for value in last)} else {whole}"


def _job_reader(columns: Sequence[JobColumn]) -> Any:
    """``read(row, instant, existing)`` for rows of these columns."""
    values = {column.field: f"row[{place}]" for place, column in enumerate(told(columns, Job))}
    found = {column.field: _expression(column, values[column.field]) for column in told(columns, Job)}
    job = _call(columns, {**found, "existing": "existing"}, {**values, "existing": "(existing or None)"})
    return _defined(f"def read(row, instant, existing):\n    return {job}\n")


_CLAIMS = """
def read(found, worker_id, instant):
    made = []
    claimed_at = None
    for ({values},) in found:
        if updated_at != claimed_at:
            claimed_at, now, until = updated_at, instant(updated_at), instant(locked_until)
        created = instant(created_at)
        # SQLite keeps text in a column of numbers, and a number may be NaN: both would fail later, in a worker's loop.
        if not max_attempts >= 0 or (timeout_seconds is not None and not timeout_seconds > 0):
            raise ValueError("max_attempts or timeout_seconds is no number that makes sense")
        job = {job}
        made.append(Claim(job, attempt_count, worker_id, until, payload, retry_policy, followups))
    return made
"""
_OF_A_CLAIM = {
    "status": "PROCESSING",
    "run_at": "created if run_at == created_at else instant(run_at)",
    "created_at": "created",
    "updated_at": "now",
    "locked_by": "worker_id",
    "locked_until": "until",
}
"""The fields of which more is known than their columns say, or that are read once for several."""


def _claims_reader(columns: Sequence[JobColumn]) -> Any:
    """``read(found, worker_id, instant)`` for rows of those columns that are claimed."""
    claimed = claim_columns(columns)
    values = {column.field: column.name for column in claimed if column.told}
    found = {column.field: _expression(column, column.name) for column in claimed if column.told}
    job = _call(columns, {**found, **_OF_A_CLAIM}, values)
    return _defined(_CLAIMS.format(values=", ".join(names(claimed)), job=job))


_NEW_VALUES = {New.ID: "new.id", New.STATUS: "status", New.RUN_AT: "run_at", New.NOW: "now", New.ZERO: "0"}


def _answer(columns: Sequence[JobColumn]) -> Any:
    """``read(new, status, run_at, now)``: the job as its row says when it has just been written."""
    values, found = {}, {}
    for column in columns:
        if column.told and column.new is not None:
            value = f"terms.{column.new}" if isinstance(column.new, str) else _NEW_VALUES[column.new]
            decoded = column.kind in (Kind.OBJECT, Kind.WORDS)
            values[column.field], found[column.field] = value, _expression(column, value) if decoded else value
    job = _call(columns, found, values)
    return _defined(f"def read(new, status, run_at, now):\n    terms = new.terms\n    return {job}\n")


_read_job: Callable[[Sequence[Any], ReadInstant, bool], Job] = _job_reader(JOB_COLUMNS)
_read_claims: Callable[[Iterable[Sequence[Any]], str, ReadInstant], list[Claim]] = _claims_reader(JOB_COLUMNS)


as_written: Callable[[NewJob, Status, datetime, datetime], Job] = _answer(JOB_COLUMNS)
"""A new job as its row says after the insert: with this status, due and created at these instants."""


def attempt(row: Sequence[Any]) -> Attempt:
    """A row of ``ATTEMPT_FIELDS`` as an ``Attempt``."""
    found = dict(zip(ATTEMPT_FIELDS, row, strict=True))
    # A word that somebody else wrote must not hide the other attempts.
    found["status"] = _ATTEMPT_STATUS.get(found["status"], AttemptStatus.FAILED)
    found["duration"] = elapsed(found["started_at"], found["finished_at"], found.pop("run_seconds"))
    return Attempt(**found)


def elapsed(started: datetime | None, finished: datetime | None, measured: float | None) -> float | None:
    """The seconds of an attempt: what the worker measured of the handler, else from claim to settlement."""
    # SQLite keeps whatever was put into a column.
    if isinstance(measured, int | float) and isfinite(measured):
        return measured
    return None if finished is None or started is None else (finished - started).total_seconds()


def event(row: Sequence[Any]) -> Event:
    """A row of ``EVENT_FIELDS`` as an ``Event``."""
    found = dict(zip(EVENT_FIELDS, row, strict=True))
    source = found["from_status"]
    found["from_status"] = None if source is None else _STATUS.get(source, Status.FAILED)
    found["to_status"] = _STATUS.get(found["to_status"], Status.FAILED)
    return Event(**found)
