"""The claim: queued jobs in their order, taken with their attempts and events in one transaction.

Queued jobs lie in lanes, one for each queue and name. The claim index begins with the lane, so a claim jumps from
lane to lane and never reads a job that it may not take: neither a backlog in another queue nor jobs whose handler
this worker lacks cost anything. Inside and across lanes the order is priority, run time, creation.
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from datetime import timedelta
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

from sloppyjobs.domain.model import Claim, Settlement
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import Conflict, cursor_of
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.jobs.damaged_rows import read_claims
from sloppyjobs.storage.jobs.lanes import Head, Lane, Lanes, status_in
from sloppyjobs.storage.jobs.permits import Permits
from sloppyjobs.storage.jobs.promote import Promotion
from sloppyjobs.storage.jobs.settle import Settle
from sloppyjobs.storage.jobs.unanswered import Unanswered
from sloppyjobs.storage.ports.claims import ALL_QUEUES, ClaimRequest, Fence, TransactionTurns, Turns

LEASE_LENGTHS = 10_000
"""Microseconds by which leases differ."""
FOUND_AGAIN = 1000
"""Running jobs of a worker that are looked through for those of a claim whose answer was lost."""

PARKED_AT_ONCE = 500
"""Queued jobs that a claim reads once it has met some that must wait for permits, to get past all of them."""
PARKING_SECONDS = 0.5
"""For how long one claim goes on to park jobs, while there may be others behind them that could start."""


class Taken(NamedTuple):
    """What a transaction claimed, and whether it left jobs that it might have claimed."""

    claims: Sequence[Claim]
    again: bool = False
    parked: bool = False
    """Whether it met jobs for which there was no permit."""


SeenRows = Mapping[str, list[Any]]
"""Rows of ``CLAIM_FIELDS`` by the ids of their jobs."""

ATTEMPT, _UPDATED, _LEASE = map(rows.CLAIM_FIELDS.index, ("attempt_count", "updated_at", "locked_until"))


class Claims:
    """The claim, and the turns of workers: settle what has finished, and claim anew."""

    def __init__(
        self, database: Database, lanes: Lanes, settlement: Settle, unanswered: Unanswered, permits: Permits
    ) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.lanes = lanes
        self.settlement = settlement
        self.unanswered = unanswered
        self.permits = permits
        self.promotion = Promotion(database, settlement.followups)

    def turns(self) -> Turns:
        """The turns of one worker."""
        return TransactionTurns(self.turn)

    def claim(self, request: ClaimRequest) -> list[Claim]:
        """Take up to ``limit`` queued jobs: rows, attempts and events in one transaction.

        A claim of this worker whose answer was lost is looked for first, and what it had taken is the answer.
        """
        self.database.ensure_schema()
        return list(self._turn((), request)[1])

    def settle(self, settlements: Sequence[Settlement]) -> set[str]:
        """Write what was decided; returns the ids that were accepted. All others were stale."""
        return self.settlement.settle(settlements)

    def turn(self, settlements: Sequence[Settlement], request: ClaimRequest | None) -> tuple[set[str], Sequence[Claim]]:
        """One turn of a worker: settle what has finished and claim anew, in one transaction."""
        return self._turn(settlements, request)

    def _turn(
        self, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> tuple[set[str], Sequence[Claim]]:
        lost = self.unanswered.take_claim(request.worker_id) if request is not None and self.unanswered.claims else None
        asked = lost or (None if request is None else self.with_distinct_lease(request))
        accepted, taken = self._turn_once(settlements, asked, lost=lost is not None)
        return accepted, self.claim_more(asked, taken) if asked is not None else []

    def claim_more(self, asked: ClaimRequest, taken: Taken) -> Sequence[Claim]:
        """What was claimed, and more where a transaction could not go as far as was asked for.

        An empty answer would say that nothing is due, and there may be jobs behind those that others took, or that
        must wait for permits.
        """
        if not taken.again:
            return taken.claims
        claims = {claim.id: claim for claim in taken.claims}
        until = time.monotonic() + PARKING_SECONDS
        while taken.again and len(claims) < asked.limit and time.monotonic() < until:
            left = asked._replace(limit=asked.limit - len(claims))
            taken = self._turn_once((), left, depth=max(PARKED_AT_ONCE if taken.parked else 0, left.limit))[1]
            claims |= {claim.id: claim for claim in taken.claims}
        return list(claims.values())

    def _turn_once(
        self,
        settlements: Sequence[Settlement],
        asked: ClaimRequest | None,
        *,
        lost: bool = False,
        depth: int = 0,
    ) -> tuple[set[str], Taken]:
        """One transaction; ``depth`` is how many queued jobs it looks at, if not as many as are asked for."""
        # Looked for before anything is locked, unless there is something to write in any case.
        lanes = self.lanes_before(asked) if asked and not settlements else []
        promote = asked is not None and asked.promote
        if not (lanes or settlements or lost or promote):
            return set(), Taken([])

        def work(connection: Connection, rerun: bool) -> tuple[set[str], Taken]:
            accepted = self.settlement.settle_in(connection, settlements) if settlements else set()
            before = self.claimed_before(connection, asked) if asked and (lost or rerun) else []
            found = lanes
            due = (settlements or promote) and asked is not None and self.promote_due(connection)
            if asked and (due or settlements):
                found = self.lanes_for(connection, asked)
            if before or not asked or not found:
                return accepted, Taken(before)
            return accepted, self.claim_lanes(connection, asked, found, depth or asked.limit)

        return self.settlement.settling(settlements, work, asked)

    def with_distinct_lease(self, request: ClaimRequest) -> ClaimRequest:
        """The request with a lease that is longer by some microseconds, at random.

        By its length what was claimed is found again when the answer is lost, also where several claim under one
        worker's id. A lease by an injected clock is as long as was asked for.
        """
        if self.database.test_clock is not None:
            return request
        return request._replace(lease=request.lease + random.randrange(1, LEASE_LENGTHS) / 1e6)  # noqa: S311

    def claimed_before(self, connection: Connection, request: ClaimRequest) -> list[Claim]:
        """What this very request has claimed, if it has, and holds still."""
        jobs, c = self.tables.jobs, self.tables.jobs.c
        query = select(*rows.columns(jobs, rows.CLAIM_FIELDS)).where(
            status_in(self.tables, "processing"),
            c.locked_until > self.database.now(connection),
            c.locked_by == request.worker_id,
        )
        lease = timedelta(seconds=request.lease)
        found = connection.execute(query.order_by(c.locked_until.desc()).limit(FOUND_AGAIN)).all()
        ours = [row for row in found if self.database.test_clock is None and row.locked_until - row.updated_at == lease]
        ours.sort(key=lambda row: (-row.priority, row.run_at, row.created_at, row.id))
        worker_id, ids = request.worker_id, [row.id for row in ours]
        return read_claims(self.dialect, connection, ids, worker_id, lambda: rows.claims(ours, worker_id))

    def lanes_before(self, request: ClaimRequest) -> list[Lane]:
        """The lanes in which there may be something, before a transaction is begun for it."""
        return self.database.read(lambda connection: self.lanes_for(connection, request))

    def lanes_for(self, connection: Connection, request: ClaimRequest) -> list[Lane]:
        """The lanes that hold what is asked for."""
        return self.lanes.open_lanes(connection, queues_of(request), request.names)

    def claim_lanes(self, connection: Connection, request: ClaimRequest, lanes: Sequence[Lane], depth: int) -> Taken:
        """Take the heads of these lanes that may start; the others are parked."""
        now = self.database.now(connection)
        cursor, moment = cursor_of(connection), self.database.to_driver(now)
        heads = self.lanes.heads_of(cursor, lanes, moment, depth)
        if not heads:
            return Taken([])
        if not self.dialect.one_writer:
            # A job that was found may have come back, from a lease that expired, since the clock was read.
            now = self.database.now(connection)
            moment = self.database.to_driver(now)
        limited = {head.id for head in heads if head.limited}
        chosen, parked = [head.id for head in heads[: request.limit]], 0
        if limited:
            chosen, parked = self.permits.admit(connection, heads, request.limit, now)
            limited.intersection_update(chosen)
        if not chosen:
            return Taken([], again=True, parked=parked > 0)
        until = self.database.to_driver(now + timedelta(seconds=request.lease))
        values = {"ids": self.dialect.list_param(chosen), "worker": request.worker_id, "now": moment, "until": until}
        # Only the update decides: where rows are not locked when they are read, others may take them meanwhile.
        if self.take(cursor, values) != len(chosen):
            chosen = self.left_to_us(cursor, chosen, limited, values)
            if not chosen:
                return Taken([], again=True)
        claims = self.open_claims(connection, chosen, seen_rows(heads), values)
        return Taken(claims, again=parked > 0, parked=parked > 0)

    def left_to_us(self, cursor: Any, chosen: Sequence[str], limited: Set[str], values: Mapping[str, Any]) -> list[str]:
        """Those of the jobs that this transaction has taken, where others were faster with some."""
        query = self.database.prepared("unopened jobs", self._unopened_jobs)
        unopened = {row[0] for row in query.rows(cursor, values)}
        if not limited <= unopened:
            raise Conflict("others have taken a job that has a permit now")
        return [id for id in chosen if id in unopened]

    def open_claims(
        self, connection: Connection, taken: Sequence[str], seen: SeenRows, values: Mapping[str, Any]
    ) -> list[Claim]:
        """Open the attempts of jobs that were taken; their claims."""
        claims = self.claims_of(connection, taken, seen, values)
        opened = [(claim.id, claim.attempt) for claim in claims]
        self.open_attempts(cursor_of(connection), values["worker"], opened, values["now"])
        return claims

    def take(self, cursor: Any, values: Mapping[str, Any]) -> int:
        """Take those of the jobs that are still queued; the number of them."""
        return self.database.prepared("take jobs", self._take_jobs).run(cursor, values)

    def claims_of(
        self, connection: Connection, ids: Sequence[str], seen: SeenRows, values: Mapping[str, Any]
    ) -> list[Claim]:
        """The claims of jobs that have just become ours, in this order."""
        worker_id, query = values["worker"], self.database.prepared("claimed rows", self._claimed_rows)

        def read() -> list[Claim]:
            found = query.rows(cursor_of(connection), {"ids": self.dialect.list_param(ids)})
            by_id = {row[0]: row for row in found}
            return rows.claims([by_id[id] for id in ids], worker_id, self.database.from_driver)

        if seen:
            try:
                return self.claims_seen(ids, seen, values)
            except Exception as error:
                # What is damaged may have been mended by the update, as the number of attempts is.
                if not self.dialect.is_unreadable(error):
                    raise

        return read_claims(self.dialect, connection, ids, worker_id, read)

    def claims_seen(self, ids: Sequence[str], seen: SeenRows, values: Mapping[str, Any]) -> list[Claim]:
        """The same of rows that were read before; raises where one is damaged."""
        found = _taken_rows(ids, seen, values["now"], values["until"])
        return rows.claims(found, values["worker"], self.database.from_driver)

    def promote_due(self, connection: Connection) -> bool:  # noqa: ARG002
        """Queue what has become due, and say whether anything was. Nothing here: that is the sweep's."""
        return False

    def open_attempts(self, cursor: Any, worker_id: str, taken: Sequence[Fence], moment: Any) -> None:
        """The attempt and the event of every job that was taken."""
        attempts = [{"job": id, "number": number, "worker": worker_id, "now": moment} for id, number in taken]
        self.database.prepared("open attempt", self._open_attempt).many(cursor, attempts)
        self.database.prepared("record claim", self._record_claim).many(cursor, attempts)

    # Statements

    def _take_jobs(self) -> Any:
        jobs = self.tables.jobs
        return (
            update(jobs)
            .where(self.dialect.any_of(jobs.c.id, "ids"), status_in(self.tables, "queued"))
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
                self.dialect.any_of(jobs.c.id, "ids"),
                jobs.c.status == literal_column("'processing'"),
                jobs.c.locked_by == bindparam("worker"),
                attempts.c.job_id.is_(None),
            )
        )

    def _claimed_rows(self) -> Select[Any]:
        jobs = self.tables.jobs
        return select(*rows.columns(jobs, rows.CLAIM_FIELDS)).where(self.dialect.any_of(jobs.c.id, "ids"))

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


def queues_of(request: ClaimRequest) -> Collection[str] | None:
    """The queues that are asked for, None for all."""
    return None if ALL_QUEUES in request.queues else request.queues


def seen_rows(heads: Iterable[Head]) -> SeenRows:
    """The rows that were read with the jobs."""
    return {head.id: head.row for head in heads if head.row is not None}


def _taken_rows(ids: Sequence[str], seen: SeenRows, now: Any, until: Any) -> Iterator[Sequence[Any]]:
    """The rows of queued jobs as they stand when they have been taken."""
    for id in ids:
        row = seen[id].copy()
        row[ATTEMPT] += 1
        row[_UPDATED], row[_LEASE] = now, until
        yield row
