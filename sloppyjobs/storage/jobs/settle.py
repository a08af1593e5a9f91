"""The one place where an attempt is finished, guarded against being finished twice.

Rows are locked by primary key in id order, then the fence is compared: the job is still ``processing``, held by
this owner, under this attempt number. Whatever does not pass the fence is stale and changes nothing. The locks keep
writers from meeting; where a database has none, the update decides, which compares the fence once more.

A settlement that is run again because its answer was lost may find its own outcome. Then it is accepted, not stale.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from zlib import crc32

from sqlalchemy import Connection, Select, Subquery, bindparam, select, update

from sloppyjobs.domain.model import Settlement
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.conflicts import all_changed
from sloppyjobs.storage.database import Prepared, cursor_of
from sloppyjobs.storage.jobs import settlement_sql
from sloppyjobs.storage.jobs.followups import Edge, Followups, bits_of
from sloppyjobs.storage.jobs.recognition import Recognising
from sloppyjobs.storage.jobs.settlement_sql import as_json
from sloppyjobs.storage.ports.claims import Fence

STATS_SHARDS = 8
_SUCCEEDED = (Status.SUCCEEDED,)


class HeldRow(NamedTuple):
    """What the fence is compared with, and what the counters need."""

    id: str
    status: str
    owner: str | None
    attempt: int
    queue: str
    name: str
    followups: int | None


class Settling(Recognising):
    """Settlement of attempts, and the leases that protect them until then."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.followups = Followups()

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
        self.plan_by_index(connection)
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
        self, connection: Connection, passed: Sequence[Settlement], found: Mapping[str, HeldRow]
    ) -> None:
        """Write what has passed the fence, all of it or nothing: ``Conflict`` where a row has changed since."""
        now = self.now(connection)
        cursor, moment = cursor_of(connection), self.to_driver(now)
        plain = [s for s in passed if s.decision.path == _SUCCEEDED]
        others = [s for s in passed if s.decision.path != _SUCCEEDED]
        if plain:
            values = {"given": as_json([settlement_sql.success(s) for s in plain]), "now": moment}
            all_changed(self._given("succeed jobs", settlement_sql.SUCCESS).run(cursor, values), len(plain))
            self._given("close successes", settlement_sql.SUCCESS).run(cursor, values)
            self._given("record successes", settlement_sql.SUCCESS).run(cursor, values)
        if others:
            rows = [settlement_sql.other(s, now, self.to_driver) for s in others]
            values = {"given": as_json(rows), "now": moment}
            all_changed(self._given("settle jobs", settlement_sql.OTHER).run(cursor, values), len(others))
            values = {"given": as_json([settlement_sql.ended(s) for s in others]), "now": moment}
            self._given("close attempts", settlement_sql.ENDED).run(cursor, values)
            self.record_edges(cursor, [edge for s in others for edge in settlement_sql.edges(s)], moment)
        self._count(cursor, passed, found, now)
        flagged = [edge for s in passed if found[s.job_id].followups is not None for edge in _walked(s, found)]
        if flagged:
            self.followups.after(connection, flagged)

    def record_edges(self, cursor: Any, edges: Sequence[tuple[Any, ...]], moment: Any) -> None:
        """Write an event for each of these rows of ``settlement_sql.EDGE``, which get their places here."""
        rows = [(place, *edge) for place, edge in enumerate(edges)]
        self._given("record edges", settlement_sql.EDGE).run(cursor, {"given": as_json(rows), "now": moment})

    def _given(self, name: str, columns: settlement_sql.Columns) -> Prepared:
        """The statement of ``settlement_sql`` with this name, over rows with these columns."""
        build = getattr(settlement_sql, name.replace(" ", "_"))
        return self.prepared(name, lambda: build(self.tables, self.given_rows("given", columns), self.dialect.same_key))

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
        query = select(c.id, c.status, c.locked_by, c.attempt_count, c.queue, c.name, c.followups)
        query = query.where(self.any_of(c.id, "ids")).order_by(c.id)
        return self.locked(query) if lock else query

    def _renew_lease(self) -> Any:
        jobs = self.tables.jobs
        return update(jobs).where(jobs.c.id == bindparam("job")).values(locked_until=bindparam("until"))

    # Differences between the dialects

    def locked(self, query: Select[Any], *, skip: bool = False) -> Select[Any]:
        """The query, locking what it reads; ``skip`` passes over what others have locked."""
        return self.dialect.locked(query, skip=skip)

    def given_rows(self, name: str, columns: settlement_sql.Columns) -> Subquery:
        """Rows that are passed as a single value: a JSON array of arrays, under the parameter ``name``."""
        return self.dialect.given_rows(name, columns)

    def plan_by_index(self, connection: Connection) -> None:
        """Let the statements of this transaction go through indexes, whatever the statistics say."""
        self.dialect.plan_by_index(connection)

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


def _walked(settlement: Settlement, found: Mapping[str, HeldRow]) -> Iterable[Edge]:
    bits, source = bits_of(found[settlement.job_id].followups), Status.PROCESSING
    for target in settlement.decision.path:
        yield Edge(settlement.job_id, source, target, bits)
        source = target


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
