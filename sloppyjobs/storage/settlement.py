"""The one place where an attempt is finished, guarded against being finished twice.

Rows are locked by primary key in id order, then the fence is compared: the job is still ``processing``, held by
this owner, under this attempt number. Whatever does not pass the fence is stale and changes nothing.

A settlement that is run again because its answer was lost may find its own outcome. Then it is accepted, not stale.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from zlib import crc32

from sqlalchemy import (
    Connection,
    Select,
    bindparam,
    func,
    insert,
    literal_column,
    null,
    select,
    update,
)

from sloppyjobs.model import Settlement
from sloppyjobs.states import FINISHED, Status, event_type
from sloppyjobs.storage.database import cursor_of
from sloppyjobs.storage.recognition import Recognising

STATS_SHARDS = 8

Fence = tuple[str, int]
"""A job id and the attempt number under which it is held."""


class HeldRow(NamedTuple):
    """What the fence is compared with, and what the counters need."""

    id: str
    status: str
    owner: str | None
    attempt: int
    queue: str
    name: str


class Settling(Recognising):
    """Settlement of attempts, and the leases that protect them until then."""

    def settle(self, settlements: Sequence[Settlement]) -> set[str]:
        """Write what was decided; returns the ids that were accepted. All others were stale."""
        if not settlements:
            return set()
        self.ensure_schema()
        return self.settling(settlements, lambda c, _rerun: self._settle(c, settlements))

    def renew(self, worker_id: str, held: Sequence[Fence], lease: float) -> dict[Fence, datetime]:
        """Extend the leases that are still ours; returns the new ends of those."""
        if not held:
            return {}
        self.ensure_schema()
        return self.write(lambda c: self._renew(c, worker_id, held, lease))

    def still_held(self, worker_id: str, held: Sequence[Fence]) -> set[Fence]:
        """Which of these attempts are still ours; a cancelled or lost one is not."""
        if not held:
            return set()
        return self.read(lambda c: {(row.id, row.attempt) for row in self._held(c, worker_id, held, lock=False)})

    def set_progress(
        self, worker_id: str, fence: Fence, percent: float | None, message: str | None, fields: str | None = None
    ) -> bool:
        """Store how far a running job is, ``fields`` as JSON; False when the attempt is not ours any more."""

        def work(connection: Connection) -> bool:
            held = self._held(connection, worker_id, [fence], lock=True)
            jobs = self.tables.jobs
            for row in held:
                values = {"progress_percent": percent, "progress_message": message, "progress_fields": fields}
                connection.execute(update(jobs).where(jobs.c.id == row.id).values(values))
            return bool(held)

        return self.write(work)

    # Steps

    def _settle(self, connection: Connection, settlements: Sequence[Settlement]) -> set[str]:
        ordered = sorted(settlements, key=lambda s: s.job_id)
        found = {row.id: row for row in self._lock_rows(connection, [s.job_id for s in ordered])}
        accepted: dict[str, Settlement] = {}
        for settlement in ordered:
            if _passes(found.get(settlement.job_id), settlement):
                # Of two outcomes of one attempt in one batch, the first is the one.
                accepted.setdefault(settlement.job_id, settlement)
        if accepted:
            self._write_settled(connection, list(accepted.values()), found)
        if len(accepted) == len(ordered):
            return set(accepted)
        lost = self.unanswered.take(settlement for settlement in ordered if settlement.job_id not in accepted)
        return {*accepted, *self._settled_before(connection, lost)} if lost else set(accepted)

    def _write_settled(
        self, connection: Connection, accepted: Sequence[Settlement], found: Mapping[str, HeldRow]
    ) -> None:
        cursor = cursor_of(connection)
        now = self.now(connection)
        moment = self.to_driver(now)
        plain = [s for s in accepted if s.decision.path == (Status.SUCCEEDED,)]
        other = [s for s in accepted if s.decision.path != (Status.SUCCEEDED,)]
        self.prepared("succeed job", self._succeed_job).many(
            cursor, [{"job": s.job_id, "result": s.decision.result, "now": moment} for s in plain]
        )
        self.prepared("settle job", self._settle_job).many(cursor, [self._job_values(s, now) for s in other])
        self.prepared("close attempt", self._close_attempt).many(cursor, [_attempt_values(s, moment) for s in accepted])
        self.prepared("record edge", self.record_edge).many(cursor, [row for s in accepted for row in edges(s, moment)])
        self._count(cursor, accepted, found, now)

    def _count(self, cursor: Any, accepted: Sequence[Settlement], found: Mapping[str, HeldRow], now: datetime) -> None:
        lanes = [(found[s.job_id].queue, found[s.job_id].name, s) for s in accepted]
        minute = self.to_driver(now.replace(second=0, microsecond=0))
        self.prepared("count", self.count_up).many(cursor, [{"minute": minute, **row} for row in tally(lanes)])

    def _renew(
        self, connection: Connection, worker_id: str, held: Sequence[Fence], lease: float
    ) -> dict[Fence, datetime]:
        until = self.now(connection) + timedelta(seconds=lease)
        ours = self._held(connection, worker_id, held, lock=True)
        self.prepared("renew lease", self._renew_lease).many(
            cursor_of(connection), [{"job": row.id, "until": self.to_driver(until)} for row in ours]
        )
        return {(row.id, row.attempt): until for row in ours}

    def _held(self, connection: Connection, worker_id: str, held: Sequence[Fence], *, lock: bool) -> list[HeldRow]:
        # A worker that has reclaimed its own job may ask for both attempts: the order must not decide.
        fences = set(held)
        found = self._lock_rows(connection, sorted({job_id for job_id, _ in held}), lock=lock)
        return [
            row
            for row in found
            if row.status == "processing" and row.owner == worker_id and (row.id, row.attempt) in fences
        ]

    def _lock_rows(self, connection: Connection, ids: Sequence[str], *, lock: bool = True) -> list[HeldRow]:
        key = "lock rows" if lock else "look at rows"
        query = self.prepared(key, lambda: self._rows_by_id(lock=lock))
        return [HeldRow(*row) for row in query.rows(cursor_of(connection), {"ids": self.list_param(ids)})]

    # Statements

    def _rows_by_id(self, *, lock: bool) -> Select[Any]:
        c = self.tables.jobs.c
        query = select(c.id, c.status, c.locked_by, c.attempt_count, c.queue, c.name)
        query = query.where(self.any_of(c.id, "ids")).order_by(c.id)
        return self.locked(query) if lock else query

    def _succeed_job(self) -> Any:
        jobs = self.tables.jobs
        return (
            update(jobs)
            .where(jobs.c.id == bindparam("job"))
            .values(
                status=literal_column("'succeeded'"),
                result=bindparam("result"),
                updated_at=bindparam("now"),
                finished_at=bindparam("now"),
                locked_by=null(),
                locked_until=null(),
                error_code=null(),
                error_type=null(),
                error_message=null(),
                error_frame=null(),
            )
        )

    def _settle_job(self) -> Any:
        jobs = self.tables.jobs
        return (
            update(jobs)
            .where(jobs.c.id == bindparam("job"))
            .values(
                status=bindparam("to_status"),
                # Null leaves the run time alone: a job that comes back at once keeps its place in the order.
                run_at=func.coalesce(bindparam("next_run"), jobs.c.run_at),
                updated_at=bindparam("now"),
                finished_at=bindparam("finished"),
                locked_by=null(),
                locked_until=null(),
                max_attempts=jobs.c.max_attempts + bindparam("extra"),
                error_code=bindparam("code"),
                error_type=bindparam("error_class"),
                error_message=bindparam("error_text"),
                error_frame=bindparam("frame"),
            )
        )

    def _close_attempt(self) -> Any:
        attempts = self.tables.attempts
        return (
            update(attempts)
            .where(attempts.c.job_id == bindparam("job"), attempts.c.attempt_number == bindparam("number"))
            .values(
                status=bindparam("ended"),
                finished_at=bindparam("now"),
                run_seconds=bindparam("measured"),
                error_code=bindparam("code"),
                error_type=bindparam("error_class"),
                error_message=bindparam("error_text"),
                error_frame=bindparam("frame"),
                traceback=bindparam("trace"),
            )
        )

    def record_edge(self) -> Any:
        names = (
            "job_id",
            "event_type",
            "from_status",
            "to_status",
            "attempt_number",
            "worker_id",
            "actor",
            "message",
            "created_at",
        )
        return insert(self.tables.events).values({name: bindparam(name) for name in names})

    def _renew_lease(self) -> Any:
        jobs = self.tables.jobs
        return update(jobs).where(jobs.c.id == bindparam("job")).values(locked_until=bindparam("until"))

    def _job_values(self, settlement: Settlement, now: datetime) -> dict[str, Any]:
        decision, failure = settlement.decision, settlement.decision.failure
        target = decision.path[-1]
        retry_at = now + timedelta(seconds=decision.delay) if target is Status.RETRYING else None
        return {
            "job": settlement.job_id,
            "to_status": target.value,
            "next_run": None if retry_at is None else self.to_driver(retry_at),
            "now": self.to_driver(now),
            "finished": self.to_driver(now) if target in FINISHED else None,
            "extra": 0 if decision.counts else 1,
            "code": failure.code if failure else None,
            "error_class": failure.type if failure else None,
            "error_text": failure.message if failure else None,
            "frame": failure.frame if failure else None,
        }

    # Differences between the dialects

    def locked(self, query: Select[Any], *, skip: bool = False) -> Select[Any]:
        """The query, locking what it reads; ``skip`` passes over what others have locked."""
        return self.dialect.locked(query, skip=skip)

    def count_up(self) -> Any:
        """Add to a minute's counters, or start them."""
        return self.dialect.count_up()


def _passes(row: HeldRow | None, settlement: Settlement) -> bool:
    return (
        row is not None
        and row.status == "processing"
        and row.owner == settlement.worker_id
        and row.attempt == settlement.attempt
    )


def _attempt_values(settlement: Settlement, moment: Any) -> dict[str, Any]:
    decision, failure = settlement.decision, settlement.decision.failure
    return {
        "job": settlement.job_id,
        "number": settlement.attempt,
        "ended": decision.attempt.value,
        "now": moment,
        "measured": settlement.run_seconds,
        "code": failure.code if failure else None,
        "error_class": failure.type if failure else None,
        "error_text": failure.message if failure else None,
        "frame": failure.frame if failure else None,
        "trace": failure.traceback if failure else None,
    }


def edges(settlement: Settlement, moment: Any) -> Iterable[dict[str, Any]]:
    """The events of a settlement: one for each edge of its path."""
    decision, source = settlement.decision, Status.PROCESSING
    message = decision.failure.message if decision.failure else decision.message
    for target in decision.path:
        yield {
            "job_id": settlement.job_id,
            "event_type": event_type(source, target),
            "from_status": source.value,
            "to_status": target.value,
            "attempt_number": settlement.attempt,
            "worker_id": settlement.worker_id,
            "actor": None,
            "message": message,
            "created_at": moment,
        }
        source, message = target, None


def tally(lanes: Iterable[tuple[str, str, Settlement]]) -> list[dict[str, Any]]:
    """The counters to add, in a fixed order so that two settling workers never wait for each other in a ring."""
    counts: dict[tuple[str, str, int], dict[str, Any]] = defaultdict(
        lambda: {"succeeded": 0, "failed": 0, "dead": 0, "cancelled": 0, "run_seconds": 0.0}
    )
    for queue, name, settlement in lanes:
        row = counts[queue, name, shard_of(settlement.worker_id)]
        path = settlement.decision.path
        row["run_seconds"] += settlement.run_seconds or 0.0
        if path[0] is Status.SUCCEEDED:
            row["succeeded"] += 1
            continue
        row["cancelled"] += path[0] is Status.CANCELLED
        row["failed"] += path[0] is Status.FAILED and settlement.decision.counts
        row["dead"] += path[-1] is Status.DEAD
    return [
        {"queue": queue, "name": name, "shard": shard, **row} for (queue, name, shard), row in sorted(counts.items())
    ]


@lru_cache(maxsize=128)
def shard_of(worker_id: str | None) -> int:
    """The shard of the counters in which a worker counts; a damaged row may name none."""
    return crc32((worker_id or "").encode()) % STATS_SHARDS
