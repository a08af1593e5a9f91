"""Schedules as rows: registered, read, paused and removed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, delete, select, update

from sloppyjobs.domain.model import Job
from sloppyjobs.schedules import timetable
from sloppyjobs.storage.admin.audit import Audit
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.jobs.damaged_rows import read_jobs
from sloppyjobs.storage.jobs.insert import Insert
from sloppyjobs.storage.ports.operators import Command
from sloppyjobs.storage.ports.schedules import (
    FirePosition,
    MakeJob,
    MakeSchedule,
    NewSchedule,
    StoredSchedule,
    possible_name,
    unknown_schedule,
)
from sloppyjobs.storage.schedules.firing import ScheduleFiring
from sloppyjobs.storage.schedules.rows import (
    columns,
    cursor_after_registration,
    missed_while,
    registered_values,
    resumed_if_readable,
    stored,
)


class Schedules:
    """Registration, reading and commands."""

    # Registration

    def __init__(self, database: Database, firing: ScheduleFiring, inserts: Insert, audit: Audit) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.firing = firing
        self.inserts = inserts
        self.audit = audit

    def register(self, new: NewSchedule) -> StoredSchedule | None:
        """Write a schedule, or update the one of that name; however many do so at once, there is one row.

        The paused state is kept. The cursor is kept too, unless the timing changed: then it is the first
        occurrence after now. None when a declared schedule would only have fired in the past.
        """
        self.database.ensure_schema()
        return self.database.write(lambda c: self._register_schedule(c, new.name, lambda _: new))

    def change(self, name: str, make: MakeSchedule, command: Command) -> StoredSchedule:
        """Write what ``make`` makes of the schedule of that name, or of None; ``make`` is asked under its lock."""
        self.database.ensure_schema()

        def work(connection: Connection) -> StoredSchedule:
            self._register_schedule(connection, name, make)
            written = self._require(connection, name)
            self._audit(connection, command, name, {"job_name": written.job_name})
            return written

        return self.database.write(work)

    def _register_schedule(self, connection: Connection, name: str, make: MakeSchedule) -> StoredSchedule | None:
        table = self.tables.recurring
        now = self.database.now(connection)
        while True:
            known = self.firing.schedule_where(connection, table.c.name == possible_name(name), lock=True)
            new = make(known)
            if known is not None:
                cursor = cursor_after_registration(known, new.schedule, now)
                values = registered_values(new, now) | {"next_run_at": cursor}
                if known.vanished_at is not None and cursor != known.next_run_at:
                    values |= missed_while(known, "vanished", now)
                connection.execute(update(table).where(table.c.id == known.id).values(values))
                break
            first = timetable.first(new.schedule, now)
            if new.declared and first <= now:
                return None
            row = registered_values(new, now) | {"id": new.id, "name": new.name, "paused": new.paused}
            row |= {"created_at": now, "next_run_at": first}
            if connection.execute(self.dialect.insert_if_absent(table, tuple(row)), row).rowcount == 1:
                break
        if new.goes_to is not None:
            # It can be seen, and paused, before its first job comes.
            self.inserts.add_queues(cursor_of(connection), [new.goes_to], self.database.to_driver(now))
        return self._require(connection, new.name)

    def mark_vanished(
        self, names: Collection[str], application: str | None, job_names: Collection[str] | None
    ) -> list[str]:
        """Stop the application's declared schedules that are not among ``names``; which these were.

        ``job_names`` limits it to schedules of these jobs.
        """
        c = self.tables.recurring.c

        def work(connection: Connection) -> list[str]:
            ours = c.application.is_(None) if application is None else c.application == application
            query = select(c.id, c.name, c.job_name).where(c.declared, c.vanished_at.is_(None), ours)
            gone = {
                id: name
                for id, name, job_name in connection.execute(query)
                if name not in names and (job_names is None or job_name in job_names)
            }
            now = self.database.now(connection)
            values = {"vanished_at": now, "updated_at": now}
            connection.execute(update(self.tables.recurring).where(c.id.in_(list(gone))).values(values))
            return sorted(gone.values())

        return self.database.write(work)

    # Reading

    def get(self, name: str) -> StoredSchedule:
        """The schedule of that name, or ``UnknownSchedule``."""
        self.database.ensure_schema()
        return self.database.read(lambda c: self._require(c, name))

    def page(self, limit: int, after: str | None = None, *, backward: bool = False) -> list[StoredSchedule]:
        """Up to ``limit`` schedules in the order of their names or backward, beyond a name."""
        self.database.ensure_schema()
        table = self.tables.recurring
        name = table.c.name
        query = select(*columns(table)).order_by(name.desc() if backward else name).limit(limit)
        if after is not None:
            query = query.where(name < after if backward else name > after)
        return [stored(row, self.database.from_driver) for row in self.database.read(lambda c: c.execute(query).all())]

    def jobs_of(
        self, schedule_id: str, limit: int, after: FirePosition | None = None, *, backward: bool = False
    ) -> list[Job]:
        """Up to ``limit`` jobs of a schedule beyond a fire, newest occurrence first or backward."""
        self.database.ensure_schema()
        jobs = self.tables.jobs
        c = jobs.c
        query = select(*rows.columns(jobs, rows.JOB_FIELDS)).where(c.schedule_id == schedule_id).limit(limit)
        keys = (c.occurrence_at, c.id)
        query = query.order_by(*(keys if backward else (key.desc() for key in keys)))
        if after is not None:
            query = query.where(self.dialect.beyond(keys, after, descending=not backward))
        return self.database.read(lambda connection: read_jobs(self.dialect, self.database.bounded(connection), query))

    def of_keys(self, start: str, end: str) -> str | None:
        """The schedule of the job with the greatest idempotency key from ``start`` to ``end``."""
        self.database.ensure_schema()
        c = self.tables.jobs.c
        query = select(c.schedule_id).where(c.idempotency_key >= start, c.idempotency_key < end)
        query = query.order_by(c.idempotency_key.desc()).limit(1)
        return self.database.read(
            lambda connection: self.database.bounded(connection).execute(query).scalar_one_or_none()
        )

    # Commands

    def set_paused(self, name: str, paused: bool, command: Command | None = None) -> bool:
        """Pause or resume; False when it was so already, and then nothing is written.

        What came due during a pause is not fired afterwards, a ``once`` excepted.
        """
        self.database.ensure_schema()

        def work(connection: Connection) -> bool:
            known = self._require(connection, name, lock=True)
            if known.paused == paused:
                return False
            now = self.database.now(connection)
            values: dict[str, Any] = {"paused": paused, "updated_at": now}
            cursor = None if paused else resumed_if_readable(known, now)
            if cursor is not None:
                values |= {"next_run_at": cursor, "last_error": None, "last_error_at": None}
                values |= missed_while(known, "paused", now)
            table = self.tables.recurring
            connection.execute(update(table).where(table.c.id == known.id).values(values))
            self._audit(connection, command, name, {})
            return True

        return self.database.write(work)

    def trigger(self, name: str, make: MakeJob, command: Command | None = None) -> Job:
        """Enqueue the job that ``make`` makes of the schedule; its cursor stays where it is."""
        self.database.ensure_schema()

        def work(connection: Connection) -> Job:
            new = make(self._require(connection, name), self.database.now(connection))
            [job] = self.inserts.insert_jobs([new], connection)
            self._audit(connection, command, name, {"job": job.id})
            return job

        return self.database.write(work)

    def delete(self, name: str, command: Command | None = None) -> StoredSchedule:
        """Remove a schedule, and return it as it was. Its jobs stay as they are."""
        self.database.ensure_schema()

        def work(connection: Connection) -> StoredSchedule:
            known = self._require(connection, name, lock=True)
            table = self.tables.recurring
            connection.execute(delete(table).where(table.c.id == known.id))
            self._audit(connection, command, name, {"job_name": known.job_name})
            return known

        return self.database.write(work)

    def _audit(self, connection: Connection, command: Command | None, name: str, detail: dict[str, str]) -> None:
        if command is not None:
            self.audit.write(connection, command, "schedule", name, detail)

    def _require(self, connection: Connection, name: str, *, lock: bool = False) -> StoredSchedule:
        table = self.tables.recurring
        found = self.firing.schedule_where(connection, table.c.name == possible_name(name), lock=lock)
        if found is None:
            raise unknown_schedule(name)
        return found
