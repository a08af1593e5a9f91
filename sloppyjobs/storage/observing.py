"""Counts and summaries whose cost is bounded, however much the tables hold.

Whoever asks may see some queues only. Then what an index knows of queues narrows a count, and what it does not know
is sifted out of the next ``WINDOW`` entries: the count says of itself that there may be more.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, func, literal_column, select, text, tuple_

from sloppyjobs.model import Job
from sloppyjobs.states import FINISHED, Status
from sloppyjobs.storage.counting import CAP, WINDOW, Count, Counting, Scope
from sloppyjobs.storage.job_tables import in_list
from sloppyjobs.storage.service_tables import ENABLED

WORKERS = 1_000
"""Workers that are looked at, those heard of last first."""
LANES = 50
"""Lanes of a queue in which jobs ahead are counted."""
LATE_SECONDS = 60.0
DEPTHS = 20_000
"""Queued jobs that the depths of a page of queues count together."""
AHEAD = 5_000
"""Queued jobs that are counted in all lanes together."""
SCHEDULES = 200
"""Schedules that are looked at where some queues only are asked for: a row alone does not know its queue."""

# A lane is a queue and a name. Each jump goes to the next name of the claim index.
_LANES = """
WITH RECURSIVE lanes (name, place) AS (
  SELECT (SELECT min(name) FROM {queued}), 1
  UNION ALL
  SELECT (SELECT min(name) FROM {queued} AND name > lanes.name), lanes.place + 1
  FROM lanes WHERE lanes.name IS NOT NULL AND lanes.place < :most
)
SELECT name FROM lanes WHERE name IS NOT NULL
"""


class StatusLoad(NamedTuple):
    """How many jobs have a status, how many of them were created lately, and the earliest creation.

    ``fresh`` is None for the states in which jobs end.
    """

    jobs: Count
    fresh: Count | None
    oldest: datetime | None


class QueueLoad(NamedTuple):
    """What lies in a queue: how many are queued, and the earliest run time among the counted."""

    queued: Count
    due_since: datetime | None


class Activity(NamedTuple):
    """What goes on in each queue: jobs that run, jobs that wait for a time, attempts settled lately."""

    running: dict[str, int]
    timed: dict[str, int]
    settled: dict[str, int]


class Observing(Counting):
    """What an overview is made of."""

    def status_loads(self, connection: Connection, since: datetime, queues: Scope) -> dict[Status, StatusLoad]:
        """Every status, counted up to the cap; ``fresh`` are those that were created since an instant."""
        lasting = [status for status in Status if status not in FINISHED]
        whole = [self._of_status(status, queues, None) for status in Status]
        found = self.counted(connection, [*whole, *(self._of_status(status, queues, since) for status in lasting)])
        fresh = {status: count for status, (count, _) in zip(lasting, found[len(whole) :], strict=True)}
        counts = zip(Status, found[: len(whole)], strict=True)
        return {status: StatusLoad(count, fresh.get(status), oldest) for status, (count, oldest) in counts}

    def _of_status(self, status: Status, queues: Scope, since: datetime | None) -> Select[Any]:
        """The creation of jobs of a status, in the order of an index; oldest first where age matters."""
        c = self.tables.jobs.c
        order: tuple[ColumnElement[Any], ...]
        where: list[ColumnElement[bool]] = [literal_column(in_list(status))]
        where += [] if since is None else [c.created_at >= since]
        named = "first"
        if status is Status.PROCESSING:
            named, order = "moment", (c.locked_until,)
        else:
            order = (c.created_at, c.id)
        if since is not None or status in FINISHED:
            order = tuple(column.desc() for column in order)
        return self.within(select(c.created_at.label(named)).where(*where).order_by(*order), c.queue, queues)

    def queue_loads(self, connection: Connection, names: Sequence[str]) -> dict[str, QueueLoad]:
        """What is queued in each of these queues; they share the bound of one page."""
        c = self.tables.jobs.c
        queries = [
            select(c.run_at.label("moment"))
            .where(literal_column("status = 'queued'"), c.queue == name)
            .order_by(c.queue, c.name, c.priority.desc(), c.run_at)
            for name in names
        ]
        return {
            name: QueueLoad(*load) for name, load in zip(names, self.shared(connection, queries, DEPTHS), strict=True)
        }

    def running_by(self, connection: Connection, by: str) -> dict[str, int]:
        """Running jobs, counted by ``queue`` or ``locked_by``."""
        return _pairs(connection.execute(self._running_by(by)))

    def activity(self, connection: Connection, since: datetime) -> Activity:
        """What runs, what waits for a time among the earliest of all queues, what was settled since an instant."""
        c = self.tables.jobs.c
        due = select(c.queue.label("holder")).where(literal_column("status IN ('scheduled', 'retrying')"))
        stats = self.tables.stats.c
        total = func.sum(stats.succeeded + stats.failed + stats.cancelled)
        settled = select(stats.queue, total).where(stats.minute >= since).group_by(stats.queue)
        queries = [self._running_by("queue"), _grouped(due.order_by(c.run_at, c.id)), settled]
        return Activity(*map(_pairs, self._each(connection, queries)))

    def _running_by(self, by: str) -> Select[Any]:
        c = self.tables.jobs.c
        held = select(c[by].label("holder")).where(literal_column("status = 'processing'"))
        return _grouped(held.order_by(c.locked_until))

    def settled_by_minute(
        self, connection: Connection, since: datetime, until: datetime, queues: Scope, name: str | None
    ) -> Sequence[Any]:
        """Counters per minute since an instant and before another, summed over their shards."""
        c = self.tables.stats.c
        counters = (c.succeeded, c.failed, c.dead, c.cancelled, c.run_seconds)
        query = select(c.minute, *(func.sum(counter) for counter in counters))
        query = query.where(c.minute >= since, c.minute < until)
        if queues is not None:
            query = query.where(c.queue.in_(queues))
        if name is not None:
            query = query.where(c.name == name)
        return connection.execute(query.group_by(c.minute).order_by(c.minute)).all()

    def recent_workers(self, connection: Connection) -> Sequence[Any]:
        """Workers, those heard of last first."""
        workers = self.tables.workers
        query = select(workers).order_by(workers.c.heartbeat_at.desc(), workers.c.id.desc())
        return connection.execute(query.limit(WORKERS)).all()

    def queues_in_use(self, connection: Connection, among: Scope) -> Sequence[Any]:
        """Every queue, or every one among some, with the id of one of its queued jobs, if there is one."""
        queues, jobs = self.tables.queues, self.tables.jobs
        queued = (
            select(jobs.c.id)
            .where(literal_column("status = 'queued'"), jobs.c.queue == queues.c.name)
            .order_by(jobs.c.queue, jobs.c.name)
            .limit(1)
            .scalar_subquery()
        )
        query = select(queues.c.name, queues.c.paused_at, queues.c.paused_until, queued.label("queued"))
        if among is not None:
            query = query.where(queues.c.name.in_(among))
        return connection.execute(query.order_by(queues.c.name).limit(CAP)).all()

    def schedules_due(self, connection: Connection, now: datetime, limit: int) -> tuple[list[Any], list[Any]]:
        """Schedules that should have fired by now, and those that fire next, each with what tells its queue."""
        c = self.tables.recurring.c
        shown = (c.next_run_at, c.name, c.job_name, c.queue, c.job_defaults)
        queries = []
        for when in (c.next_run_at < now - timedelta(seconds=LATE_SECONDS), c.next_run_at >= now):
            query = select(*shown).where(literal_column(ENABLED), when)
            queries.append(query.where(c.last_error_at.is_(None)).order_by(c.next_run_at, c.id).limit(limit))
            queries.append(query.where(c.last_error_at.is_not(None)).order_by(c.last_error_at, c.id).limit(limit))
        late, late_broken, coming, coming_broken = self._each(connection, queries)
        return _by_time(late + late_broken), _by_time(coming + coming_broken)

    def jobs_ahead(self, connection: Connection, job: Job) -> Count:
        """How many queued jobs of the job's queue will be claimed before it."""
        c = self.tables.jobs.c
        same = tuple_(c.run_at, c.created_at, c.id) < tuple_(
            job.run_at, job.created_at, job.id, types=[c.run_at.type, c.created_at.type, c.id.type]
        )
        queries = []
        for name in self._lanes_of(connection, job.queue):
            lane = select(c.run_at.label("first")).where(
                literal_column("status = 'queued'"), c.queue == job.queue, c.name == name
            )
            order = (c.priority.desc(), c.run_at, c.created_at, c.id)
            queries.append(lane.where(c.priority > job.priority).order_by(*order))
            queries.append(lane.where(c.priority == job.priority, same).order_by(*order))
        found = [count for count, _ in self.in_shares(connection, queries, AHEAD)]
        return Count(sum(count.number for count in found), any(count.more for count in found))

    def _lanes_of(self, connection: Connection, queue: str) -> list[str]:
        """The names of queued jobs in one queue, in one statement that jumps from each to the next."""
        table = connection.dialect.identifier_preparer.format_table(self.tables.jobs)
        statement = _LANES.format(queued=f"{table} WHERE status = 'queued' AND queue = :queue")
        return list(connection.execute(text(statement), {"queue": queue, "most": LANES}).scalars())


def _grouped(query: Select[Any]) -> Select[Any]:
    looked = query.limit(WINDOW + 1).subquery()
    return select(looked.c.holder, func.count()).group_by(looked.c.holder)


def _pairs(rows: Any) -> dict[str, int]:
    return {holder: int(number) for holder, number in rows}


def _by_time(rows: list[Any]) -> list[Any]:
    return sorted((tuple(row) for row in rows), key=lambda row: row[:3])
