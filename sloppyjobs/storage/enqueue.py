"""Writing new jobs: the row and its first event, in the caller's transaction or in one of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Any, NamedTuple

from msgspec.structs import replace
from sqlalchemy import Connection, Table, bindparam, insert, select
from sqlalchemy.exc import DBAPIError

from sloppyjobs import errors
from sloppyjobs.model import Job, NewJob, Terms
from sloppyjobs.states import Status
from sloppyjobs.storage import rows
from sloppyjobs.storage.damaged_rows import read_jobs
from sloppyjobs.storage.database import cursor_of
from sloppyjobs.storage.schema import Schema

CHUNK = 1000
"""Rows per statement; more is slower, and holds locks for longer."""


INSERT_TRIES = 20
"""How often an insert that met a taken key looks for its holder. Two are enough, unless rows come and go meanwhile."""


class Enqueue(Schema):
    """Insertion of jobs, one or thousands, with keys that let only one of them in."""

    def insert_jobs(self, new: Sequence[NewJob], connection: Connection | None = None) -> list[Job]:
        """Write the jobs and their first events; all or none. A matching key answers with the job it found."""
        self.ensure_schema(connection)
        runs = count()
        return self.write(lambda c: self._insert_all(c, new, rerun=next(runs) > 0), connection)

    def _insert_all(self, connection: Connection, new: Sequence[NewJob], *, rerun: bool) -> list[Job]:
        """``rerun``: an earlier run of this transaction may have been committed, although nobody was told."""
        now = self.now(connection)
        written: list[Job] = []
        for start in range(0, len(new), CHUNK):
            chunk, moment = new[start : start + CHUNK], now + start * self.step
            if rerun or keyed(chunk):
                written += self.insert_or_find(connection, chunk, moment, rerun=rerun).answers(chunk)
            else:
                written += self._insert_rows(connection, chunk, moment)
        return written

    def insert_or_find(
        self, connection: Connection, new: Sequence[NewJob], now: datetime, *, rerun: bool = False
    ) -> Written:
        """Insert the jobs whose id and key are both free, and find those that hold the others'.

        Ids of new jobs are random: a row with such an id is what ``rerun`` speaks of, and looked for at once. Where a
        holder cannot be seen because the transaction's snapshot is older than it, PostgreSQL reports a serialization
        failure, and the caller's transaction, or ours, must be run again as a whole.
        """
        self.begin_really(connection)
        found = self._holders(connection, new, ids=rerun)
        for _ in range(INSERT_TRIES):
            taken = {job.id for job in found} | {job.idempotency_key for job in found if job.idempotency_key}
            fresh = _first_of_each_key(
                job for job in new if job.id not in taken and job.terms.idempotency_key not in taken
            )
            if not fresh:
                return Written([], found)
            try:
                with connection.begin_nested(), self.translating(connection):
                    return Written(self._insert_rows(connection, fresh, now), found)
            except DBAPIError as error:
                if not self.dialect.is_duplicate(error):
                    raise
            # Somebody else's transaction was faster, and has committed by now; or it was an earlier run of this one.
            known, found = found, self._holders(connection, new, ids=True)
            if len(found) == len(known):
                self._meet_unseen(connection, fresh, now)
        raise errors.JobsError(
            "an id or an idempotency key of these jobs is taken by a job that this transaction cannot see: "
            "roll back and run the transaction again"
        )

    def _meet_unseen(self, connection: Connection, new: Sequence[NewJob], now: datetime) -> None:
        """Let the database say what is in the way of these jobs and cannot be seen; nothing is written."""
        insert_job = self.prepared("insert job if absent", lambda: self.insert_if_absent(self.tables.jobs, JOB_INSERT))
        moment = self.to_driver(now)
        values = [self._job_row(job, one, moment) for job, one in zip(placed(new, now, self.step), new, strict=True)]
        savepoint = connection.begin_nested()
        with self.translating(connection):
            insert_job.many(cursor_of(connection), values)
        savepoint.rollback()

    def _holders(self, connection: Connection, new: Sequence[NewJob], *, ids: bool) -> list[Job]:
        """The jobs that have a key of these, or an id."""
        c = self.tables.jobs.c
        keys = [key for job in new if (key := job.terms.idempotency_key) is not None]
        # One query for each index: a planner that must serve both at once may read the whole table instead.
        conditions = [c.idempotency_key.in_(keys)] if keys else []
        conditions += [c.id.in_([job.id for job in new])] if ids else []
        found: dict[str, Job] = {}
        for condition in conditions:
            query = select(*rows.columns(self.tables.jobs, rows.JOB_FIELDS)).where(condition)
            found |= {job.id: job for job in read_jobs(self.dialect, connection, query)}
        return list(found.values())

    def _insert_rows(self, connection: Connection, new: Sequence[NewJob], now: datetime) -> list[Job]:
        cursor = cursor_of(connection)
        jobs = placed(new, now, self.step)
        moment = self.to_driver(now)
        self.see_queues(cursor, {job.queue for job in jobs}, moment)
        t = self.tables
        self.prepared("insert job", lambda: _insert_named(t.jobs, JOB_INSERT)).many(
            cursor, [self._job_row(job, source, moment) for job, source in zip(jobs, new, strict=True)]
        )
        self.prepared("insert created event", lambda: _insert_named(t.events, CREATED_EVENT)).many(
            cursor,
            [
                {
                    "job_id": job.id,
                    "event_type": "created",
                    "to_status": job.status.value,
                    "created_at": moment,
                }
                for job in jobs
            ],
        )
        return jobs

    def _job_row(self, job: Job, source: NewJob, moment: Any) -> dict[str, Any]:
        return {
            "id": job.id,
            "name": job.name,
            "queue": job.queue,
            "status": job.status.value,
            "priority": job.priority,
            "run_at": moment if job.run_at == job.created_at else self.to_driver(job.run_at),
            "created_at": moment,
            "updated_at": moment,
            "attempt_count": 0,
            "max_attempts": job.max_attempts,
            "timeout_seconds": job.timeout,
            "idempotency_key": job.idempotency_key,
            "correlation_id": job.correlation_id,
            "schedule_id": job.schedule_id,
            "occurrence_at": None if job.occurrence_at is None else self.to_driver(job.occurrence_at),
            "principal": job.principal,
            "payload": source.payload,
            "retry_policy": source.terms.retry_policy,
            "metadata": source.terms.metadata,
        }

    def see_queues(self, cursor: Any, names: Iterable[str], moment: Any) -> None:
        table = self.tables.queues
        known = self.prepared("known queue", lambda: select(table.c.name).where(table.c.name == bindparam("name")))
        missing = [name for name in sorted(names) if not known.rows(cursor, {"name": name})]
        self.prepared("see queue", lambda: self.insert_if_absent(table, ("name", "created_at"))).many(
            cursor, [{"name": name, "created_at": moment} for name in missing]
        )

    def begin_really(self, connection: Connection) -> None:
        """Make sure that a transaction is open, so that the release of a savepoint does not commit."""
        self.dialect.begin_really(connection)

    def insert_if_absent(self, table: Table, names: Sequence[str]) -> Any:
        """An insert that leaves an existing row as it is."""
        return self.dialect.insert_if_absent(table, names)


class Written(NamedTuple):
    """What became of new jobs: those that were inserted, and those that were there before."""

    inserted: list[Job]
    found: list[Job]

    def answers(self, new: Sequence[NewJob]) -> list[Job]:
        """One job for each: itself, also if it was found; or, with ``existing`` set, the one that has its key."""
        by_id = {job.id: job for job in (*self.inserted, *self.found)}
        by_key = {job.idempotency_key: job for job in by_id.values()}
        return [by_id.get(job.id) or as_existing(by_key[job.terms.idempotency_key]) for job in new]


JOB_INSERT = (
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
    "idempotency_key",
    "correlation_id",
    "schedule_id",
    "occurrence_at",
    "principal",
    "payload",
    "retry_policy",
    "metadata",
)
CREATED_EVENT = ("job_id", "event_type", "to_status", "created_at")


def keyed(new: Sequence[NewJob]) -> bool:
    """Whether any of the jobs has a key that may be taken."""
    return any(job.terms.idempotency_key is not None for job in new)


def alike(new: Sequence[NewJob]) -> bool:
    """Whether one statement can insert them: all of them on the same terms, without a key, and due at once."""
    if not new:
        return False
    terms = new[0].terms
    return due_at_once(terms) and terms.idempotency_key is None and all(job.terms is terms for job in new)


def terms_values(terms: Terms) -> dict[str, Any]:
    """The parameters of an insert that jobs may share."""
    return {
        "name": terms.name,
        "queue": terms.queue,
        "priority": terms.priority,
        "run_at": terms.run_at,
        "delay": terms.delay or 0.0,
        "max_attempts": terms.max_attempts,
        "timeout_seconds": terms.timeout,
        "idempotency_key": terms.idempotency_key,
        "correlation_id": terms.correlation_id,
        "schedule_id": terms.schedule_id,
        "occurrence_at": terms.occurrence_at,
        "principal": terms.principal,
        "retry_policy": terms.retry_policy,
        "metadata": terms.metadata,
    }


def placed(new: Sequence[NewJob], now: datetime, step: timedelta) -> list[Job]:
    """The jobs as their rows will say; the first is created ``now``, and each a step after the one before."""
    jobs: list[Job] = []
    alike: dict[int, Job] = {}
    for one in new:
        # Jobs that share their terms differ in little, which is faster to replace than to write all of it again.
        first = alike.get(id(one.terms))
        if first is not None:
            own = rows.metadata(one.terms.metadata)
            jobs.append(replace(first, id=one.id, run_at=now, created_at=now, updated_at=now, metadata=own))
        else:
            job = _placed(one, now)
            jobs.append(job)
            if due_at_once(one.terms):
                alike[id(one.terms)] = job
        now += step
    return jobs


def due_at_once(terms: Terms) -> bool:
    """Whether the job may start as soon as it is written."""
    return terms.run_at is None and not terms.delay


def _placed(new: NewJob, now: datetime) -> Job:
    """Due now and ``queued``, or later and ``scheduled``."""
    run_at = new.terms.run_at
    if run_at is None:
        run_at = now if not new.terms.delay else now + timedelta(seconds=new.terms.delay)
    return as_written(new, Status.QUEUED if run_at <= now else Status.SCHEDULED, run_at, now)


def as_written(new: NewJob, status: Status, run_at: datetime, now: datetime) -> Job:
    """The job as its row says after the insert."""
    terms = new.terms
    return Job(
        new.id,
        terms.name,
        terms.queue,
        status,
        terms.priority,
        run_at,
        now,
        now,
        0,
        terms.max_attempts,
        terms.timeout,
        None,
        None,
        terms.idempotency_key,
        terms.correlation_id,
        terms.schedule_id,
        terms.occurrence_at,
        terms.principal,
        metadata=rows.metadata(terms.metadata),
    )


def _insert_named(table: Table, names: Sequence[str]) -> Any:
    return insert(table).values({name: bindparam(name) for name in names})


def _first_of_each_key(new: Iterable[NewJob]) -> list[NewJob]:
    first: dict[str, NewJob] = {}
    for job in new:
        first.setdefault(job.terms.idempotency_key or job.id, job)
    return list(first.values())


def as_existing(job: Job) -> Job:
    """The job as it is told to somebody who meant to write another one."""
    return replace(job, existing=True)
