"""Counts and summaries whose cost is capped, however much the tables hold."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, func, literal_column, select, tuple_

from sloppyjobs.model import Job
from sloppyjobs.states import Status
from sloppyjobs.storage.tables import ENABLED
from sloppyjobs.storage.walking import Walking

CAP = 10_000
WORKERS = 1_000
"""Workers that are looked at, those heard of last first."""
LANES = 50
"""Lanes of a queue in which jobs ahead are counted."""
LATE_SECONDS = 60.0


class QueueLoad(NamedTuple):
    """What lies in a queue: how many are queued (one more than the cap at most), and the earliest run time."""

    queued: int
    due_since: datetime | None


class Observing(Walking):
    """What an overview is made of."""

    def status_counts(self, connection: Connection) -> dict[Status, tuple[int, datetime | None]]:
        """For each status, how many jobs (one more than the cap at most) and the earliest creation."""
        c = self.tables.jobs.c
        counts, oldest = [], []
        for status in Status:
            where: list[ColumnElement[bool]] = [literal_column(f"status = '{status.value}'")]
            if status is Status.PROCESSING:
                counts.append(_capped(select(c.locked_until).where(*where).order_by(c.locked_until)))
                oldest.append(select(func.min(c.created_at)).where(*where))
                continue
            where.append(literal_column("status <> 'processing'"))
            ordered = select(c.created_at).where(*where).order_by(c.created_at, c.id)
            counts.append(_capped(ordered))
            oldest.append(ordered.limit(1))
        numbers = self._each(connection, counts)
        moments = self._each(connection, oldest)
        return {
            status: (number[0][0], moment[0][0] if moment else None)
            for status, number, moment in zip(Status, numbers, moments, strict=True)
        }

    def queue_loads(self, connection: Connection, names: Sequence[str]) -> dict[str, QueueLoad]:
        """What is queued in each of these queues."""
        c = self.tables.jobs.c
        queries: list[Any] = []
        for name in names:
            lane = select(c.run_at).where(literal_column("status = 'queued'"), c.queue == name)
            lane = lane.order_by(c.queue, c.name, c.priority.desc(), c.run_at).limit(CAP + 1)
            counted = lane.subquery()
            queries.append(select(func.count(), func.min(counted.c.run_at)).select_from(counted))
        found = self._each(connection, queries)
        return {name: QueueLoad(*answer[0]) for name, answer in zip(names, found, strict=True)}

    def running_by(self, connection: Connection, by: str) -> dict[str, int]:
        """Running jobs, counted by ``queue`` or ``locked_by``."""
        c = self.tables.jobs.c
        held = select(c[by].label("holder")).where(literal_column("status = 'processing'"))
        return self._grouped(connection, held.order_by(c.locked_until))

    def timed_by_queue(self, connection: Connection) -> dict[str, int]:
        """Jobs that wait for a time, by queue, among the earliest of all queues."""
        c = self.tables.jobs.c
        due = select(c.queue.label("holder")).where(literal_column("status IN ('scheduled', 'retrying')"))
        return self._grouped(connection, due.order_by(c.run_at, c.id))

    def _grouped(self, connection: Connection, query: Select[Any]) -> dict[str, int]:
        looked = query.limit(CAP + 1).subquery()
        counted = select(looked.c.holder, func.count()).group_by(looked.c.holder)
        return {row[0]: row[1] for row in connection.execute(counted)}

    def settled_by_queue(self, connection: Connection, since: datetime) -> dict[str, int]:
        """Attempts settled since an instant, by queue."""
        c = self.tables.stats.c
        total = func.sum(c.succeeded + c.failed + c.cancelled)
        query = select(c.queue, total).where(c.minute >= since).group_by(c.queue)
        return {queue: int(number) for queue, number in connection.execute(query)}

    def settled_by_minute(
        self, connection: Connection, since: datetime, queue: str | None, name: str | None
    ) -> Sequence[Any]:
        """Counters per minute since an instant, summed over their shards."""
        c = self.tables.stats.c
        counters = (c.succeeded, c.failed, c.dead, c.cancelled, c.run_seconds)
        query = select(c.minute, *(func.sum(counter) for counter in counters)).where(c.minute >= since)
        if queue is not None:
            query = query.where(c.queue == queue)
        if name is not None:
            query = query.where(c.name == name)
        return connection.execute(query.group_by(c.minute).order_by(c.minute)).all()

    def recent_workers(self, connection: Connection) -> Sequence[Any]:
        """Workers, those heard of last first."""
        workers = self.tables.workers
        query = select(workers).order_by(workers.c.heartbeat_at.desc(), workers.c.id.desc())
        return connection.execute(query.limit(WORKERS)).all()

    def queues_in_use(self, connection: Connection) -> Sequence[Any]:
        """Every queue, with the id of one of its queued jobs, if there is one."""
        queues, jobs = self.tables.queues, self.tables.jobs
        queued = (
            select(jobs.c.id)
            .where(literal_column("status = 'queued'"), jobs.c.queue == queues.c.name)
            .order_by(jobs.c.queue, jobs.c.name)
            .limit(1)
            .scalar_subquery()
        )
        query = select(queues.c.name, queues.c.paused_at, queues.c.paused_until, queued.label("queued"))
        return connection.execute(query.order_by(queues.c.name).limit(CAP)).all()

    def schedules_due(self, connection: Connection, now: datetime, *, late: bool, limit: int) -> list[Any]:
        """Schedules that should have fired by now, or those that fire next."""
        c = self.tables.recurring.c
        when = c.next_run_at < now - timedelta(seconds=LATE_SECONDS) if late else c.next_run_at >= now
        query = select(c.next_run_at, c.name, c.job_name).where(literal_column(ENABLED), when)
        fine = query.where(c.last_error_at.is_(None)).order_by(c.next_run_at, c.id).limit(limit)
        broken = query.where(c.last_error_at.is_not(None)).order_by(c.last_error_at, c.id).limit(limit)
        found = self._each(connection, [fine, broken])
        return sorted(tuple(row) for rows in found for row in rows)[:limit]

    def jobs_ahead(self, connection: Connection, job: Job) -> int:
        """How many queued jobs of the job's queue will be claimed before it, up to one more than the cap."""
        c = self.tables.jobs.c
        names = [name for queue, name in self._lanes_of(connection, job.queue)]
        same = tuple_(c.run_at, c.created_at, c.id) < tuple_(
            job.run_at, job.created_at, job.id, types=[c.run_at.type, c.created_at.type, c.id.type]
        )
        queries = []
        for name in names:
            lane = select(c.id).where(literal_column("status = 'queued'"), c.queue == job.queue, c.name == name)
            order = (c.priority.desc(), c.run_at, c.created_at, c.id)
            queries.append(_capped(lane.where(c.priority > job.priority).order_by(*order)))
            queries.append(_capped(lane.where(c.priority == job.priority, same).order_by(*order)))
        total: int = sum(answer[0][0] for answer in self._each(connection, queries))
        return min(total, CAP + 1)

    def _lanes_of(self, connection: Connection, queue: str) -> list[tuple[str, str]]:
        """The lanes of one queue that hold queued jobs."""
        c = self.tables.jobs.c
        lanes: list[tuple[str, str]] = []
        while len(lanes) < LANES:
            query = select(c.queue, c.name).where(
                literal_column("status = 'queued'"),
                c.queue == queue,
                *([c.name > lanes[-1][1]] if lanes else []),
            )
            found = connection.execute(query.order_by(c.queue, c.name).limit(1)).one_or_none()
            if found is None:
                break
            lanes.append((found[0], found[1]))
        return lanes


def _capped(query: Select[Any]) -> Select[Any]:
    return select(func.count()).select_from(query.limit(CAP + 1).subquery())
