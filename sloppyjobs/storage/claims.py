"""Claiming: expired leases first, then what has become due, then queued jobs in their order.

Queued jobs lie in lanes, one for each queue and name. The claim index begins with the lane, so a claim jumps from
lane to lane and never reads a job that it may not take: neither a backlog in another queue nor jobs whose handler
this worker lacks cost anything. Inside and across lanes the order is priority, run time, creation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import (
    Connection,
    Select,
    bindparam,
    insert,
    literal_column,
    null,
    select,
    update,
)

from sloppyjobs import errors
from sloppyjobs.model import Claim, Ended, Settlement
from sloppyjobs.states import Decision, Failure, Lost, Status, decide, event_type
from sloppyjobs.storage import rows
from sloppyjobs.storage.database import cursor_of
from sloppyjobs.storage.settlement import Fence, Settling

SWEEP_LIMIT = 500
ALL_QUEUES = "*"

Lane = tuple[str, str]

_ATTEMPT = rows.CLAIM_FIELDS.index("attempt_count")


class ClaimRequest(NamedTuple):
    """Who claims what, how many, and for how long."""

    worker_id: str
    queues: Collection[str] = (ALL_QUEUES,)
    names: Collection[str] | None = None
    limit: int = 1
    lease: float = 30.0


class Sweep(NamedTuple):
    """What a sweep did, and in how many seconds there is something for the next one."""

    expired: int
    promoted: int
    next_in: float | None
    lost: Sequence[Ended] = ()
    """The attempts whose leases had expired."""


class Claiming(Settling):
    """The sweep of leases and due times, and the claim."""

    def sweep(self, limit: int = SWEEP_LIMIT) -> Sweep:
        """Return jobs with expired leases to the queue, then promote what has become due. Looks before it writes."""
        self.ensure_schema()
        lease_ends, due, now = self.read(self._look)
        lost: Sequence[Ended] = ()
        promoted = 0
        if lease_ends is not None and lease_ends < now:
            lost = self.write(lambda c: self._expire(c, limit))
        if due is not None and due <= now:
            promoted = self.write(lambda c: self._promote(c, limit))
        upcoming = [moment for moment in (lease_ends, due) if moment is not None]
        soonest = min(upcoming, default=None)
        next_in = None if soonest is None else max(0.0, (soonest - now).total_seconds())
        return Sweep(len(lost), promoted, next_in, lost)

    def claim(self, request: ClaimRequest) -> list[Claim]:
        """Take up to ``limit`` queued jobs: rows, attempts and events in one transaction."""
        self.ensure_schema()
        lanes = self.read(lambda c: self._open_lanes(c, request))
        return self.write(lambda c: self._claim(c, request, lanes)) if lanes else []

    def turn(self, settlements: Sequence[Settlement], request: ClaimRequest | None) -> tuple[set[str], Sequence[Claim]]:
        """One turn of a worker: settle what has finished and claim anew, in one transaction."""
        lanes = self.read(lambda c: self._open_lanes(c, request)) if request else []
        if not lanes and not settlements:
            return set(), []

        def work(connection: Connection) -> tuple[set[str], list[Claim]]:
            accepted = self._settle(connection, settlements) if settlements else set()
            return accepted, self._claim(connection, request, lanes) if request and lanes else []

        return self.write(work)

    # Sweeping

    def _look(self, connection: Connection) -> tuple[datetime | None, datetime | None, datetime]:
        query = self.prepared("look", self._soonest)
        lease_ends, due, now = query.rows(cursor_of(connection), {})[0]
        return self.from_driver(lease_ends), self.from_driver(due), self.by_clock(now)

    def _expire(self, connection: Connection, limit: int) -> list[Ended]:
        c = self.tables.jobs.c
        query = select(*rows.columns(self.tables.jobs, rows.JOB_FIELDS))
        query = query.where(_status_is("processing"), c.locked_until < self.now(connection))
        query = self.locked(query.order_by(c.locked_until).limit(limit), skip=True)
        lost = [
            Ended(rows.job(row), Settlement(row.id, row.attempt_count, row.locked_by, _lost(row)))
            for row in connection.execute(query)
        ]
        accepted = self._settle(connection, [one.settlement for one in lost]) if lost else set()
        return [one for one in lost if one.job.id in accepted]

    def _promote(self, connection: Connection, limit: int) -> int:
        c = self.tables.jobs.c
        now = self.now(connection)
        query = select(c.id, c.status).where(_status_in("scheduled", "retrying"), c.run_at <= now)
        query = self.locked(query.order_by(c.run_at, c.id).limit(limit), skip=True)
        due = sorted((str(row.id), str(row.status)) for row in connection.execute(query))
        cursor, moment = cursor_of(connection), self.to_driver(now)
        self.prepared("promote", self._promote_job).many(cursor, [{"job": id, "now": moment} for id, _ in due])
        self.prepared("record edge", self._record_edge).many(
            cursor, [_queued_event(job_id, Status(status), moment) for job_id, status in due]
        )
        return len(due)

    # Claiming

    def _open_lanes(self, connection: Connection, request: ClaimRequest) -> list[Lane]:
        """The lanes that hold queued jobs this worker may take: one index probe for each lane there is."""
        cursor = cursor_of(connection)
        paused = self._paused_queues(connection)
        queues = self._queues_with_jobs(cursor) if ALL_QUEUES in request.queues else request.queues
        lanes = [(queue, name) for queue in queues for name in self._names_with_jobs(cursor, queue)]
        return [
            (queue, name)
            for queue, name in lanes
            if queue not in paused and (request.names is None or name in request.names)
        ]

    def _queues_with_jobs(self, cursor: Any) -> Iterator[str]:
        step = self.prepared("next queue", self._next_queue)
        found = step.rows(cursor, {"after_queue": ""})
        while found:
            yield found[0][0]
            found = step.rows(cursor, {"after_queue": found[0][0]})

    def _names_with_jobs(self, cursor: Any, queue: str) -> Iterator[str]:
        step = self.prepared("next name", self._next_name)
        found = step.rows(cursor, {"of_queue": queue, "after_name": ""})
        while found:
            yield found[0][0]
            found = step.rows(cursor, {"of_queue": queue, "after_name": found[0][0]})

    def _paused_queues(self, connection: Connection) -> set[str]:
        query = self.prepared("paused queues", self._paused)
        now = self.now(connection)
        return {
            name
            for name, until in query.rows(cursor_of(connection), {})
            if until is None or (self.from_driver(until) or now) > now
        }

    def _claim(self, connection: Connection, request: ClaimRequest, lanes: Sequence[Lane]) -> list[Claim]:
        now = self.now(connection)
        cursor, moment = cursor_of(connection), self.to_driver(now)
        heads = self.prepared("heads of lane", self._heads_of_lane)
        found = [
            head
            for queue, name in lanes
            for head in heads.rows(cursor, {"of_queue": queue, "of_name": name, "now": moment, "most": request.limit})
        ]
        # Tuples of (-priority, run_at, created_at, id): their order is the order of the claim.
        chosen = [head[3] for head in sorted(found)[: request.limit]]
        if not chosen:
            return []
        until = now + timedelta(seconds=request.lease)
        claimed = self._take(cursor, request.worker_id, chosen, moment, self.to_driver(until))
        by_id = {row[0]: row for row in claimed}
        self._open_attempts(cursor, request.worker_id, [(id, by_id[id][_ATTEMPT]) for id in chosen], moment)
        return rows.claims([by_id[id] for id in chosen], request.worker_id, self.from_driver)

    def _open_attempts(self, cursor: Any, worker_id: str, taken: Sequence[Fence], moment: Any) -> None:
        """The attempt and the event of every job that was taken."""
        attempts = [{"job": id, "number": number, "worker": worker_id, "now": moment} for id, number in taken]
        self.prepared("open attempt", self._open_attempt).many(cursor, attempts)
        self.prepared("record claim", self._record_claim).many(cursor, attempts)

    def _take(self, cursor: Any, worker_id: str, ids: Sequence[str], moment: Any, until: Any) -> list[tuple[Any, ...]]:
        """Make the jobs ours; returns their rows, as ``CLAIM_FIELDS``."""
        values = {"ids": self.list_param(ids), "worker": worker_id, "now": moment, "until": until}
        self.prepared("take jobs", self._take_jobs).run(cursor, values)
        return self.prepared("claimed rows", self._claimed_rows).rows(cursor, {"ids": self.list_param(ids)})

    # Statements

    def _soonest(self) -> Select[Any]:
        """The end of the first lease and the first due time, which are the heads of two indexes; and the clock."""
        c = self.tables.jobs.c
        leases = select(c.locked_until).where(_status_is("processing")).order_by(c.locked_until)
        due = select(c.run_at).where(_status_in("scheduled", "retrying")).order_by(c.run_at, c.id)
        heads = [query.limit(literal_column("1")).scalar_subquery() for query in (leases, due)]
        return select(*heads, self.clock_column())

    # Queue first, then name: SQLite and MariaDB do not seek to a pair of values, they read everything up to it.

    def _next_queue(self) -> Select[Any]:
        c = self.tables.jobs.c
        query = select(c.queue).where(_status_is("queued"), c.queue > bindparam("after_queue"))
        return query.order_by(c.queue).limit(literal_column("1"))

    def _next_name(self) -> Select[Any]:
        c = self.tables.jobs.c
        query = select(c.name).where(
            _status_is("queued"), c.queue == bindparam("of_queue"), c.name > bindparam("after_name")
        )
        return query.order_by(c.name).limit(literal_column("1"))

    def _paused(self) -> Select[Any]:
        c = self.tables.queues.c
        return select(c.name, c.paused_until).where(c.paused_at.is_not(None))

    def _heads_of_lane(self) -> Select[Any]:
        c = self.tables.jobs.c
        query = select(-c.priority, c.run_at, c.created_at, c.id).where(
            _status_is("queued"),
            c.queue == bindparam("of_queue"),
            c.name == bindparam("of_name"),
            c.run_at <= bindparam("now"),
        )
        query = query.order_by(c.priority.desc(), c.run_at, c.created_at, c.id).limit(bindparam("most"))
        return self.locked(query, skip=True)

    def _take_jobs(self) -> Any:
        jobs = self.tables.jobs
        return (
            update(jobs)
            .where(self.any_of(jobs.c.id, "ids"), _status_is("queued"))
            .values(
                status=literal_column("'processing'"),
                attempt_count=jobs.c.attempt_count + literal_column("1"),
                locked_by=bindparam("worker"),
                locked_until=bindparam("until"),
                updated_at=bindparam("now"),
                progress_percent=null(),
                progress_message=null(),
            )
        )

    def _claimed_rows(self) -> Select[Any]:
        jobs = self.tables.jobs
        return select(*rows.columns(jobs, rows.CLAIM_FIELDS)).where(self.any_of(jobs.c.id, "ids"))

    def _open_attempt(self) -> Any:
        return insert(self.tables.attempts).values(
            job_id=bindparam("job"),
            attempt_number=bindparam("number"),
            worker_id=bindparam("worker"),
            status=literal_column("'running'"),
            started_at=bindparam("now"),
        )

    def _record_claim(self) -> Any:
        return insert(self.tables.events).values(
            job_id=bindparam("job"),
            event_type=literal_column("'claimed'"),
            from_status=literal_column("'queued'"),
            to_status=literal_column("'processing'"),
            attempt_number=bindparam("number"),
            worker_id=bindparam("worker"),
            created_at=bindparam("now"),
        )

    def _promote_job(self) -> Any:
        jobs = self.tables.jobs
        return (
            update(jobs)
            .where(jobs.c.id == bindparam("job"))
            .values(status=literal_column("'queued'"), updated_at=bindparam("now"))
        )


# Status literals stand in the SQL text, so that a prepared plan can use the partial indexes.


def _status_is(status: str) -> Any:
    return literal_column("status") == literal_column(f"'{status}'")


def _status_in(*statuses: str) -> Any:
    words = ", ".join(f"'{status}'" for status in statuses)
    return literal_column(f"status IN ({words})")


def _queued_event(job_id: str, source: Status, moment: Any) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "event_type": event_type(source, Status.QUEUED),
        "from_status": source.value,
        "to_status": "queued",
        "attempt_number": None,
        "worker_id": None,
        "actor": None,
        "message": None,
        "created_at": moment,
    }


def _lost(row: Any) -> Decision:
    until = row.locked_until.isoformat(timespec="seconds")
    message = f"{row.locked_by} held the job until {until} and was not heard of since"
    failure = Failure(errors.LeaseExpired.code, message, type="sloppyjobs.errors.LeaseExpired")
    return decide(row.attempt_count, row.max_attempts, Lost(failure))
