"""Removal of old rows: counters, workers that are gone, expired locks, audit entries.

Each call is bounded, and two of them at once skip each other's rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, bindparam, delete, literal_column, not_, or_, select

from sloppyjobs.domain.batches import MemberState
from sloppyjobs.domain.states import FINISHED, Status
from sloppyjobs.storage.batches.mending import mend
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs.dependencies import Dependencies
from sloppyjobs.storage.jobs.suspended import Suspended
from sloppyjobs.storage.limits import Limits
from sloppyjobs.storage.reads.keyset import Scan
from sloppyjobs.storage.upkeep.retention import Retention

HOUR = timedelta(hours=1)
HOURS = 100
"""Hours of counters that one call reads."""
COUNTERS = ("succeeded", "failed", "dead", "cancelled", "run_seconds")
_STATS_KEY = ("minute", "queue", "name", "shard")


class Cleanup:
    """Removal of what nobody reads any more."""

    _rolled_until: datetime | None = None

    def __init__(
        self,
        database: Database,
        retention: Retention,
        dependencies: Dependencies,
        suspended: Suspended,
        limits: Limits,
    ) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.retention = retention
        self.dependencies = dependencies
        self.limits = limits
        self.suspended = suspended

    def remove_stats(self, before: datetime, limit: int) -> int:
        """Remove the oldest counters of before an instant."""
        stats = self.tables.stats
        query = select(*(stats.c[name] for name in _STATS_KEY)).where(stats.c.minute < before)
        query = query.order_by(*(stats.c[name] for name in _STATS_KEY)).limit(limit)
        return self.database.write(
            lambda c: self._remove_stats(c, c.execute(self.dialect.locked(query, skip=True)).all())
        )

    def roll_up_stats(self, before: datetime, limit: int) -> int:
        """Add up counters of minutes before an instant, oldest hour first, to one row an hour; how many it took.

        The sums are what they were: the minutes' rows go in the transaction that adds them to the hour's.
        """
        last = before.replace(minute=0, second=0, microsecond=0)
        hour = self._first_hour(self._rolled_until)
        rolled = 0
        for _ in range(HOURS):
            if hour is None or hour >= last or rolled >= limit:
                break
            taken = self._roll_up(hour, limit - rolled)
            rolled += taken
            if taken == 0:
                self._rolled_until = hour + HOUR
                hour = self._first_hour(self._rolled_until)
        return rolled

    def remove_workers(self, before: datetime, limit: int) -> int:
        """Remove workers that were last heard of before an instant."""
        workers = self.tables.workers
        query = select(workers.c.id).where(workers.c.heartbeat_at < before)
        query = query.order_by(workers.c.heartbeat_at, workers.c.id).limit(limit)

        def work(connection: Connection) -> int:
            gone = list(connection.execute(self.dialect.locked(query, skip=True)).scalars())
            return connection.execute(delete(workers).where(workers.c.id.in_(gone))).rowcount if gone else 0

        return self.database.write(work)

    def remove_locks(self, before: datetime, limit: int) -> int:
        """Remove locks that ran out before an instant."""
        locks = self.tables.locks
        scan = Scan((), (locks.c.name,), ((locks.c.locked_until, lambda given: given < before),))
        keys, _ = self.retention.continue_scan("locks", scan, limit)
        names = [key[0] for key in keys]
        expired = delete(locks).where(locks.c.name.in_(names), locks.c.locked_until < before)
        return self.database.write(lambda c: c.execute(expired).rowcount) if names else 0

    def remove_audit(self, before: datetime, limit: int) -> int:
        """Remove the oldest entries of the audit trail that are from before an instant."""
        audit = self.tables.audit
        # Numbers are in the order of time, so the first that are young enough end the search.
        first = select(audit.c.id, audit.c.created_at).order_by(audit.c.id).limit(limit).subquery()
        old = select(first.c.id).where(first.c.created_at < before)

        def work(connection: Connection) -> int:
            ids = list(connection.execute(old).scalars())
            return connection.execute(delete(audit).where(audit.c.id.in_(ids))).rowcount if ids else 0

        return self.database.write(work)

    def remove_deaths(self, before: datetime, limit: int) -> int:
        """Remove what is remembered of deaths before an instant."""
        c = self.tables.deaths.c
        scan = Scan((), (c.cause, c.queue, c.hour), ((c.hour.label("died"), lambda given: given < before),))
        keys, _ = self.retention.continue_scan("deaths", scan, limit)
        hours = defaultdict[tuple[str, str], list[datetime]](list)
        for cause, queue, hour in keys:
            hours[cause, queue].append(hour)

        def work(connection: Connection) -> int:
            removed = 0
            for (cause, queue), old in sorted(hours.items()):
                gone = delete(self.tables.deaths).where(c.cause == cause, c.queue == queue, c.hour.in_(old))
                removed += connection.execute(gone).rowcount
            return removed

        return self.database.write(work) if keys else 0

    def release_waiting(self, limit: int) -> int:
        """Look again at jobs that wait for others, for permits, or are suspended, and let those go on that need not.

        How many it was. The step that ends a parent or gives a permit back does it, and so does whoever sends a signal.
        This is for what somebody has changed by hand, and for clusters whose servers do not see each other's locks.
        """
        c = self.tables.jobs.c
        scan = Scan((literal_column(self.tables.style.in_list(Status.WAITING)),), (c.created_at, c.id))
        keys, _ = self.retention.continue_scan("waiting", scan, limit)
        ids = [key[-1] for key in keys]

        def work(connection: Connection) -> int:
            return self.dependencies.look_again(connection, ids) + self.suspended.release(connection, ids)

        released = self.database.write(work) + self.limits.enter_lines(ids) if ids else 0
        return released + self.limits.repair(limit)

    def mend_batches(self, limit: int) -> int:
        """Look again at jobs that batches wait for, and remove the rows of those that have ended; how many it was.

        The step that ends a job does it. This is for what somebody has changed by hand.
        """
        rows, jobs = self.tables.batch_members, self.tables.jobs
        scan = Scan((rows.c.state == int(MemberState.OUTSTANDING),), (rows.c.batch_id, rows.c.job_id))
        keys, _ = self.retention.continue_scan("batch members", scan, limit)
        by_batch: dict[str, list[str]] = defaultdict(list)
        for batch_id, job_id in keys:
            by_batch[batch_id].append(job_id)
        mended = 0
        for batch_id, ids in by_batch.items():
            live = jobs.c.status.not_in([status.value for status in FINISHED])
            query = select(jobs.c.id).where(jobs.c.id.in_(ids), live)
            there = set(self.database.read(lambda c, query=query: list(c.execute(query).scalars())))  # type: ignore[misc]
            ended = [job_id for job_id in ids if job_id not in there]
            if ended:
                mended += self.database.write(
                    lambda c, batch_id=batch_id, ended=ended: mend(self.database, c, batch_id, ended)  # type: ignore[misc]
                )
        return mended

    def remove_batches(self, before: datetime, limit: int) -> int:
        """Remove batches that ended before an instant, with their numbers."""
        batches = self.tables.batches
        scan = Scan((), (batches.c.id,), ((batches.c.finished_at, lambda at: at < before),))
        keys, _ = self.retention.continue_scan("batches", scan, limit)
        ids = [key[0] for key in keys]

        def work(connection: Connection) -> int:
            # Of one that was reopened meanwhile nothing is removed.
            gone = (batches.c.id.in_(ids), batches.c.finished_at < before)
            over = list(connection.execute(self.dialect.locked(select(batches.c.id).where(*gone))).scalars())
            for table in (self.tables.batch_members, self.tables.batch_counts):
                connection.execute(delete(table).where(table.c.batch_id.in_(over)))
            return connection.execute(delete(batches).where(batches.c.id.in_(over))).rowcount

        return self.database.write(work) if ids else 0

    def remove_keys(self, before: datetime, limit: int) -> int:
        """Remove business keys from before an instant whose jobs have ended and whose windows are over.

        The step that ends a job removes its key; this is for windows, and for what somebody has changed by hand.
        """
        rows, jobs = self.tables.keys, self.tables.jobs
        scan = Scan((), (rows.c.key,), ((rows.c.created_at, lambda given: given < before),))
        keys, _ = self.retention.continue_scan("keys", scan, limit)
        ended = or_(jobs.c.id.is_(None), jobs.c.status.in_([status.value for status in FINISHED]))
        query = (
            select(rows.c.key, rows.c.job_id)
            .select_from(rows.outerjoin(jobs, jobs.c.id == rows.c.job_id))
            .where(rows.c.key.in_([key[0] for key in keys]), ended)
        )

        def work(connection: Connection) -> int:
            over = or_(rows.c.reserved_until.is_(None), rows.c.reserved_until <= self.database.now(connection))
            unused = connection.execute(query.where(over).order_by(rows.c.key)).all()
            return sum(
                connection.execute(delete(rows).where(rows.c.key == key, rows.c.job_id == job_id)).rowcount
                for key, job_id in unused
            )

        return self.database.write(work) if keys else 0

    def remove_retry_runs(self, before: datetime, limit: int) -> int:
        """Remove retries of causes that ended before an instant, and what they remember of their jobs."""
        runs, members = self.tables.retry_runs, self.tables.retry_members
        keys, _ = self.retention.continue_scan(
            "retry runs", Scan((), (runs.c.id,), ((runs.c.ended_at, lambda at: at < before),)), limit
        )
        ids = [key[0] for key in keys]

        def work(connection: Connection) -> int:
            connection.execute(delete(members).where(members.c.run_id.in_(ids)))
            return connection.execute(delete(runs).where(runs.c.id.in_(ids))).rowcount

        return self.database.write(work) if ids else 0

    # Counters

    def _first_hour(self, start: datetime | None) -> datetime | None:
        minute = self.tables.stats.c.minute
        query = select(minute).order_by(minute).limit(1)
        query = query if start is None else query.where(minute >= start)
        first = self.database.read(lambda c: c.execute(query).scalar_one_or_none())
        return None if first is None else first.replace(minute=0, second=0, microsecond=0)

    def _roll_up(self, hour: datetime, limit: int) -> int:
        query = self._minutes_of(hour, limit)
        if not self.database.read(lambda c: c.execute(query.limit(1)).all()):
            return 0

        def work(connection: Connection) -> int:
            minutes = connection.execute(self.dialect.locked(query, skip=True)).all()
            sums = _sums(minutes)
            self._remove_stats(connection, minutes)
            moment = self.database.to_driver(hour)
            rows = [{"minute": moment, "queue": q, "name": n, "shard": 0, **sums[q, n]} for q, n in sorted(sums)]
            self.database.prepared("count", self.dialect.count_up).many(cursor_of(connection), rows)
            return len(minutes)

        return self.database.write(work)

    def _minutes_of(self, hour: datetime, limit: int) -> Select[Any]:
        stats = self.tables.stats
        c = stats.c
        summed = and_(c.minute == hour, c.shard == 0)
        query = select(stats).where(c.minute >= hour, c.minute < hour + HOUR, not_(summed))
        return query.order_by(*(c[name] for name in _STATS_KEY)).limit(limit)

    def _remove_stats(self, connection: Connection, found: Sequence[Row[Any]]) -> int:
        stats = self.tables.stats
        same = [stats.c[name] == bindparam(f"old_{name}", type_=stats.c[name].type) for name in _STATS_KEY]
        if found:
            keys = [{f"old_{name}": getattr(row, name) for name in _STATS_KEY} for row in found]
            connection.execute(delete(stats).where(*same), keys)
        return len(found)


def _sums(minutes: Sequence[Row[Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    sums: dict[tuple[str, str], dict[str, Any]] = defaultdict(lambda: dict.fromkeys(COUNTERS, 0))
    for row in minutes:
        lane = sums[row.queue, row.name]
        for name in COUNTERS:
            lane[name] += getattr(row, name)
    return sums
