"""What runs now, by worker; and what ran last, by schedule. Each in one bounded statement for a whole page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, ScalarSelect, Select, func, select

from sloppyjobs.storage.database import Database, bounded_read
from sloppyjobs.storage.jobs.lanes import status_in
from sloppyjobs.storage.ports.reads import WINDOW, Held, Ran, Scope
from sloppyjobs.storage.reads.keyset import Keyset


class RecentRuns:
    """Reads for the pages of workers, queues and schedules."""

    def __init__(self, database: Database, keyset: Keyset) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.keyset = keyset

    @bounded_read
    def running_jobs(
        self, connection: Connection, workers: Sequence[str], queues: Scope, most: int
    ) -> dict[str, list[Held]]:
        """The jobs that these workers hold, by worker: up to ``most`` of each, those that were claimed first.

        Only the next ``WINDOW`` leases of all workers are read; with ``queues``, those of these queues.
        """
        c = self.tables.jobs.c
        columns = (c.locked_by, c.id, c.name, c.queue, c.attempt_count, c.locked_until)
        leases = select(*columns).where(status_in(self.tables, "processing")).order_by(c.locked_until)
        scanned = leases.limit(WINDOW + 1).subquery()
        holder = scanned.c.locked_by
        ranked = select(
            holder,
            func.count().over(partition_by=holder).label("total"),
            scanned.c.id,
            scanned.c.name,
            scanned.c.queue,
            scanned.c.attempt_count,
            func.row_number().over(partition_by=holder, order_by=scanned.c.id).label("place"),
        ).where(holder.in_(workers))
        if queues is not None:
            ranked = ranked.where(scanned.c.queue.in_(queues))
        found = ranked.subquery()
        started = self._of_attempt("started_at", found.c.id, found.c.attempt_count)
        query = select(found.c.locked_by, found.c.total, found.c.id, found.c.name, found.c.queue, started)
        held: dict[str, list[Held]] = defaultdict(list)
        if workers:
            for row in connection.execute(query.where(found.c.place <= most).order_by(found.c.place)):
                held[row[0]].append(Held(*row))
        return held

    @bounded_read
    def last_runs(self, connection: Connection, schedules: Sequence[str], most: int) -> dict[str, list[Ran]]:
        """The last jobs of each of these schedules, by the schedule's id, latest occurrence first.

        Where a row cannot be read, those of its schedules are left out: a strip is no reason to lose a page.
        """
        try:
            answers = self.keyset.each(connection, [self._last_of(schedule, most) for schedule in schedules])
        except Exception as error:
            if not self.dialect.is_unreadable(error):
                raise
            return {}
        return {
            schedule: sorted((Ran(*row) for row in rows), key=lambda ran: (ran.occurrence_at, ran.id), reverse=True)
            for schedule, rows in zip(schedules, answers, strict=True)
        }

    def _last_of(self, schedule: str, most: int) -> Select[Any]:
        c = self.tables.jobs.c
        took = self._of_attempt("run_seconds", c.id, c.attempt_count).label("took")
        ended = self._of_attempt("status", c.id, c.attempt_count).label("ended")
        query = select(c.id, c.queue, c.status, c.occurrence_at, c.idempotency_key, took, ended)
        query = query.where(c.schedule_id == schedule, c.occurrence_at.is_not(None))
        return query.order_by(c.occurrence_at.desc(), c.id.desc()).limit(most)

    def _of_attempt(self, column: str, job_id: Any, number: Any) -> ScalarSelect[Any]:
        attempts = self.tables.attempts
        same = (attempts.c.job_id == job_id, attempts.c.attempt_number == number)
        return select(attempts.c[column]).where(*same).scalar_subquery()
