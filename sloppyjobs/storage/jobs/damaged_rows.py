"""Rows that cannot be read the plain way: read again as text, each column by itself.

Somebody may have changed a row by hand, or another program has. What can be read of it is shown, what is wrong with
it is said in words, and its neighbours are not touched by it. This is never the first way to read a row, only the
second: the plain way is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from math import inf
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Select, Table, select

from sloppyjobs.domain.model import Claim, Job
from sloppyjobs.domain.payload import clean_text
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.dialect import Dialect
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.schema.columns import JOB_COLUMNS, Kind
from sloppyjobs.storage.schema.style import EARLIEST, LATEST, from_text

SHOWN = 60
"""Characters of a value that is shown as the reason why it cannot be read."""
_COLUMNS = {column.name: column for column in JOB_COLUMNS}
_SHOWN = {Kind.INSTANT, Kind.WHOLE, Kind.NUMBER, Kind.STATUS}
"""What of damaged values is shown; what stands in other columns may be a secret."""
_FIELDS = (*rows.JOB_FIELDS, *(column.name for column in JOB_COLUMNS if not column.told))
_OF_A_CLAIM = tuple(name for name in rows.CLAIM_FIELDS[1:] if _COLUMNS[name].told)


class Salvaged(NamedTuple):
    """What could be read of a row. ``job.damage`` says what could not, and is None for a row without damage."""

    job: Job
    payload: str
    retry_policy: str | None
    result: str | None


def read_jobs(dialect: Dialect, connection: Connection, query: Select[Any]) -> list[Job]:
    """The jobs that a query of ``JOB_FIELDS`` finds, in its order; damaged ones as far as they can be read."""
    try:
        return [rows.job(row) for row in connection.execute(query)]
    except Exception as error:
        if not dialect.is_unreadable(error):
            raise
    ids = list(connection.execute(query.with_only_columns(dialect.tables.jobs.c.id)).scalars())
    found = salvage(dialect, connection, ids)
    return [found[job_id].job for job_id in ids if job_id in found]


def salvage(
    dialect: Dialect, connection: Connection, ids: Sequence[str], table: Table | None = None
) -> dict[str, Salvaged]:
    """What can be read of the jobs with these ids; ``table`` may be another with the same columns."""
    found: dict[str, Salvaged] = {}
    for job_id, row in _raw(dialect, connection, ids, table).items():
        reading = _Reading(row)
        fields = {_COLUMNS[name].field: reading.column(name) for name in rows.JOB_FIELDS[1:]}
        payload, retry = reading.text("payload") or "", reading.text("retry_policy")
        job = Job(job_id, **fields, damage=reading.summary())
        found[job_id] = Salvaged(job, payload, retry, reading.words("result"))
    return found


def read_claims(
    dialect: Dialect, connection: Connection, ids: Sequence[str], worker_id: str, read: Callable[[], list[Claim]]
) -> list[Claim]:
    """What ``read`` makes of the rows of jobs that were just claimed; where it cannot, what can be read of each."""
    try:
        return read()
    except Exception as error:
        if not dialect.is_unreadable(error):
            raise
        return salvage_claims(dialect, connection, ids, worker_id, error)


def salvage_claims(
    dialect: Dialect, connection: Connection, ids: Sequence[str], worker_id: str, error: Exception
) -> list[Claim]:
    """Claims of jobs that were just claimed, in this order; ``claim.job.damage`` where one cannot be run.

    ``error``, by which the plain way has failed, is raised where no row is damaged.
    """
    found: dict[str, Claim] = {}
    for job_id, row in _raw(dialect, connection, ids).items():
        reading = _Reading(row)
        fields = {_COLUMNS[name].field: reading.column(name) for name in _OF_A_CLAIM}
        payload, retry = reading.text("payload") or "", reading.text("retry_policy")
        job = Job(job_id, **fields, status=Status.PROCESSING, locked_by=worker_id, damage=reading.summary())
        until = job.locked_until or job.updated_at
        found[job_id] = Claim(job, job.attempt_count, worker_id, until, payload, retry)
    if not any(claim.job.damage for claim in found.values()):
        raise error
    return [found[job_id] for job_id in ids if job_id in found]


def _raw(
    dialect: Dialect, connection: Connection, ids: Sequence[str], table: Table | None = None
) -> dict[str, dict[str, Any]]:
    jobs = dialect.tables.jobs if table is None else table
    raw = [dialect.raw_text(jobs.c[name]).label(name) for name in _FIELDS]
    query = select(jobs.c.id.label("key"), *raw).where(jobs.c.id.in_(list(ids)))
    return {row[0]: dict(zip(_FIELDS, row[1:], strict=True)) for row in connection.execute(query)}


class _Reading:
    """The columns of one row, and what is wrong with them."""

    def __init__(self, row: dict[str, Any]) -> None:
        self._row = row
        self._damage: list[str] = []

    def summary(self) -> str | None:
        """What is wrong with the columns that were read."""
        return "; ".join(self._damage) or None

    def column(self, name: str) -> Any:
        """The value of a column of ``JOB_FIELDS``, or what stands for one that cannot be read."""
        column = _COLUMNS[name]
        match column.kind:
            case Kind.INSTANT:
                return self._read(name, _instant, EARLIEST if column.required else None, "an instant")
            case Kind.WHOLE:
                read = _budget if name == "max_attempts" else int
                return self._read(name, read, 0 if column.required else None, "a whole number that makes sense")
            case Kind.NUMBER:
                read_number = _timeout if name == "timeout_seconds" else _number
                return self._read(name, read_number, None, "a number that makes sense")
            case Kind.STATUS:
                # No row is ever left in this state, so that it cannot be mistaken for a real one.
                return self._read(name, Status, Status.FAILED if column.required else None, "a status")
            case Kind.OBJECT:
                return self._read(name, rows.metadata, {}, "a JSON object") or {}
            case Kind.WORDS:
                return self._read(name, rows.words, (), "a JSON array of texts") or ()
            case Kind.JSON:
                return self._read(name, msgspec.json.decode, None, "JSON")
        found = self.text(name)
        return "" if found is None and column.required else found

    def text(self, name: str) -> str | None:
        """A column of text."""
        found: str | None = self._read(name, self._strictly(name), self.words(name), "text")
        return found

    def _strictly(self, name: str) -> Callable[[str], str]:
        value = self._row[name]
        return (lambda _text: bytes(value).decode()) if isinstance(value, bytes | memoryview) else str

    def words(self, name: str) -> str | None:
        """A column as it is stored, without a look at what it says."""
        value = self._row[name]
        if value is None:
            return None
        return bytes(value).decode(errors="replace") if isinstance(value, bytes | memoryview) else str(value)

    def _read(self, name: str, read: Callable[[str], Any], otherwise: Any, wanted: str) -> Any:
        value = self.words(name)
        if value is None:
            if _COLUMNS[name].required:
                self._damage.append(f"{name} is empty")
                return otherwise
            return None
        try:
            return read(value)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError, msgspec.MsgspecError):
            shown = f" ({clean_text(ascii(value), SHOWN)})" if _COLUMNS[name].kind in _SHOWN else ""
            self._damage.append(f"{name} is not {wanted}{shown}")
            return otherwise


def _instant(value: str) -> datetime:
    if value in ("infinity", "-infinity"):
        raise ValueError(value)
    moment = from_text(value)
    if not EARLIEST < moment < LATEST:
        raise ValueError(value)
    return moment


def _budget(value: str) -> int:
    number = int(value)
    if number < 0:
        raise ValueError(value)
    return number


def _timeout(value: str) -> float:
    number = _number(value)
    if number == 0:
        raise ValueError(value)
    return number


def _number(value: str) -> float:
    number = float(value)
    if not 0 <= number < inf:
        raise ValueError(value)
    return number
