"""Lists of jobs, by the index that fits what is asked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, literal_column, null, select

from sloppyjobs.model import Job
from sloppyjobs.states import Status
from sloppyjobs.storage import rows
from sloppyjobs.storage.commands import possible_id, unknown
from sloppyjobs.storage.job_tables import in_list
from sloppyjobs.storage.walking import Key, Sieve, Walk, Walking

TIMED = frozenset({Status.SCHEDULED, Status.RETRYING})
"""The states whose jobs an index keeps in the order of their run time."""
UNSET = msgspec.UNSET

_HEAVY = ("metadata", "result")


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a list of jobs is narrowed to. Values are checked already."""

    statuses: tuple[Status, ...]
    queue: str | None = None
    name: str | None = None
    worker: str | None = None
    schedule: str | None = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    error_code: str | None = None
    error_type: str | msgspec.UnsetType | None = UNSET
    error_frame: str | msgspec.UnsetType | None = UNSET
    created_from: datetime | None = None
    created_to: datetime | None = None
    run_from: datetime | None = None
    run_to: datetime | None = None
    ids: tuple[str, ...] | None = None
    scope: tuple[str, ...] | None = None


class Found(NamedTuple):
    """Jobs with the keys by which they are ordered, and the key after which to go on; None at the end."""

    jobs: list[tuple[Key, Job]]
    resume: Key | None


class Listing(Walking):
    """Jobs in order, and single jobs with everything they carry."""

    def find_jobs(self, wanted: JobFilter, order: str, after: Key | None, *, backward: bool, limit: int) -> Found:
        """Up to ``limit`` jobs beyond a key, in ``order`` or backward."""
        self.ensure_schema()
        return self.read(lambda c: self._find(self.bounded(c), wanted, order, after, backward, limit))

    def job_row(self, job_id: str) -> tuple[Job, str, str | None]:
        """The job, and its payload and result as they are stored; ``UnknownJob`` where there is none."""
        self.ensure_schema()
        jobs = self.tables.jobs
        columns = (*rows.JOB_FIELDS, "payload")
        query = select(*rows.columns(jobs, columns)).where(jobs.c.id == possible_id(job_id))
        row = self.read(lambda c: c.execute(query).one_or_none())
        if row is None:
            raise unknown(job_id)
        job = self.seen()["job", job_id] = rows.job(row)
        return job, row.payload, row.result

    def known_job(self, job_id: str) -> Job:
        """As ``get_job``; a page that has read the job already does not ask again."""
        found: Job | None = self.seen().get(("job", job_id))
        return self.get_job(job_id) if found is None else found

    def _find(
        self,
        connection: Connection,
        wanted: JobFilter,
        order: str,
        after: Key | None,
        backward: bool,
        limit: int,
    ) -> Found:
        if wanted.schedule is not None:
            wanted = msgspec.structs.replace(wanted, schedule=self._schedule_id(connection, wanted.schedule))
        walks = self.job_walks(wanted, order)
        descending = order.startswith("-") is not backward
        walked = self.walk(connection, walks, after=after, descending=descending, limit=limit)
        found = self._jobs_by_id(connection, [key[-1] for key in walked.found])
        # A job that has moved on between the two queries is not what was asked for any more.
        jobs = [(key, found[key[-1]]) for key in walked.found if _still(found.get(key[-1]), wanted)]
        return Found(jobs, walked.resume)

    def job_walks(self, wanted: JobFilter, order: str = "-created_at") -> list[Walk]:
        """The walks that together find what is wanted, each along the index that narrows it most."""
        c = self.tables.jobs.c
        by_creation: tuple[ColumnElement[Any], ...] = (c.created_at, c.id)
        if wanted.ids is not None:
            return [self._walk(wanted, (c.id.in_(wanted.ids),), by_creation)]
        if wanted.idempotency_key is not None:
            return [self._walk(wanted, (c.idempotency_key == wanted.idempotency_key,), by_creation)]
        if wanted.correlation_id is not None:
            return [self._walk(wanted, (c.correlation_id == wanted.correlation_id,), by_creation)]
        if wanted.schedule is not None:
            fired = (c.schedule_id == wanted.schedule, c.occurrence_at.is_not(None))
            return [self._walk(wanted, fired, (c.occurrence_at, c.id))]
        if order.endswith("run_at"):
            if set(wanted.statuses) == TIMED:
                wanted = msgspec.structs.replace(wanted, statuses=tuple(Status))
            return [self._walk(wanted, (_status("IN ('scheduled', 'retrying')"),), (c.run_at, c.id))]
        statuses = wanted.statuses
        if wanted.worker is not None:
            # Nobody holds a job in any other state.
            statuses = tuple(status for status in statuses if status is Status.PROCESSING)
        return [self._status_walk(wanted, status) for status in statuses]

    def _status_walk(self, wanted: JobFilter, status: Status) -> Walk:
        c = self.tables.jobs.c
        only = msgspec.structs.replace(wanted, statuses=tuple(Status))
        if status is Status.DEAD and UNSET not in (wanted.error_type, wanted.error_frame):
            cause = same_value(c.error_type, wanted.error_type), same_value(c.error_frame, wanted.error_frame)
            only = msgspec.structs.replace(only, error_type=UNSET, error_frame=UNSET)
            return self._walk(only, (_status("= 'dead'"), *cause), (c.created_at, c.id), (c.error_type, c.error_frame))
        return self._walk(only, (literal_column(in_list(status)),), (c.created_at, c.id))

    def _walk(
        self,
        wanted: JobFilter,
        where: tuple[ColumnElement[bool], ...],
        keys: tuple[ColumnElement[Any], ...],
        prefix: tuple[ColumnElement[Any], ...] = (),
    ) -> Walk:
        c = self.tables.jobs.c
        narrowed = list(where)
        sieves = _sieves(wanted, c)
        for column, start, end in (
            (c.created_at, wanted.created_from, wanted.created_to),
            (c.run_at, wanted.run_from, wanted.run_to),
        ):
            conditions = _range(column, start, end)
            if column is keys[0]:
                narrowed += [condition(column) for _, condition in conditions]
            else:
                sieves += conditions
        return Walk(tuple(narrowed), keys, tuple(sieves), prefix)

    def _schedule_id(self, connection: Connection, given: str) -> str:
        """The id of the schedule with that name; what is no name is an id."""
        recurring = self.tables.recurring
        query = select(recurring.c.id).where(recurring.c.name == given)
        found: str | None = connection.execute(query).scalar_one_or_none()
        return given if found is None else found

    def _jobs_by_id(self, connection: Connection, ids: Sequence[str]) -> dict[str, Job]:
        jobs = self.tables.jobs
        columns = [null() if name in _HEAVY else jobs.c[name] for name in rows.JOB_FIELDS]
        query = select(*columns).where(jobs.c.id.in_(ids))
        return {row[0]: rows.job(row) for row in connection.execute(query)} if ids else {}


def _sieves(wanted: JobFilter, c: Any) -> list[Sieve]:
    equal = {
        c.queue: wanted.queue,
        c.name: wanted.name,
        c.locked_by: wanted.worker,
        c.error_code: wanted.error_code,
    }
    if wanted.ids is not None or wanted.idempotency_key is not None:
        equal |= {c.correlation_id: wanted.correlation_id, c.schedule_id: wanted.schedule}
    elif wanted.correlation_id is not None:
        equal |= {c.schedule_id: wanted.schedule}
    if wanted.ids is not None:
        equal |= {c.idempotency_key: wanted.idempotency_key}
    sieves = [_equals(column, value) for column, value in equal.items() if value is not None]
    for column, cause in ((c.error_type, wanted.error_type), (c.error_frame, wanted.error_frame)):
        if cause is not UNSET:
            sieves.append(_equals(column, cause))
    if wanted.scope is not None:
        sieves.append(_within(c.queue, wanted.scope))
    if len(set(wanted.statuses)) < len(Status):
        sieves.append(_within(c.status, [status.value for status in wanted.statuses]))
    return sieves


def _equals(column: Any, value: Any) -> Sieve:
    return column, lambda given: same_value(given, value)


def _within(column: Any, values: Sequence[str]) -> Sieve:
    return column, lambda given: given.in_(values)


def _range(column: Any, start: datetime | None, end: datetime | None) -> list[Sieve]:
    sieves: list[Sieve] = []
    if start is not None:
        sieves.append((column, lambda given: given >= start))
    if end is not None:
        sieves.append((column, lambda given: given < end))
    return sieves


def same_value(column: Any, value: Any) -> ColumnElement[bool]:
    """The column has this value; None is a value too."""
    condition: ColumnElement[bool] = column.is_(None) if value is None else column == value
    return condition


def _status(condition: str) -> ColumnElement[bool]:
    # Literally in the SQL text, so that a prepared plan can use the partial indexes.
    return literal_column(f"status {condition}")


def _still(job: Job | None, wanted: JobFilter) -> bool:
    return job is not None and job.status in wanted.statuses
