"""The sweep: jobs with expired leases go back, and what has become due goes to its queue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, literal_column, select

from sloppyjobs import errors
from sloppyjobs.domain.model import Ended, Job, Settlement
from sloppyjobs.domain.states import Decision, Failure, Lost, decide
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.jobs.damaged_rows import read_jobs
from sloppyjobs.storage.jobs.expiries import Expiries
from sloppyjobs.storage.jobs.lanes import status_in
from sloppyjobs.storage.jobs.permit_sweep import Due, PermitSweep
from sloppyjobs.storage.jobs.promote import Promotion
from sloppyjobs.storage.jobs.settle import Settle
from sloppyjobs.storage.jobs.suspended import Suspended
from sloppyjobs.storage.ports.claims import SWEEP_LIMIT, Fence, Sweep
from sloppyjobs.storage.schema.instants import Instant, as_stored

_INSTANT = Instant()


class Sweeper:
    """Expired leases and due times, a bounded number at a time."""

    def __init__(
        self,
        database: Database,
        settlement: Settle,
        promotion: Promotion,
        expiries: Expiries,
        suspended: Suspended,
        permits: PermitSweep,
    ) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.settlement = settlement
        self.promotion = promotion
        self.expiries = expiries
        self.permits = permits
        self.suspended = suspended

    def sweep(self, limit: int = SWEEP_LIMIT) -> Sweep:
        """Return jobs with expired leases to the queue, cancel what has expired, promote what has become due, wake
        what has slept long enough.

        Jobs that wait for permits go on where there are some; ``promoted`` counts them too.

        Looks before it writes.
        """
        self.database.ensure_schema()
        (lease_ends, due, expires, wakes), limited, now = self.database.read(self._soonest)
        lost: Sequence[Ended] = ()
        promoted = 0
        if lease_ends is not None and lease_ends < now:
            lost = self._expire_leases(limit)
        if expires is not None and expires <= now:
            self.expiries.cancel_expired(limit)
        if due is not None and due <= now:
            promoted = self.promotion.promote(limit)
        if wakes is not None and wakes <= now:
            promoted += self.suspended.wake_due(limit)
        permits = self.permits.sweep(now) if limited and self.permits.due(now) else Due()
        promoted += permits.released
        others = [_seconds_until(moment, now) for moment in (lease_ends, expires, wakes) if moment is not None]
        others += [] if permits.next_in is None else [permits.next_in]
        upcoming = others if due is None else [*others, _seconds_until(due, now)]
        return Sweep(len(lost), promoted, min(upcoming, default=None), lost, min(others, default=None))

    def _soonest(self, connection: Connection) -> tuple[list[datetime | None], bool, datetime]:
        query = self.database.prepared("soonest", self._soonest_statement)
        *heads, parked, permit, now = query.rows(cursor_of(connection), {})[0]
        # The head of an index may be a damaged row, which must not stop the sweep of all others.
        read, dialect = _INSTANT.process_result_value, self.database.engine.dialect
        moments = [None if head is None else read(head, dialect) for head in heads]
        return moments, parked is not None or permit is not None, self.database.by_clock(now)

    def _expire_leases(self, limit: int) -> list[Ended]:
        """Settle the attempts whose leases have expired; also those of a run that was committed unheard."""
        before: dict[Fence, tuple[Ended, Any]] = {}

        def work(connection: Connection) -> list[Ended]:
            ends = self.settlement.ends_of_attempts(connection, [id for id, _ in before]) if before else {}
            # By the instant our own run is told from that of somebody who swept after it had failed.
            ours = [one for fence, (one, end) in before.items() if ends.get(fence) == end]
            lost = self._expire(connection, limit)
            if lost:
                ends = self.settlement.ends_of_attempts(connection, [one.job.id for one in lost])
                before.update({_fence(one): (one, ends[_fence(one)]) for one in lost})
            return [*ours, *lost]

        return self.database.write(work)

    def _expire(self, connection: Connection, limit: int) -> list[Ended]:
        c = self.tables.jobs.c
        query = select(*rows.columns(self.tables.jobs, rows.JOB_FIELDS))
        query = query.where(status_in(self.tables, "processing"), c.locked_until < self.database.now(connection))
        query = self.dialect.locked(query.order_by(c.locked_until).limit(limit), skip=True)
        expired = read_jobs(self.dialect, connection, query)
        lost = [
            Ended(job, Settlement(job.id, job.attempt_count, job.locked_by, _lost(job)))  # type: ignore[arg-type]
            for job in expired
        ]
        accepted = self.settlement.settle_in(connection, [one.settlement for one in lost]) if lost else set()
        return [one for one in lost if one.job.id in accepted]

    def _soonest_statement(self) -> Select[Any]:
        """The first of each: lease that ends, due time, expiry, wake-up, job in a line, permit. And the clock."""
        c, rows = self.tables.jobs.c, self.tables.expiries.c
        leases = select(as_stored(c.locked_until)).where(status_in(self.tables, "processing")).order_by(c.locked_until)
        due = (
            select(as_stored(c.run_at)).where(status_in(self.tables, "scheduled", "retrying")).order_by(c.run_at, c.id)
        )
        expires = select(as_stored(rows.expires_at)).order_by(rows.expires_at, rows.job_id)
        line, held, steps = self.tables.parked.c, self.tables.permits.c, self.tables.steps.c
        wakes = select(as_stored(steps.wake_at)).where(steps.wake_at.is_not(None))
        wakes = wakes.order_by(steps.wake_at, steps.job_id)
        parked = select(line.job_id).where(line.released == literal_column("0")).order_by(line.released, line.resource)
        permits = select(held.job_id).order_by(held.resource, held.partition_key, held.slot)
        queries = (leases, due, expires, wakes, parked, permits)
        heads = [self.dialect.first(query).scalar_subquery() for query in queries]
        return select(*heads, self.database.clock_column())


def _seconds_until(moment: datetime, now: datetime) -> float:
    return max(0.0, (moment - now).total_seconds())


def _fence(one: Ended) -> Fence:
    return one.job.id, one.settlement.attempt


def _lost(job: Job) -> Decision:
    until = "?" if job.locked_until is None else job.locked_until.isoformat(timespec="seconds")
    message = f"{job.locked_by} held the job until {until} and was not heard of since"
    failure = Failure(errors.LeaseExpired.code, message, type="sloppyjobs.errors.LeaseExpired")
    return decide(job.attempt_count, job.max_attempts, Lost(failure))
