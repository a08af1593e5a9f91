"""Lists of jobs, by the index that fits what is asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, exists, literal_column, null, select

from sloppyjobs.domain.batches import MemberState
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.payload_summary import START
from sloppyjobs.domain.states import FINISHED, Status
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.jobs.damaged_rows import read_jobs, salvage
from sloppyjobs.storage.jobs.lanes import status_in
from sloppyjobs.storage.ports.reads import TIMED, UNSET, Details, Found, JobQuery, Key
from sloppyjobs.storage.reads.history import last_attempt, with_last_attempt
from sloppyjobs.storage.reads.keyset import Filter, Keyset, Scan, same_value

_HEAVY = ("metadata", "result", "progress_fields")


class JobLists:
    """Jobs in order."""

    def __init__(self, database: Database, keyset: Keyset) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.keyset = keyset

    def find(
        self, wanted: JobQuery, order: str, after: Key | None, *, backward: bool, limit: int, details: bool = False
    ) -> Found:
        """Up to ``limit`` jobs beyond a key, in ``order`` or backward; with ``details`` in the same statement."""
        self.database.ensure_schema()
        return self.database.read(
            lambda c: self._find(self.database.bounded(c), wanted, order, after, backward, limit, details)
        )

    def ids_between(self, head: str, tail: str, limit: int) -> list[str]:
        """The ids that begin and end so, of at most ``limit`` that begin so."""
        self.database.ensure_schema()
        column = self.tables.jobs.c.id
        # No character of an id comes after "~".
        query = select(column).where(column >= head, column < head + "~").order_by(column).limit(limit)
        return [id for id in self.database.read(lambda c: c.scalars(query).all()) if id.endswith(tail)]

    def names_seen(self, queues: int, settlements: int) -> tuple[list[str], list[tuple[str, str]]]:
        """The first so many queues, and queue and name of the jobs in the last so many rows of the counters."""
        self.database.ensure_schema()
        names, c = self.tables.queues.c.name, self.tables.stats.c
        newest = (c.minute.desc(), c.queue.desc(), c.name.desc(), c.shard.desc())
        counted = select(c.queue, c.name).order_by(*newest).limit(settlements).subquery()

        def both(connection: Connection) -> tuple[list[str], list[tuple[str, str]]]:
            known = list(self.database.bounded(connection).scalars(select(names).order_by(names).limit(queues)))
            lanes = connection.execute(select(counted.c.queue, counted.c.name).distinct())
            return known, [(queue, name) for queue, name in lanes]

        return self.database.read(both)

    def due(self, names: Collection[str], limit: int) -> list[tuple[str, str]]:
        """The ids and names of the first jobs of these names that are due."""
        c = self.tables.jobs.c
        waiting = c.status.in_(("queued", "scheduled", "retrying")), c.name.in_(names)

        def work(connection: Connection) -> list[tuple[str, str]]:
            query = select(c.id, c.name).where(*waiting, c.run_at <= self.database.now(connection))
            found = connection.execute(query.order_by(c.run_at, c.id).limit(limit))
            return [(row.id, row.name) for row in found]

        return self.database.read(work)

    def _find(
        self,
        connection: Connection,
        wanted: JobQuery,
        order: str,
        after: Key | None,
        backward: bool,
        limit: int,
        details: bool,
    ) -> Found:
        if wanted.schedule is not None:
            wanted = msgspec.structs.replace(wanted, schedule=self._schedule_id(connection, wanted.schedule))
        scans = self.job_scans(wanted, order)
        descending = order.startswith("-") is not backward
        page = self.keyset.read(connection, scans, after=after, descending=descending, limit=limit)
        ids = [key[-1] for key in page.found]
        if details:
            detailed = self.details_by_id(connection, ids)
            found = {id: job for id, (job, _) in detailed.items()}
            more = {id: one for id, (_, one) in detailed.items()}
        else:
            found, more = self.jobs_by_id(connection, ids), {}
        # A job that has moved on between the two queries is not what was asked for any more.
        jobs = [(key, found[key[-1]]) for key in page.found if _still(found.get(key[-1]), wanted)]
        return Found(jobs, page.resume, more)

    def job_scans(self, wanted: JobQuery, order: str = "-created_at") -> list[Scan]:
        """The scans that find what is wanted, each along the index that narrows it most."""
        c = self.tables.jobs.c
        by_creation: tuple[ColumnElement[Any], ...] = (c.created_at, c.id)
        if wanted.ids is not None:
            return [self._scan(wanted, (c.id.in_(wanted.ids),), by_creation)]
        if wanted.idempotency_key is not None:
            return [self._scan(wanted, (c.idempotency_key == wanted.idempotency_key,), by_creation)]
        if wanted.business_key is not None:
            return [self._scan(wanted, (c.business_key == wanted.business_key,), by_creation)]
        if wanted.correlation_id is not None:
            return [self._scan(wanted, (c.correlation_id == wanted.correlation_id,), by_creation)]
        if wanted.schedule is not None:
            fired = (c.schedule_id == wanted.schedule, c.occurrence_at.is_not(None))
            return [self._scan(wanted, fired, (c.occurrence_at, c.id))]
        if wanted.ordered_by_id:
            return self._workflow_scans(wanted) if wanted.batch is None else self._batch_scans(wanted)
        if wanted.tag is not None:
            return [self._tag_scan(wanted)]
        if order.endswith("run_at"):
            if set(wanted.statuses) == TIMED:
                wanted = msgspec.structs.replace(wanted, statuses=tuple(Status))
            return [self._scan(wanted, (status_in(self.tables, "scheduled", "retrying"),), (c.run_at, c.id))]
        statuses = wanted.statuses
        if wanted.worker is not None:
            # Nobody holds a job in any other state.
            statuses = tuple(status for status in statuses if status is Status.PROCESSING)
        return [self._status_scan(wanted, status) for status in statuses]

    def _batch_scans(self, wanted: JobQuery) -> list[Scan]:
        """In the order of their ids: members that have ended along their index, all others along their own rows."""
        c, members, scans = self.tables.jobs.c, self.tables.batch_members.c, []
        by_state = {MemberState.OUTSTANDING: set(wanted.statuses) - FINISHED}
        if set(wanted.statuses) & FINISHED == {Status.DEAD}:
            by_state[MemberState.DEAD] = {Status.DEAD}
        elif ended := set(wanted.statuses) & FINISHED:
            index = self.tables.style.ended_members
            where = (c.batch_id == wanted.batch, *(() if index is None else (literal_column(index),)))
            scans.append(self._scan(_only(wanted, ended), where, (c.id,)))
        for state, statuses in by_state.items():
            if statuses:
                rows = (members.batch_id == wanted.batch, members.state == int(state))
                only = msgspec.structs.replace(_only(wanted, statuses), batch=None)
                # By primary key: a planner that knows the tables might read all jobs beside all members.
                by_key = self.dialect.same_key(c.id, members.job_id)
                scans.append(self._scan(only, (*rows, by_key), (members.job_id,)))
        return scans

    def _workflow_scans(self, wanted: JobQuery) -> list[Scan]:
        """In the order of their ids, along the index of each status."""
        c = self.tables.jobs.c
        only = msgspec.structs.replace(wanted, statuses=tuple(Status), workflow=None)
        members = [(c.workflow_id == wanted.workflow, c.status == status.value) for status in wanted.statuses]
        return [self._scan(only, where, (c.id,), (c.workflow_id, c.status)) for where in members]

    def _tag_scan(self, wanted: JobQuery) -> Scan:
        """Along the tag's own rows; the conditions on the jobs filter them."""
        tags = self.tables.tags.c
        tagged = (tags.tag == wanted.tag, self.tables.jobs.c.id == tags.job_id)
        return self._scan(msgspec.structs.replace(wanted, tag=None), tagged, (tags.created_at, tags.job_id))

    def _status_scan(self, wanted: JobQuery, status: Status) -> Scan:
        c = self.tables.jobs.c
        only = msgspec.structs.replace(wanted, statuses=tuple(Status))
        if status is Status.DEAD and UNSET not in (wanted.error_type, wanted.error_frame) and wanted.name is not None:
            cause = same_value(c.error_type, wanted.error_type), same_value(c.error_frame, wanted.error_frame)
            prefix = (c.error_type, c.error_frame, c.name)
            only = msgspec.structs.replace(only, error_type=UNSET, error_frame=UNSET, name=None)
            where = (status_in(self.tables, "dead"), *cause, c.name == wanted.name)
            return self._scan(only, where, (c.created_at, c.id), prefix)
        return self._scan(only, (literal_column(self.tables.style.in_list(status)),), (c.created_at, c.id))

    def _scan(
        self,
        wanted: JobQuery,
        where: tuple[ColumnElement[bool], ...],
        keys: tuple[ColumnElement[Any], ...],
        prefix: tuple[ColumnElement[Any], ...] = (),
    ) -> Scan:
        c = self.tables.jobs.c
        narrowed = list(where)
        filters = _filters(wanted, c)
        if wanted.tag is not None:
            filters.append((c.id, self._tagged(wanted.tag)))
        for column, start, end in (
            (c.created_at, wanted.created_from, wanted.created_to),
            (c.run_at, wanted.run_from, wanted.run_to),
        ):
            conditions = _range(column, start, end)
            if column.name == keys[0].name:
                narrowed += [condition(keys[0]) for _, condition in conditions]
            else:
                filters += conditions
        return Scan(tuple(narrowed), keys, tuple(filters), prefix)

    def _tagged(self, tag: str) -> Callable[[Any], ColumnElement[bool]]:
        tags, jobs = self.tables.tags.c, self.tables.jobs.alias("tagged").c
        # By the whole key of its row: that has the instant of the job's creation before the job.
        row = (tags.tag == tag, tags.created_at == jobs.created_at, tags.job_id == jobs.id)
        return lambda job_id: exists().where(*row, jobs.id == job_id)

    def _schedule_id(self, connection: Connection, given: str) -> str:
        """The id of the schedule with that name; what is no name is an id."""
        recurring = self.tables.recurring
        query = select(recurring.c.id).where(recurring.c.name == given)
        found: str | None = connection.execute(query).scalar_one_or_none()
        return given if found is None else found

    def jobs_by_id(self, connection: Connection, ids: Sequence[str]) -> dict[str, Job]:
        query = select(*self._light_columns()).where(self.tables.jobs.c.id.in_(ids))
        if not ids:
            return {}
        return {job.id: job for job in read_jobs(self.dialect, connection, query)}

    def _light_columns(self) -> list[ColumnElement[Any]]:
        return [null() if name in _HEAVY else self.tables.jobs.c[name] for name in rows.JOB_FIELDS]

    def details_by_id(self, connection: Connection, ids: Sequence[str]) -> dict[str, tuple[Job, Details]]:
        if not ids:
            return {}
        c = self.tables.jobs.c
        # A payload may have a MiB, and a page a hundred of them.
        start = self.dialect.text_start(c.payload, START + 1)
        query = with_last_attempt(self.tables, [*self._light_columns(), start]).where(c.id.in_(ids))
        try:
            return {row[0]: (rows.job(row), _details(row)) for row in connection.execute(query)}
        except Exception as error:
            if not self.dialect.is_unreadable(error):
                raise
        salvaged = salvage(self.dialect, connection, ids)
        return {id: (one.job, Details(one.payload[: START + 1])) for id, one in salvaged.items()}


def _only(wanted: JobQuery, statuses: Collection[Status]) -> JobQuery:
    return msgspec.structs.replace(wanted, statuses=tuple(sorted(statuses)))


def _details(row: Sequence[Any]) -> Details:
    start = row[len(rows.JOB_FIELDS)]
    # A database may keep whatever was put into a column.
    if not isinstance(start, str):
        raise TypeError(f"payload is of type {type(start).__name__}")
    return Details(start, last_attempt(row))


def _filters(wanted: JobQuery, c: Any) -> list[Filter]:
    equal = {
        c.queue: wanted.queue,
        c.name: wanted.name,
        c.locked_by: wanted.worker,
        c.error_code: wanted.error_code,
        c.workflow_id: wanted.workflow,
    }
    exact = {
        c.idempotency_key: wanted.idempotency_key,
        c.business_key: wanted.business_key,
        c.correlation_id: wanted.correlation_id,
        c.schedule_id: wanted.schedule,
        c.batch_id: wanted.batch,
    }
    if wanted.ids is None:
        # The first that is given narrows the scan itself.
        first = next((column for column, value in exact.items() if value is not None), None)
        exact.pop(first, None)
    equal |= exact
    filters = [_equals(column, value) for column, value in equal.items() if value is not None]
    for column, cause in ((c.error_type, wanted.error_type), (c.error_frame, wanted.error_frame)):
        if cause is not UNSET:
            filters.append(_equals(column, cause))
    if wanted.scope is not None:
        filters.append(_within(c.queue, wanted.scope))
    if len(set(wanted.statuses)) < len(Status):
        filters.append(_within(c.status, [status.value for status in wanted.statuses]))
    return filters


def _equals(column: Any, value: Any) -> Filter:
    return column, lambda given: same_value(given, value)


def _within(column: Any, values: Sequence[str]) -> Filter:
    return column, lambda given: given.in_(values)


def _range(column: Any, start: datetime | None, end: datetime | None) -> list[Filter]:
    filters: list[Filter] = []
    if start is not None:
        filters.append((column, lambda given: given >= start))
    if end is not None:
        filters.append((column, lambda given: given < end))
    return filters


def _still(job: Job | None, wanted: JobQuery) -> bool:
    return job is not None and job.status in wanted.statuses
