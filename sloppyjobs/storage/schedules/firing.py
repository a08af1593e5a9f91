"""Firing schedules: which are due, and turning a due occurrence into a job exactly once.

A fire inserts the occurrence's job first and moves the cursor second, by compare-and-set. Both happen in one
transaction, and neither needs it: an occurrence has one id and one key, so inserting it again does nothing,
and a cursor that has moved is not moved by somebody who read it before. So no lock is needed that a scheduler could
leave behind when it dies.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, delete, literal_column, select, update
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from sloppyjobs import errors
from sloppyjobs.domain.log_lines import get_logger
from sloppyjobs.domain.model import Job, NewJob
from sloppyjobs.domain.payload import clean_text
from sloppyjobs.domain.redaction.redactor import Redactor
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.jobs.insert import Insert
from sloppyjobs.storage.ports.schedules import SET_ASIDE, DecideFiring, Firing, StoredSchedule
from sloppyjobs.storage.schedules.rows import columns, readable, remembering, stored
from sloppyjobs.storage.schema.instants import as_stored

ERROR_LENGTH = 2000

_log = get_logger("sloppyjobs.recurring")


class _Overtaken(Exception):
    """The schedule was advanced, changed or paused since it was read."""


class ScheduleFiring:
    """The due schedules, and one fire of one of them."""

    def __init__(self, database: Database, inserts: Insert) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.inserts = inserts

    def due(self, limit: int) -> list[str]:
        """The ids of up to ``limit`` due schedules in next-run order; last come those that failed and are due again."""
        self.database.ensure_schema()
        return self.database.read(lambda c: self._due_schedules(c, limit))

    def _due_schedules(self, connection: Connection, limit: int) -> list[str]:
        c = self.tables.recurring.c
        now = self.database.now(connection)
        # Only ids are read: a damaged row must not keep the others from being found.
        due = select(c.id).where(literal_column(self.tables.style.enabled), c.next_run_at <= now)
        fine = due.where(c.last_error_at.is_(None)).order_by(c.next_run_at, c.id).limit(limit)
        found = list(connection.execute(fine).scalars())
        if len(found) < limit:
            retried = due.where(c.last_error_at.is_not(None), c.last_error_at <= now - SET_ASIDE)
            retried = retried.order_by(c.last_error_at, c.id).limit(limit - len(found))
            found += connection.execute(retried).scalars()
        return found

    def next_in(self) -> float | None:
        """In how many seconds a schedule is due, 0 when one is due already; None when there is none."""
        self.database.ensure_schema()
        return self.database.read(self._next_schedule_in)

    def _next_schedule_in(self, connection: Connection) -> float | None:
        query = self.database.prepared("next schedule", self._heads_of_schedules)
        head, failed, value = query.rows(cursor_of(connection), {})[0]
        if head is None and failed is None:
            return None
        due = readable(head, self.database.from_driver)
        if failed is not None or due is None:
            return self._next_of_all(connection)
        return max(0.0, (due - self.database.by_clock(value)).total_seconds())

    def _heads_of_schedules(self) -> Select[Any]:
        """The next run of those that are fine, a sign that some have failed, and the clock."""
        c = self.tables.recurring.c
        enabled: ColumnElement[bool] = literal_column(self.tables.style.enabled)
        fine = select(as_stored(c.next_run_at)).where(enabled, c.last_error_at.is_(None), c.next_run_at.is_not(None))
        failed = select(as_stored(c.last_error_at)).where(enabled, c.last_error_at.is_not(None))
        heads = (fine.order_by(c.next_run_at), failed.order_by(c.last_error_at))
        return select(*(self.dialect.first(query).scalar_subquery() for query in heads), self.database.clock_column())

    def _next_of_all(self, connection: Connection) -> float | None:
        if self._due_schedules(connection, 1):
            return 0.0
        c = self.tables.recurring.c
        instants = select(as_stored(c.next_run_at), as_stored(c.last_error_at)).where(
            literal_column(self.tables.style.enabled)
        )
        fine = instants.where(c.last_error_at.is_(None), c.next_run_at.is_not(None)).order_by(c.next_run_at)
        failed = instants.where(c.last_error_at.is_not(None)).order_by(c.last_error_at)
        moments = []
        for query in (fine, failed):
            for row in connection.execute(query.limit(1)):
                due, failed_at = (readable(value, self.database.from_driver) for value in row)
                both = [moment for moment in (due, failed_at and failed_at + SET_ASIDE) if moment is not None]
                moments += [max(both)] if both else []
        return (min(moments) - self.database.now(connection)).total_seconds() if moments else None

    def fire(self, schedule_id: str, decide: DecideFiring) -> list[Job] | None:
        """Fire a schedule if it is still due, as ``decide`` says; the jobs that this call inserted.

        None: another scheduler fires it or has fired it. One that cannot be fired has its error recorded.
        An outage of the database is raised.
        """
        inserted: list[Job] = []

        def work(connection: Connection) -> list[Job] | None:
            if inserted and (ours := self._inserted_before(connection, inserted)):
                return ours
            fired = self._fire(connection, schedule_id, decide)
            inserted[:] = fired or ()
            return fired

        try:
            return self.database.write(work)
        except _Overtaken:
            return None
        except Exception as error:
            if self._is_outage(error):
                raise
            text = clean_text(f"{type(error).__name__}: {error}", ERROR_LENGTH)
            _log.warning("schedule %s cannot be fired and is set aside: %s", schedule_id, Redactor().text(text))
            self.database.write(lambda c: self._record_failure(c, schedule_id, text))
            return []

    def _inserted_before(self, connection: Connection, inserted: Sequence[Job]) -> list[Job]:
        """The jobs of an earlier run of this fire, where it was committed and its answer lost."""
        jobs = self.tables.jobs
        query = select(*rows.columns(jobs, rows.JOB_FIELDS)).where(jobs.c.id.in_([job.id for job in inserted]))
        # An occurrence has the same id for everybody; the instant tells our own from another scheduler's.
        created = {job.id: job.created_at for job in inserted}
        found = {row.id: rows.job(row) for row in connection.execute(query) if row.created_at == created[row.id]}
        return [found[job.id] for job in inserted if job.id in found]

    def _fire(self, connection: Connection, schedule_id: str, decide: DecideFiring) -> list[Job] | None:
        if not self.dialect.fires_alone(connection, schedule_id):
            return None
        due = self.schedule_where(connection, self.tables.recurring.c.id == schedule_id)
        now = self.database.now(connection)
        if due is None or due.paused or due.vanished_at is not None:
            return None
        if due.next_run_at is None:
            raise errors.InvalidSchedule(f"next_run_at: {due.cursor!r:.200} is not an instant")
        if due.next_run_at > now:
            return None
        firing = decide(due, now)
        inserted = self.insert_occurrences(connection, firing.jobs)
        if not self.advance(connection, due, firing, now):
            raise _Overtaken
        return inserted

    def insert_occurrences(self, connection: Connection, new: Sequence[NewJob]) -> list[Job]:
        """Insert the jobs whose id and key are both unknown, and return these; the others exist already."""
        # An occurrence has the same id for every scheduler, so its row may well be there.
        bounded = self.database.bounded(connection)
        return self.inserts.insert_or_find(bounded, new, self.database.now(bounded), rerun=True).inserted if new else []

    def advance(self, connection: Connection, due: StoredSchedule, firing: Firing, now: datetime) -> bool:
        """Move the cursor from where it was read; False when it was moved, paused or removed meanwhile."""
        table = self.tables.recurring
        unchanged: tuple[ColumnElement[bool], ...] = (
            table.c.id == due.id,
            as_stored(table.c.next_run_at) == due.cursor,
            literal_column(self.tables.style.enabled),
        )
        if firing.ends:
            return connection.execute(delete(table).where(*unchanged)).rowcount == 1
        values: dict[str, Any] = {
            "next_run_at": firing.next_run_at,
            "last_error": None,
            "last_error_at": None,
        }
        if firing.jobs:
            values["last_run_at"] = now
        if firing.passed is not None:
            values["missed"] = remembering(due, firing.passed)
        return connection.execute(update(table).where(*unchanged).values(values)).rowcount == 1

    def _record_failure(self, connection: Connection, schedule_id: str, text: str) -> None:
        table = self.tables.recurring
        values = {"last_error": text, "last_error_at": self.database.now(connection)}
        connection.execute(update(table).where(table.c.id == schedule_id).values(values))

    def _is_outage(self, error: Exception) -> bool:
        if isinstance(error, errors.StorageUnavailable):
            return True
        # SQLite has one class of errors for an outage and for bytes in its row that are no text.
        if not isinstance(error, DBAPIError) or self.dialect.is_unreadable(error):
            return False
        return isinstance(error, OperationalError | InterfaceError) or self.dialect.is_transient(error)

    def schedule_where(
        self, connection: Connection, condition: ColumnElement[bool], *, lock: bool = False
    ) -> StoredSchedule | None:
        query = select(*columns(self.tables.recurring)).where(condition)
        row = connection.execute(self.dialect.locked(query) if lock else query).one_or_none()
        return None if row is None else stored(row, self.database.from_driver)
