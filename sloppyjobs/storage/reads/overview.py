"""Counts and summaries whose cost is bounded, however much the tables hold.

Whoever asks may see some queues only. Where the index has the queue, that narrows a count. Where it has not, the next
``WINDOW`` entries are filtered, and the count says that there may be more.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, case, func, literal_column, or_, select

from sloppyjobs.domain.model import Job
from sloppyjobs.domain.states import FINISHED, Status
from sloppyjobs.storage.database import Database, bounded_read
from sloppyjobs.storage.jobs.lanes import status_in
from sloppyjobs.storage.ports.reads import (
    LATELY,
    WINDOW,
    Activity,
    Count,
    DueSchedule,
    Loads,
    MinuteCounters,
    NamedLoad,
    QueueInUse,
    QueueLoad,
    Scope,
    StatusLoad,
)
from sloppyjobs.storage.reads.counts import CAP, Counts, share_of
from sloppyjobs.storage.reads.distinct_values import Condition, DistinctValues
from sloppyjobs.storage.reads.keyset import Keyset
from sloppyjobs.storage.schema.instants import Later

LANES = 50
"""Lanes of a queue in which jobs ahead are counted."""
LATE_SECONDS = 60.0
"""How long a fire, a lease or a timeout may be overdue before it is called late: a sweep takes its time."""
DEPTHS = 20_000
"""Queued jobs that are counted for a page of queues, in all."""
AHEAD = 5_000
"""Queued jobs that are counted in all lanes."""


class Overview:
    """What an overview is made of."""

    def __init__(self, database: Database, counts: Counts, keyset: Keyset) -> None:
        self.database = database
        self.tables = database.tables
        self.counts = counts
        self.keyset = keyset
        self.values = DistinctValues(database, keyset)

    @bounded_read
    def status_loads(self, connection: Connection, now: datetime, since: datetime, queues: Scope) -> Loads:
        """Every status, counted up to the cap; ``fresh`` are those that were created since an instant."""
        lasting = [status for status in Status if status not in FINISHED]
        whole = [self._of_status(status, queues, None) for status in Status]
        fresh = [self._of_status(status, queues, since) for status in lasting]
        late = self._late(now, queues)
        found, (failed, succeeded, _) = self.counts.counted_with(
            connection, [*whole, *fresh, *late], self._lately(now, queues)
        )
        counts = dict(zip(Status, found, strict=False))
        new = {status: count for status, (count, _) in zip(lasting, found[len(whole) :], strict=False)}
        statuses = {status: StatusLoad(count, new.get(status), oldest) for status, (count, oldest) in counts.items()}
        overdue, expired, overrun = found[-len(late) :]
        return Loads(statuses, overdue, expired, overrun, (int(failed), int(succeeded)))

    def _lately(self, now: datetime, queues: Scope) -> Select[Any]:
        c = self.tables.stats.c
        sums = (func.coalesce(func.sum(counter), literal_column("0")) for counter in (c.failed, c.succeeded))
        query = select(*sums, func.max(c.minute)).where(c.minute > now - timedelta(minutes=LATELY))
        return query if queues is None else query.where(c.queue.in_(queues))

    def _late(self, now: datetime, queues: Scope) -> list[Select[Any]]:
        """What should have been done already, in the order of ``Loads``."""
        c = self.tables.jobs.c
        late = now - timedelta(seconds=LATE_SECONDS)
        running = status_in(self.tables, "processing")
        overdue = select(c.run_at.label("first")).where(status_in(self.tables, "scheduled", "retrying"))
        overdue = overdue.where(c.run_at <= now).order_by(c.run_at, c.id)
        expired = select(c.locked_until.label("first")).where(running, c.locked_until < late).order_by(c.locked_until)
        # A claim is the last to touch ``updated_at`` while a job runs; a lease that ended is another matter.
        beyond = and_(Later(c.updated_at, c.timeout_seconds) < late, c.locked_until >= late)
        seen = beyond if queues is None else and_(beyond, c.queue.in_(queues))
        overrun = select(c.updated_at.label("moment"), case((seen, 1)).label("seen")).where(running)
        return [
            self.counts.within(overdue, c.queue, queues),
            self.counts.within(expired, c.queue, queues),
            overrun.order_by(c.locked_until),
        ]

    def _of_status(self, status: Status, queues: Scope, since: datetime | None) -> Select[Any]:
        """The creation of jobs of a status, in the order of an index; oldest first where age matters."""
        c = self.tables.jobs.c
        order: tuple[ColumnElement[Any], ...]
        where: list[ColumnElement[bool]] = [literal_column(self.tables.style.in_list(status))]
        where += [] if since is None else [c.created_at >= since]
        named = "first"
        if status is Status.PROCESSING:
            named, order = "moment", (c.locked_until,)
        else:
            order = (c.created_at, c.id)
        if since is not None or status in FINISHED:
            order = tuple(column.desc() for column in order)
        return self.counts.within(select(c.created_at.label(named)).where(*where).order_by(*order), c.queue, queues)

    @bounded_read
    def queue_loads(self, connection: Connection, names: Sequence[str]) -> dict[str, QueueLoad]:
        """What is queued in each of these queues; they share the bound of one page."""
        c = self.tables.jobs.c
        queries = [
            select(c.run_at.label("moment"))
            .where(status_in(self.tables, "queued"), c.queue == name)
            .order_by(*self._in_lanes())
            for name in names
        ]
        loads = zip(names, self.counts.shared(connection, queries, DEPTHS), strict=True)
        found = {name: QueueLoad(*load) for name, load in loads}
        self._counted().update(found)
        return found

    def _counted(self) -> dict[str, QueueLoad]:
        """Queues that this snapshot has counted: a page that shows one twice asks once, and says the same."""
        known: dict[str, QueueLoad] = self.database.seen().setdefault("queue_loads", {})
        return known

    @bounded_read
    def queued_in(
        self,
        connection: Connection,
        places: Sequence[tuple[str, str | None]],
        others: Sequence[tuple[str, str | None]] = (),
    ) -> list[QueueLoad]:
        """What is queued in each of these queues, or in a lane of them, and then in each of the others.

        Both are counted up to a bound that each of the two shares, in one statement.
        """
        known = self._counted()
        groups = [(place, share_of(DEPTHS, len(group))) for group in (places, others) for place in group]
        asked = [one for one in groups if one[0][1] is not None or one[0][0] not in known]
        queries = [(self._queued(*place), share) for place, share in asked]
        found = iter(self.counts.to_caps(connection, queries) if queries else ())
        return [known[place[0]] if (place, share) not in asked else QueueLoad(*next(found)) for place, share in groups]

    def _queued(self, queue: str, name: str | None) -> Select[Any]:
        c = self.tables.jobs.c
        where = [] if name is None else [c.name == name]
        lane = select(c.run_at.label("moment")).where(status_in(self.tables, "queued"), c.queue == queue, *where)
        return lane.order_by(*self._in_lanes(named=name is not None))

    def _in_lanes(self, *, named: bool = False) -> tuple[ColumnElement[Any], ...]:
        """The order of the claim index in a queue, or in a lane of it."""
        c = self.tables.jobs.c
        order: tuple[ColumnElement[Any], ...] = (c.queue, c.name, c.priority.desc(), c.run_at)
        return order if self.database.dialect.orders_by_fixed else order[2 if named else 1 :]

    @bounded_read
    def running_by(self, connection: Connection, by: str) -> dict[str, int]:
        """Running jobs, counted by ``queue`` or ``locked_by``."""
        return _pairs(connection.execute(self._running_by(by)))

    @bounded_read
    def named_loads(self, connection: Connection, name: str, places: Sequence[str], queues: Scope) -> NamedLoad:
        """Jobs of a name in these lanes, among those that run, and among the earliest that wait for a time."""
        c = self.tables.jobs.c
        ours = c.name == name if queues is None else and_(c.name == name, c.queue.in_(queues))
        seen = case((ours, 1)).label("seen")
        running = select(c.locked_until.label("first"), seen).where(status_in(self.tables, "processing"))
        timed = select(c.run_at.label("first"), seen).where(status_in(self.tables, "scheduled", "retrying"))
        queries = [running.order_by(c.locked_until), timed.order_by(c.run_at, c.id)]
        queries += [self._queued(queue, name) for queue in places]
        (run, _), (wait, _), *queued = self.counts.in_shares(connection, queries, DEPTHS)
        return NamedLoad(run, wait, [QueueLoad(*load) for load in queued])

    @bounded_read
    def activity(self, connection: Connection, since: datetime) -> Activity:
        """What runs, what waits for a time among the earliest of all queues, what was settled since an instant."""
        c = self.tables.jobs.c
        due = select(c.queue.label("holder")).where(status_in(self.tables, "scheduled", "retrying"))
        stats = self.tables.stats.c
        total = func.sum(stats.succeeded + stats.failed)
        settled = select(stats.queue, total).where(stats.minute >= since).group_by(stats.queue)
        queries = [self._running_by("queue"), _grouped(due.order_by(c.run_at, c.id)), settled]
        return Activity(*map(_pairs, self.keyset.each(connection, queries)))

    def _running_by(self, by: str) -> Select[Any]:
        c = self.tables.jobs.c
        held = select(c[by].label("holder")).where(status_in(self.tables, "processing"))
        return _grouped(held.order_by(c.locked_until))

    @bounded_read
    def settled_by_minute(
        self, connection: Connection, since: datetime, until: datetime, queues: Scope, name: str | None
    ) -> list[MinuteCounters]:
        """Counters per minute since an instant and before another, summed over their shards."""
        c = self.tables.stats.c
        counters = (c.succeeded, c.failed, c.dead, c.cancelled, c.run_seconds)
        query = select(c.minute, *(func.sum(counter) for counter in counters))
        query = query.where(c.minute >= since, c.minute < until)
        if queues is not None:
            query = query.where(c.queue.in_(queues))
        if name is not None:
            query = query.where(c.name == name)
        return [MinuteCounters(*row) for row in connection.execute(query.group_by(c.minute).order_by(c.minute))]

    @bounded_read
    def queues_in_use(self, connection: Connection, among: Scope) -> list[QueueInUse]:
        """Every queue, or every one among some, with up to 50 names of its queued jobs."""
        queues = self.tables.queues.c
        known = select(*(queues[name] for name in QueueInUse._fields[:-1])).order_by(queues.name).limit(CAP)
        known = known if among is None else known.where(queues.name.in_(among))
        if self.database.dialect.recursive_minimum:
            return self._queues_by_recursion(connection, known)
        rows = connection.execute(known).all()
        places = [self._queued_in(row.name) for row in rows]
        names = self.values.of_each(connection, self.tables.jobs.c.name, places, LANES, 2 * CAP)
        return [QueueInUse._make((*row, tuple(found))) for row, found in zip(rows, names, strict=True)]

    def _queues_by_recursion(self, connection: Connection, known: Select[Any]) -> list[QueueInUse]:
        """In one statement, which skips along the claim index from each name of each queue to the next."""
        jobs = self.tables.jobs.c
        start = known.subquery("start")
        names = [column.name for column in start.c]
        queued = select(func.min(jobs.name)).where(status_in(self.tables, "queued"))
        next_name = queued.where(jobs.queue == start.c.name).scalar_subquery()
        lanes = select(*start.c, next_name.label("lane"), literal_column("1").label("place")).cte(
            "lanes", recursive=True
        )
        next_name = queued.where(jobs.queue == lanes.c.name, jobs.name > lanes.c.lane).scalar_subquery()
        step = select(*(lanes.c[name] for name in names), next_name, lanes.c.place + literal_column("1"))
        lanes = lanes.union_all(step.where(lanes.c.lane.is_not(None), lanes.c.place < LANES))
        # Not ordered: the statement ends with the row at which its bound is met.
        met = select(*(lanes.c[name] for name in names), lanes.c.lane)
        met = met.where(or_(lanes.c.lane.is_not(None), lanes.c.place == literal_column("1"))).limit(2 * CAP)
        found: dict[str, QueueInUse] = {}
        for *row, lane in connection.execute(met):
            queue = found.get(row[0]) or QueueInUse._make((*row, ()))
            found[row[0]] = queue if lane is None else queue._replace(names=(*queue.names, lane))
        return sorted(found.values())

    @bounded_read
    def schedules_due(
        self, connection: Connection, now: datetime, limit: int
    ) -> tuple[list[DueSchedule], list[DueSchedule]]:
        """Schedules that should have fired by now, and those that fire next."""
        c = self.tables.recurring.c
        shown = [c[name] for name in DueSchedule._fields]
        queries = []
        for when in (c.next_run_at < now - timedelta(seconds=LATE_SECONDS), c.next_run_at >= now):
            query = select(*shown).where(literal_column(self.tables.style.enabled), when)
            queries.append(query.where(c.last_error_at.is_(None)).order_by(c.next_run_at, c.id).limit(limit))
            queries.append(query.where(c.last_error_at.is_not(None)).order_by(c.last_error_at, c.id).limit(limit))
        late, late_broken, coming, coming_broken = self.keyset.each(connection, queries)
        return _by_time(late + late_broken), _by_time(coming + coming_broken)

    @bounded_read
    def jobs_ahead(self, connection: Connection, job: Job) -> Count:
        """How many queued jobs of the job's queue will be claimed before it."""
        c = self.tables.jobs.c
        key, own = (c.run_at, c.created_at, c.id), (job.run_at, job.created_at, job.id)
        same = self.database.dialect.beyond(key, own, descending=True)
        queries = []
        for name in self.values.of(connection, c.name, self._queued_in(job.queue), LANES):
            lane = select(c.run_at.label("first")).where(
                status_in(self.tables, "queued"), c.queue == job.queue, c.name == name
            )
            order = (c.priority.desc(), c.run_at, c.created_at, c.id)
            queries.append(lane.where(c.priority > job.priority).order_by(*order))
            queries.append(lane.where(c.priority == job.priority, same).order_by(*order))
        found = [count for count, _ in self.counts.in_shares(connection, queries, AHEAD)]
        return Count(sum(count.number for count in found), any(count.more for count in found))

    def _queued_in(self, queue: str) -> Condition:
        return status_in(self.tables, "queued"), self.tables.jobs.c.queue == queue


def _grouped(query: Select[Any]) -> Select[Any]:
    scanned = query.limit(WINDOW + 1).subquery()
    return select(scanned.c.holder, func.count()).group_by(scanned.c.holder)


def _pairs(rows: Any) -> dict[str, int]:
    return {holder: int(number) for holder, number in rows}


def _by_time(rows: Sequence[Sequence[Any]]) -> list[DueSchedule]:
    return sorted((DueSchedule._make(row) for row in rows), key=lambda one: one[:3])
