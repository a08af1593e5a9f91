"""One job: its row with what it carries, and all that belongs to it; and the small tables that are read whole.

Attempts, events, log lines and steps are read a page at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, case, func, null, select

from sloppyjobs.domain.ageing import in_force
from sloppyjobs.domain.dependencies import EdgeState
from sloppyjobs.domain.followups import Followup
from sloppyjobs.domain.model import Attempt, Event, Job
from sloppyjobs.domain.states import Status
from sloppyjobs.domain.steps import StepKind, StepState
from sloppyjobs.domain.stored_words import known_or
from sloppyjobs.storage.database import Database, bounded_read
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.jobs.damaged_rows import read_jobs, salvage
from sloppyjobs.storage.jobs.rows import could_be_id, possible_id, unknown
from sloppyjobs.storage.ports.dependencies import EdgeRow, Neighbours
from sloppyjobs.storage.ports.reads import (
    AttemptState,
    EventFacts,
    JobRow,
    Key,
    LastAttempt,
    LogLine,
    QueuePause,
    Surroundings,
    WorkerRow,
)
from sloppyjobs.storage.ports.records import LockRecord, QueueRecord
from sloppyjobs.storage.ports.steps import StepRow
from sloppyjobs.storage.reads.keyset import Keyset, Scan, beyond_rows, scan_after
from sloppyjobs.storage.schema.tables import Tables

SHOWN = 65_536
"""Bytes up to which the result of a step is read to be shown."""
WORKERS = 1_000
"""Workers that are read, those heard of last first."""


class History:
    """Single jobs, and keyset pages of what belongs to them, of workers, locks and queues."""

    def __init__(self, database: Database, keyset: Keyset) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.keyset = keyset

    def get_job(self, job_id: str, connection: Connection | None = None) -> Job:
        """The job with this id, or ``UnknownJob``."""
        self.database.ensure_schema(connection)
        jobs = self.tables.jobs
        query = select(*rows.columns(jobs, rows.JOB_FIELDS)).where(jobs.c.id == possible_id(job_id))
        found = self.database.read(lambda c: read_jobs(self.dialect, c, query), connection)
        if not found:
            raise unknown(job_id)
        return found[0]

    def known_job(self, job_id: str) -> Job:
        """As ``get_job``; a page that has read the job already does not ask again."""
        found: Job | None = self.database.seen().get(("job", possible_id(job_id)))
        return self.get_job(job_id) if found is None else found

    def job_row(self, job_id: str) -> JobRow:
        """The job with what it carries, as it is stored; ``UnknownJob`` where there is none."""
        self.database.ensure_schema()
        recurring = self.tables.recurring
        columns = rows.columns(self.tables.jobs, (*rows.JOB_FIELDS, "payload"))
        query = with_last_attempt(self.tables, [*columns, recurring.c.name.label("schedule_name")])
        query = query.outerjoin(recurring, recurring.c.id == self.tables.jobs.c.schedule_id)
        query = query.where(self.tables.jobs.c.id == possible_id(job_id))
        found = self.database.read(lambda c: self._whole_row(c, query, job_id))
        self.database.seen()["job", job_id] = found.job
        return found

    def _whole_row(self, connection: Connection, query: Select[Any], job_id: str) -> JobRow:
        try:
            row = connection.execute(query).one_or_none()
            if row is None:
                raise unknown(job_id)
            return JobRow(rows.job(row), row.payload, row.result, row.schedule_name, last_attempt(row))
        except Exception as error:
            if not self.dialect.is_unreadable(error):
                raise
            found = salvage(self.dialect, connection, [job_id]).get(job_id)
            if found is None or found.job.damage is None:
                raise
            recurring = self.tables.recurring
            made_by = select(recurring.c.name).where(recurring.c.id == found.job.schedule_id)
            return JobRow(found.job, found.payload, found.result, connection.scalar(made_by))

    def job_name(self, job_id: str) -> str:
        """The name of the job with this id, or ``UnknownJob``."""
        known: Job | None = self.database.seen().get(("job", possible_id(job_id)))
        if known is not None:
            return known.name
        self.database.ensure_schema()
        jobs = self.tables.jobs
        query = select(jobs.c.name).where(jobs.c.id == possible_id(job_id))
        name: str | None = self.database.read(lambda c: c.execute(query).scalar_one_or_none())
        if name is None:
            raise unknown(job_id)
        return name

    def job_attempts(self, job_id: str, after: Key | None, *, backward: bool, limit: int) -> list[Attempt]:
        """A job's attempts beyond a number."""
        table = self.tables.attempts
        scan = Scan((table.c.job_id == job_id,), (table.c.attempt_number,))
        query = select(*rows.columns(table, rows.ATTEMPT_FIELDS))
        return [rows.attempt(row) for row in self._page(query, scan, after, backward, limit)]

    def job_events(self, job_id: str, after: Key | None, *, backward: bool, limit: int) -> list[Event]:
        """A job's events beyond a number."""
        table = self.tables.events
        scan = Scan((table.c.job_id == job_id,), (table.c.id,))
        query = select(*rows.columns(table, rows.EVENT_FIELDS))
        return [rows.event(row) for row in self._page(query, scan, after, backward, limit)]

    def job_logs(self, job_id: str, after: Key | None, *, backward: bool, limit: int) -> list[LogLine]:
        """A job's log lines beyond a number."""
        table = self.tables.logs
        scan = Scan((table.c.job_id == job_id,), (table.c.id,))
        query = select(*rows.columns(table, LogLine._fields))
        return [LogLine._make(row) for row in self._page(query, scan, after, backward, limit)]

    def job_steps(self, job_id: str, after: Key | None, *, backward: bool, limit: int) -> list[StepRow]:
        """The steps of a job beyond a key of place, kind and name."""
        c = self.tables.steps.c
        # The kind is a part of the key: a word in its place that is none has no page, and its handler names it.
        scan = Scan((c.job_id == job_id, c.kind.in_([kind.value for kind in StepKind])), (c.place, c.kind, c.name))
        query = select(*self._step_columns(case((c.size <= SHOWN, c.result), else_=null())))
        return [_step_row(row) for row in self._page(query, scan, after, backward, limit)]

    def waits(self, job_id: str) -> Sequence[StepRow]:
        """What a suspended job waits for, without any value."""
        c = self.tables.steps.c
        query = select(*self._step_columns(null())).where(c.job_id == job_id, c.state == StepState.WAITING.value)
        query = query.order_by(c.place, c.kind, c.name).limit(10)
        return self.database.read(
            lambda connection: [_step_row(row) for row in self.database.bounded(connection).execute(query)]
        )

    def _step_columns(self, result: Any) -> list[ColumnElement[Any]]:
        c = self.tables.steps.c
        return [*(c[name] for name in StepRow._fields if name != "result"), result.label("result")]

    def neighbours(self, job_id: str, limit: int) -> Neighbours:
        """What a job waits for, and what waits for it: up to ``limit`` of each; none where there is no such job."""
        if not could_be_id(job_id):
            return Neighbours([], [])
        self.database.ensure_schema()
        queries = [self._edges_of(end, job_id, limit) for end in ("child_id", "parent_id")]
        parents, children = self.database.read(lambda c: self.keyset.each(c, queries))
        return Neighbours(_edge_rows(parents), _edge_rows(children))

    def _edges_of(self, end: str, job_id: str, limit: int) -> Select[Any]:
        table, jobs = self.tables.dependencies, self.tables.jobs
        # Of parents, which are few, those come first for which the job waits. Children may be any number, and are read
        # in the order of their index.
        of_parents = end == "child_id"
        other = table.c.parent_id if of_parents else table.c.child_id
        return (
            select(jobs.c.id, jobs.c.name, jobs.c.queue, jobs.c.status, table.c.needs, table.c.state)
            .select_from(table.join(jobs, jobs.c.id == other))
            .where(table.c[end] == job_id)
            .order_by(*([table.c.state] if of_parents else []), other)
            .limit(limit)
        )

    @bounded_read
    def surroundings(self, connection: Connection, job: Job) -> Surroundings | None:
        """The job's queue, its latest attempt and its latest event, in one statement; None where the job is gone."""
        t = self.tables
        jobs, queues, attempts, events = t.jobs, t.queues, t.attempts, t.events
        latest = select(func.max(events.c.id)).where(events.c.job_id == job.id).scalar_subquery()
        tried = and_(attempts.c.job_id == jobs.c.id, attempts.c.attempt_number == job.attempt_count)
        joined = (
            jobs.outerjoin(queues, queues.c.name == jobs.c.queue)
            .outerjoin(attempts, tried)
            .outerjoin(events, and_(events.c.job_id == jobs.c.id, events.c.id == latest))
        )
        query = select(
            queues.c.paused_at,
            queues.c.paused_until,
            queues.c.paused_by,
            queues.c.pause_reason,
            attempts.c.worker_id,
            attempts.c.status,
            attempts.c.started_at,
            attempts.c.error_code,
            events.c.event_type,
            events.c.created_at,
            events.c.actor,
            events.c.message,
            queues.c.ageing_seconds,
            queues.c.ageing_most,
            queues.c.ageing_vanished_at,
            jobs.c.base_priority,
            jobs.c.followups,
        )
        row = connection.execute(query.select_from(joined).where(jobs.c.id == job.id)).one_or_none()
        if row is None:
            return None
        pause, attempt, event = row[:4], row[4:8], row[8:12]
        return Surroundings(
            None if pause[0] is None else QueuePause._make(pause),
            None if attempt[0] is None else AttemptState._make(attempt),
            None if event[0] is None else EventFacts._make(event),
            None
            if row.ageing_seconds is None
            else in_force(row.ageing_seconds, row.ageing_most, row.ageing_vanished_at),
            row.base_priority,
            bool((row.followups or 0) & Followup.ANY_PARENT),
        )

    # Small tables, read whole

    @bounded_read
    def recent_workers(self, connection: Connection) -> Sequence[WorkerRow]:
        """Workers, those heard of last first; a page that has read them already does not ask again."""
        workers = self.tables.workers
        columns = (workers.c[name] for name in WorkerRow._fields)
        query = select(*columns).order_by(workers.c.heartbeat_at.desc(), workers.c.id.desc())
        seen = self.database.seen()
        if "workers" not in seen:
            seen["workers"] = [WorkerRow(*row) for row in connection.execute(query.limit(WORKERS))]
        found: Sequence[WorkerRow] = seen["workers"]
        return found

    def lock_rows(self, after: Key | None, *, backward: bool, limit: int) -> list[LockRecord]:
        """Locks by name."""
        table = self.tables.locks
        query = select(*rows.columns(table, LockRecord._fields))
        return [LockRecord._make(row) for row in self._page(query, Scan((), (table.c.name,)), after, backward, limit)]

    def queue_rows(
        self, scope: Sequence[str] | None, after: Key | None, *, backward: bool, limit: int
    ) -> list[QueueRecord]:
        """Queues by name."""
        table = self.tables.queues
        where = () if scope is None else (table.c.name.in_(scope),)
        query = select(*rows.columns(table, QueueRecord._fields))
        return [
            QueueRecord._make(row) for row in self._page(query, Scan(where, (table.c.name,)), after, backward, limit)
        ]

    def worker_row(self, worker_id: str) -> WorkerRow | None:
        """The worker with this id."""
        table = self.tables.workers
        query = select(*rows.columns(table, WorkerRow._fields))
        found = self._page(query, Scan((table.c.id == worker_id,), (table.c.id,)), None, False, 1)
        return WorkerRow._make(found[0]) if found else None

    def worker_rows(self, after: Key | None, *, backward: bool, limit: int) -> list[WorkerRow]:
        """Workers, those heard of last first."""
        table = self.tables.workers
        scan = Scan((), (table.c.heartbeat_at, table.c.id))
        query = select(*rows.columns(table, WorkerRow._fields))
        found = beyond_rows(
            lambda asked: self._page(query, scan, after, not backward, asked),
            lambda row: (row.heartbeat_at, row.id),
            after,
            not backward,
            limit,
        )
        return [WorkerRow._make(row) for row in found]

    def _page(
        self, query: Select[Any], scan: Scan, after: Key | None, descending: bool, limit: int
    ) -> Sequence[Row[Any]]:
        self.database.ensure_schema()
        narrowed = scan_after(self.database.dialect, query, scan, after, descending).limit(limit)

        def work(connection: Connection) -> Sequence[Row[Any]]:
            return self.database.bounded(connection).execute(narrowed).all()

        return self.database.read(work)


def with_last_attempt(tables: Tables, columns: Sequence[ColumnElement[Any]]) -> Select[Any]:
    """These columns of jobs, then those that ``last_attempt`` reads."""
    j, a = tables.jobs.c, tables.attempts.c
    last = and_(a.job_id == j.id, a.attempt_number == j.attempt_count)
    joined = tables.jobs.outerjoin(tables.attempts, last)
    # Labelled, because a job has columns with these names, too.
    started, finished = a.started_at.label("attempt_started"), a.finished_at.label("attempt_finished")
    return select(*columns, started, finished, a.run_seconds).select_from(joined)


def last_attempt(row: Sequence[Any]) -> LastAttempt:
    started, finished, measured = row[-3:]
    return LastAttempt(started, rows.elapsed(started, finished, measured))


def _step_row(row: Sequence[Any]) -> StepRow:
    kind, name, state, *others = row
    return StepRow(known_or(StepKind.STEP, kind), name, known_or(StepState.WAITING, state), *others)


def _edge_rows(found: Sequence[Sequence[Any]]) -> list[EdgeRow]:
    """What is open comes first."""
    rows = [
        EdgeRow(id, name, queue, known_or(Status.FAILED, status), needs, known_or(EdgeState.OPEN, state))
        for id, name, queue, status, needs, state in found
    ]
    return sorted(rows, key=lambda row: (row.state, row.job_id))
