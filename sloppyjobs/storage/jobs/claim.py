"""Claiming: expired leases first, then what has become due, then queued jobs in their order.

Queued jobs lie in lanes, one for each queue and name. The claim index begins with the lane, so a claim jumps from
lane to lane and never reads a job that it may not take: neither a backlog in another queue nor jobs whose handler
this worker lacks cost anything. Inside and across lanes the order is priority, run time, creation.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

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
from sloppyjobs.domain.model import Claim, Ended, Job, Settlement
from sloppyjobs.domain.states import Decision, Failure, Lost, Status, decide, event_type
from sloppyjobs.storage.conflicts import all_changed
from sloppyjobs.storage.database import cursor_of
from sloppyjobs.storage.jobs import rows, settlement_sql
from sloppyjobs.storage.jobs.damaged_rows import read_claims, read_jobs
from sloppyjobs.storage.jobs.followups import Edge, bits_of
from sloppyjobs.storage.jobs.lanes import Lane, Lanes
from sloppyjobs.storage.jobs.lanes import status_is as _status_is
from sloppyjobs.storage.jobs.settlement_sql import as_json
from sloppyjobs.storage.ports.claims import ALL_QUEUES, SWEEP_LIMIT, ClaimRequest, Fence, Sweep
from sloppyjobs.storage.schema.instants import as_stored

LEASE_LENGTHS = 10_000
"""Microseconds by which leases differ."""
FOUND_AGAIN = 1000
"""Running jobs of a worker that are looked through for those of a claim whose answer was lost."""


class Claiming(Lanes):
    """The sweep of leases and due times, and the claim."""

    def sweep(self, limit: int = SWEEP_LIMIT) -> Sweep:
        """Return jobs with expired leases to the queue, then promote what has become due. Looks before it writes."""
        self.ensure_schema()
        lease_ends, due, now = self.read(self._look)
        lost: Sequence[Ended] = ()
        promoted = 0
        if lease_ends is not None and lease_ends < now:
            lost = self._expire_leases(limit)
        if due is not None and due <= now:
            promoted = self.write(lambda c: self._promote(c, limit))
        upcoming = [moment for moment in (lease_ends, due) if moment is not None]
        soonest = min(upcoming, default=None)
        next_in = None if soonest is None else max(0.0, (soonest - now).total_seconds())
        return Sweep(len(lost), promoted, next_in, lost)

    def claim(self, request: ClaimRequest) -> list[Claim]:
        """Take up to ``limit`` queued jobs: rows, attempts and events in one transaction.

        A claim of this worker whose answer was lost is looked for first, and what it had taken is the answer.
        """
        self.ensure_schema()
        return self._turn((), request)[1]

    def turn(self, settlements: Sequence[Settlement], request: ClaimRequest | None) -> tuple[set[str], Sequence[Claim]]:
        """One turn of a worker: settle what has finished and claim anew, in one transaction."""
        return self._turn(settlements, request)

    def _turn(self, settlements: Sequence[Settlement], request: ClaimRequest | None) -> tuple[set[str], list[Claim]]:
        accepted, claims = self._turn_once(settlements, request)
        while claims is None:
            # An empty answer would say that nothing is due, and there may be jobs behind those that others took.
            claims = self._turn_once((), request)[1]
        return accepted, claims

    def _turn_once(
        self, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> tuple[set[str], list[Claim] | None]:
        """As ``_turn``; None where others were faster with every job that this claim had found."""
        lost = None if request is None else self.unanswered.take_claim(request.worker_id)
        asked = lost or (None if request is None else self.told_apart(request))
        lanes = self.read(lambda c: self._lanes_for(c, asked)) if asked else []
        if not lanes and not settlements and lost is None:
            return set(), []

        def work(connection: Connection, rerun: bool) -> tuple[set[str], list[Claim] | None]:
            accepted = self._settle(connection, settlements) if settlements else set()
            claims = self._claimed_before(connection, asked) if asked and (lost or rerun) else []
            return accepted, claims or (self._claim(connection, asked, lanes) if asked and lanes else [])

        return self.settling(settlements, work, asked)

    def told_apart(self, request: ClaimRequest) -> ClaimRequest:
        """The request with a lease that is longer by some microseconds, at random.

        By its length what was claimed is found again when the answer is lost, also where several claim under one
        worker's id. A lease by an injected clock is as long as was asked for.
        """
        if self._test_clock is not None:
            return request
        return request._replace(lease=request.lease + random.randrange(1, LEASE_LENGTHS) / 1e6)  # noqa: S311

    def _claimed_before(self, connection: Connection, request: ClaimRequest) -> list[Claim]:
        """What this very request has claimed, if it has, and holds still."""
        jobs, c = self.tables.jobs, self.tables.jobs.c
        query = select(*rows.columns(jobs, rows.CLAIM_FIELDS)).where(
            _status_is("processing"), c.locked_until > self.now(connection), c.locked_by == request.worker_id
        )
        lease = timedelta(seconds=request.lease)
        found = connection.execute(query.order_by(c.locked_until.desc()).limit(FOUND_AGAIN)).all()
        ours = [row for row in found if self._test_clock is None and row.locked_until - row.updated_at == lease]
        ours.sort(key=lambda row: (-row.priority, row.run_at, row.created_at, row.id))
        worker_id, ids = request.worker_id, [row.id for row in ours]
        return read_claims(self.dialect, connection, ids, worker_id, lambda: rows.claims(ours, worker_id))

    # Sweeping

    def _look(self, connection: Connection) -> tuple[datetime | None, datetime | None, datetime]:
        query = self.prepared("look", self._soonest)
        *heads, now = query.rows(cursor_of(connection), {})[0]
        # The head of an index may be a damaged row, which must not stop the sweep of all others.
        lease_ends, due = (self._now_type.process_result_value(head, self.engine.dialect) for head in heads)
        return lease_ends, due, self.by_clock(now)

    def _expire_leases(self, limit: int) -> list[Ended]:
        """Settle the attempts whose leases have expired; also those of a run that was committed unheard."""
        before: dict[Fence, tuple[Ended, Any]] = {}

        def work(connection: Connection) -> list[Ended]:
            ends = self._ends(connection, [id for id, _ in before]) if before else {}
            # By the instant our own run is told from that of somebody who swept after it had failed.
            ours = [one for fence, (one, end) in before.items() if ends.get(fence) == end]
            lost = self._expire(connection, limit)
            if lost:
                ends = self._ends(connection, [one.job.id for one in lost])
                before.update({_fence(one): (one, ends[_fence(one)]) for one in lost})
            return [*ours, *lost]

        return self.write(work)

    def _expire(self, connection: Connection, limit: int) -> list[Ended]:
        c = self.tables.jobs.c
        query = select(*rows.columns(self.tables.jobs, rows.JOB_FIELDS))
        query = query.where(_status_is("processing"), c.locked_until < self.now(connection))
        query = self.locked(query.order_by(c.locked_until).limit(limit), skip=True)
        expired = read_jobs(self.dialect, connection, query)
        lost = [
            Ended(job, Settlement(job.id, job.attempt_count, job.locked_by, _lost(job)))  # type: ignore[arg-type]
            for job in expired
        ]
        accepted = self._settle(connection, [one.settlement for one in lost]) if lost else set()
        return [one for one in lost if one.job.id in accepted]

    def _promote(self, connection: Connection, limit: int) -> int:
        c = self.tables.jobs.c
        self.plan_by_index(connection)
        now = self.now(connection)
        query = select(c.id, c.status, c.followups).where(_status_in("scheduled", "retrying"), c.run_at <= now)
        query = self.locked(query.order_by(c.run_at, c.id).limit(limit), skip=True)
        due = sorted((str(row.id), Status(row.status), row.followups) for row in connection.execute(query))
        if not due:
            return 0
        cursor, moment = cursor_of(connection), self.to_driver(now)
        values = {"given": as_json([(id, source.value) for id, source, _ in due]), "now": moment}
        all_changed(self._given("promote jobs", settlement_sql.MOVE).run(cursor, values), len(due))
        self.record_edges(cursor, [_queued_event(id, source) for id, source, _ in due], moment)
        flagged = [Edge(id, source, Status.QUEUED, bits_of(bits)) for id, source, bits in due if bits is not None]
        if flagged:
            self.followups.after(connection, flagged)
        return len(due)

    # Claiming

    def _lanes_for(self, connection: Connection, request: ClaimRequest) -> list[Lane]:
        queues = None if ALL_QUEUES in request.queues else request.queues
        return self.open_lanes(connection, queues, request.names)

    def _claim(self, connection: Connection, request: ClaimRequest, lanes: Sequence[Lane]) -> list[Claim] | None:
        """Take the heads of these lanes; None where others have taken all of them since they were read."""
        now = self.now(connection)
        cursor, moment = cursor_of(connection), self.to_driver(now)
        chosen = self.heads_of(cursor, lanes, moment, request.limit)
        if not chosen:
            return []
        until = self.to_driver(now + timedelta(seconds=request.lease))
        values = {"ids": self.list_param(chosen), "worker": request.worker_id, "now": moment, "until": until}
        # Only the update decides: where rows are not locked when they are read, others may take them meanwhile.
        if self.prepared("take jobs", self._take_jobs).run(cursor, values) != len(chosen):
            unopened = {row[0] for row in self.prepared("unopened jobs", self._unopened_jobs).rows(cursor, values)}
            chosen = [id for id in chosen if id in unopened]
            if not chosen:
                return None
        claims = self._taken(connection, request.worker_id, chosen)
        self._open_attempts(cursor, request.worker_id, [(claim.id, claim.attempt) for claim in claims], moment)
        return claims

    def _taken(self, connection: Connection, worker_id: str, ids: Sequence[str]) -> list[Claim]:
        """The claims of jobs that have just become ours, in this order."""
        query = self.prepared("claimed rows", self._claimed_rows)

        def read() -> list[Claim]:
            by_id = {row[0]: row for row in query.rows(cursor_of(connection), {"ids": self.list_param(ids)})}
            return rows.claims([by_id[id] for id in ids], worker_id, self.from_driver)

        return read_claims(self.dialect, connection, ids, worker_id, read)

    def _open_attempts(self, cursor: Any, worker_id: str, taken: Sequence[Fence], moment: Any) -> None:
        """The attempt and the event of every job that was taken."""
        attempts = [{"job": id, "number": number, "worker": worker_id, "now": moment} for id, number in taken]
        self.prepared("open attempt", self._open_attempt).many(cursor, attempts)
        self.prepared("record claim", self._record_claim).many(cursor, attempts)

    # Statements

    def _soonest(self) -> Select[Any]:
        """The end of the first lease and the first due time, which are the heads of two indexes; and the clock."""
        c = self.tables.jobs.c
        leases = select(as_stored(c.locked_until)).where(_status_is("processing")).order_by(c.locked_until)
        due = select(as_stored(c.run_at)).where(_status_in("scheduled", "retrying")).order_by(c.run_at, c.id)
        heads = [query.limit(literal_column("1")).scalar_subquery() for query in (leases, due)]
        return select(*heads, self.clock_column())

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
                progress_fields=null(),
            )
        )

    def _unopened_jobs(self) -> Select[Any]:
        """Those that this transaction has taken: others commit a job together with its attempt."""
        jobs, attempts = self.tables.jobs, self.tables.attempts
        opened = (attempts.c.job_id == jobs.c.id) & (attempts.c.attempt_number == jobs.c.attempt_count)
        return (
            select(jobs.c.id)
            .select_from(jobs.outerjoin(attempts, opened))
            .where(
                self.any_of(jobs.c.id, "ids"),
                jobs.c.status == literal_column("'processing'"),
                jobs.c.locked_by == bindparam("worker"),
                attempts.c.job_id.is_(None),
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


def _status_in(*statuses: str) -> Any:
    words = ", ".join(f"'{status}'" for status in statuses)
    return literal_column(f"status IN ({words})")


def _queued_event(job_id: str, source: Status) -> tuple[Any, ...]:
    return job_id, event_type(source, Status.QUEUED), source.value, "queued", None, None, None, None


def _fence(one: Ended) -> Fence:
    return one.job.id, one.settlement.attempt


def _lost(job: Job) -> Decision:
    until = "?" if job.locked_until is None else job.locked_until.isoformat(timespec="seconds")
    message = f"{job.locked_by} held the job until {until} and was not heard of since"
    failure = Failure(errors.LeaseExpired.code, message, type="sloppyjobs.errors.LeaseExpired")
    return decide(job.attempt_count, job.max_attempts, Lost(failure))
