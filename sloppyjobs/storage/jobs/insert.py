"""Writing new jobs: the row and its first event, in the caller's transaction or in one of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from itertools import count
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, String, Table, Text, bindparam, insert, select
from sqlalchemy.exc import DBAPIError

from sloppyjobs import errors
from sloppyjobs.domain.model import Job, NewJob, part_of, terms_by
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.batches.members import add_outstanding, admit, batch_terms, write_members
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.jobs.damaged_rows import read_jobs
from sloppyjobs.storage.jobs.expiries import with_instants, write_expiries
from sloppyjobs.storage.jobs.new_rows import CREATED_EVENT, JOB_INSERT, NewRows
from sloppyjobs.storage.jobs.tags import write_tags

CHUNK = 1000
"""Rows per statement; more is slower, and holds locks for longer."""

CHUNK_LENGTH = 8_000_000
"""Characters of payloads per statement; databases have a limit for one value, MariaDB's is 16 MiB."""


INSERT_TRIES = 20
"""How often an insert that met a taken key looks for its holder. Two are enough, unless rows come and go meanwhile."""


class Insert:
    """Insertion of jobs, one or thousands, with keys that let only one of them in."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables

    def insert_jobs(self, new: Sequence[NewJob], connection: Connection | None = None) -> list[Job]:
        """Write the jobs and their first events; all or none. A matching key answers with the job it found."""
        if connection is not None:
            self.dialect.refuse_caller(connection)
        self.database.ensure_schema(connection)
        runs = count()
        return self.database.write(lambda c: self.insert_all(c, new, rerun=next(runs) > 0), connection)

    def insert_members(
        self, new: Sequence[NewJob], connection: Connection | None = None, *, rerun: bool = False
    ) -> list[Job]:
        """The same for jobs of which some belong to batches, which must take them.

        ``rerun``: an earlier run may have been committed, although nobody was told.
        """
        if connection is not None:
            self.dialect.refuse_caller(connection)
        self.database.ensure_schema(connection)
        runs = count(int(rerun))

        def work(c: Connection) -> list[Job]:
            found = self.holders(c, new, ids=True) if next(runs) > 0 else []
            if {job.id for job in found} & {job.id for job in new}:
                # An earlier run of this transaction was committed; the batches may have been sealed since.
                return Written([], found).answers(new)
            self.dialect.ensure_begun(c)
            # A caller may go on after a refusal.
            with nullcontext() if connection is None else c.begin_nested():
                admit(self.database, c, batch_terms(new))
                return self.insert_all(c, new, rerun=False)

        return self.database.write(work, connection)

    def shortens(self, _new: Sequence[NewJob]) -> bool:
        """Whether the database has a shorter way for these jobs, which have more than rows of their own."""
        return False

    def insert_shortly(self, new: Sequence[NewJob]) -> list[Job] | None:
        """Write such jobs by it; None where a key is taken, or an earlier run may have been committed."""
        raise NotImplementedError

    def insert_all(self, connection: Connection, new: Sequence[NewJob], *, rerun: bool) -> list[Job]:
        """``rerun``: an earlier run of this transaction may have been committed, although nobody was told."""
        now = self.database.now(connection)
        written: list[Job] = []
        for chunk in chunks(new):
            moment = now + len(written) * self.database.step
            if rerun or keyed(chunk):
                written += self.insert_or_find(connection, chunk, moment, rerun=rerun).answers(chunk)
            else:
                written += self.insert_new(connection, chunk, moment)
        return written

    def insert_new(self, connection: Connection, new: Sequence[NewJob], now: datetime) -> list[Job]:
        """Write jobs that are known to be new, when they expire, and their tags."""
        # Jobs of one call mostly share their terms, which mostly say nothing of the kind.
        different = terms_by(new, "expires", "tags", "batch_id")
        expiring = any(terms.expires is not None for terms in different)
        placed = with_instants(new, now) if expiring else new
        written = self.insert_rows(connection, placed, now)
        if expiring:
            write_expiries(self.database, connection, placed)
        if any(terms.tags is not None for terms in different):
            self.write_tags(connection, written, now)
        if any(terms.batch_id is not None for terms in different):
            write_members(self.database, connection, placed, self.add_members)
        return written

    def write_tags(self, connection: Connection, written: Sequence[Job], _now: datetime) -> None:
        """Write the rows of those new jobs that have tags; the first of them was created ``now``."""
        write_tags(self.database, connection, written)

    def add_members(self, connection: Connection, batch_id: str, job_ids: Sequence[str]) -> None:
        """Write the rows of new members of a batch."""
        add_outstanding(self.database, connection, batch_id, job_ids)

    def insert_or_find(
        self, connection: Connection, new: Sequence[NewJob], now: datetime, *, rerun: bool = False
    ) -> Written:
        """Insert the jobs whose id and key are both free, and find those that hold the others'.

        Ids of new jobs are random: a row with such an id is what ``rerun`` speaks of, and looked for at once. Where a
        holder cannot be seen because the transaction's snapshot is older than it, PostgreSQL reports a serialization
        failure, and the caller's transaction, or ours, must be run again as a whole.
        """
        self.dialect.ensure_begun(connection)
        found = self.holders(connection, new, ids=rerun)
        for _ in range(INSERT_TRIES):
            taken = {job.id for job in found} | {job.idempotency_key for job in found if job.idempotency_key}
            fresh = first_of_each_key(
                job for job in new if job.id not in taken and job.terms.idempotency_key not in taken
            )
            if not fresh:
                return Written([], found)
            try:
                with connection.begin_nested(), self.database.translating(connection):
                    return Written(self.insert_new(connection, fresh, now), found)
            except DBAPIError as error:
                if not self.dialect.is_duplicate(error):
                    raise
            # Somebody else's transaction was faster, and has committed by now; or it was an earlier run of this one.
            known, found = found, self.holders(connection, new, ids=True)
            if len(found) == len(known):
                self._meet_unseen(connection, fresh, now)
        raise errors.JobsError(
            "an id or an idempotency key of these jobs is taken by a job that this transaction cannot see: "
            "roll back and run the transaction again"
        )

    def _meet_unseen(self, connection: Connection, new: Sequence[NewJob], now: datetime) -> None:
        """Let the database say what is in the way of these jobs and cannot be seen; nothing is written."""
        insert_job = self.database.prepared(
            "insert job if absent", lambda: self.dialect.insert_if_absent(self.tables.jobs, JOB_INSERT)
        )
        values = NewRows(new, now, self.database.step).dicts(self.database.to_driver)
        savepoint = connection.begin_nested()
        with self.database.translating(connection):
            insert_job.many(cursor_of(connection), values)
        savepoint.rollback()

    def holders(self, connection: Connection, new: Sequence[NewJob], *, ids: bool) -> list[Job]:
        """The jobs that have a key of these, or an id."""
        keys = [key for job in new if (key := job.terms.idempotency_key) is not None]
        # One query for each index: a planner that must serve both at once may read the whole table instead.
        found = self._ids_having(connection, "idempotency_key", keys) if keys else []
        found += self._ids_having(connection, "id", [job.id for job in new]) if ids else []
        if not found:
            return []
        jobs, ids_found = self.tables.jobs, sorted(set(found))
        holding: list[Job] = []
        for start in range(0, len(ids_found), CHUNK):
            query = select(*rows.columns(jobs, rows.JOB_FIELDS)).where(jobs.c.id.in_(ids_found[start : start + CHUNK]))
            holding += read_jobs(self.dialect, connection, query)
        return holding

    def _ids_having(self, connection: Connection, column: str, values: Sequence[str]) -> list[str]:
        """The ids of the jobs that have one of these values in a unique column."""
        c = self.tables.jobs.c
        query = self.database.prepared(
            f"taken {column}", lambda: select(c.id).where(self.dialect.any_of(c[column], "values"))
        )
        return [row[0] for row in query.rows(cursor_of(connection), {"values": self.dialect.list_param(values)})]

    def insert_rows(self, connection: Connection, new: Sequence[NewJob], now: datetime) -> list[Job]:
        """Write rows that are known to be new: all jobs by one statement, and all their events by another."""
        cursor, made = cursor_of(connection), NewRows(new, now, self.database.step)
        to_driver = self.database.to_driver
        self.add_queues(cursor, made.queues(), to_driver(now))
        # Two calls that take the same keys wait for each other in one direction.
        by_key = sorted(made.dicts(to_driver), key=lambda row: row["idempotency_key"] or "")
        self._insert_given(cursor, self.tables.jobs, JOB_INSERT, by_key)
        self._insert_given(cursor, self.tables.events, CREATED_EVENT, made.events(to_driver))
        if Status.QUEUED in made.statuses or Status.SCHEDULED in made.statuses:
            self.dialect.announce(connection)
        return made.jobs()

    def _insert_given(self, cursor: Any, table: Table, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows that travel as a single JSON value."""
        statement = self.database.prepared(f"insert into {table.name}", lambda: self._insert_from_given(table, names))
        values = [tuple(map(row.__getitem__, names)) for row in rows]
        statement.run(cursor, {"given": msgspec.json.encode(values).decode()})

    def _insert_from_given(self, table: Table, names: Sequence[str]) -> Any:
        types = {name: Text() if isinstance(table.c[name].type, String) else table.c[name].type for name in names}
        given = self.dialect.given_rows("given", types)
        return insert(table).from_select(list(names), select(*(given.c[name] for name in names)))

    def add_queues(self, cursor: Any, names: Iterable[str], moment: Any) -> None:
        """Write the rows of those queues that have none yet."""
        table = self.tables.queues
        known = self.database.prepared(
            "known queue", lambda: select(table.c.name).where(table.c.name == bindparam("name"))
        )
        missing = [name for name in sorted(names) if not known.rows(cursor, {"name": name})]
        self.database.prepared("see queue", lambda: self.dialect.insert_if_absent(table, ("name", "created_at"))).many(
            cursor, [{"name": name, "created_at": moment} for name in missing]
        )


class Written(NamedTuple):
    """What became of new jobs: those that were inserted, and those that were there before."""

    inserted: list[Job]
    found: list[Job]

    def answers(self, new: Sequence[NewJob]) -> list[Job]:
        """One job for each: itself, also if it was found; or, with ``existing`` set, the one that has its key."""
        by_id = {job.id: job for job in (*self.inserted, *self.found)}
        by_key = {job.idempotency_key: job for job in by_id.values()}
        return [by_id.get(job.id) or as_existing(by_key[job.terms.idempotency_key]) for job in new]


def chunks(new: Sequence[NewJob], most: int = CHUNK) -> Iterator[Sequence[NewJob]]:
    """The jobs in their order, in parts of at most so many rows and ``CHUNK_LENGTH``, unless one is longer."""
    for start in range(0, len(new), most):
        rows = part_of(new, start, start + most)
        if sum(map(len, map(attrgetter("payload"), rows))) <= CHUNK_LENGTH:
            yield rows
            continue
        begin, length = 0, 0
        for place, job in enumerate(rows):
            length += len(job.payload)
            if length > CHUNK_LENGTH and place > begin:
                yield rows[begin:place]
                begin, length = place, len(job.payload)
        yield rows[begin:]


def keyed(new: Sequence[NewJob]) -> bool:
    """Whether any of the jobs has a key that may be taken."""
    return any(terms.idempotency_key is not None for terms in terms_by(new, "idempotency_key"))


def first_of_each_key(new: Iterable[NewJob]) -> Sequence[NewJob]:
    """The jobs without those whose key another one before them has."""
    given = new if isinstance(new, Sequence) else list(new)
    names = [job.terms.idempotency_key or job.id for job in given]
    if len(set(names)) == len(names):
        return given
    first: dict[str, NewJob] = {}
    for name, job in zip(names, given, strict=True):
        first.setdefault(name, job)
    return list(first.values())


def as_existing(job: Job) -> Job:
    """The job as it is told to somebody who meant to write another one."""
    return replace(job, existing=True)
