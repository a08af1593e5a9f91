"""The one place where an attempt is finished, guarded against being finished twice.

Rows are locked by primary key in id order, then the fence is compared: the job is still ``processing``, held by
this owner, under this attempt number. Whatever does not pass the fence is stale and changes nothing. The locks keep
writers from meeting; where a database has none, the update decides, which compares the fence once more.

A settlement that is retried because its answer was lost may find its own outcome. Then it is accepted, not stale.

What was accepted is counted, in the same transaction.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

from sqlalchemy import Connection, Select, select

from sloppyjobs.domain.model import Settlement
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import all_changed, cursor_of
from sloppyjobs.storage.jobs import settlement_sql
from sloppyjobs.storage.jobs.followups import Edge, Followups, bits_of
from sloppyjobs.storage.jobs.settlement_sql import as_json
from sloppyjobs.storage.jobs.unanswered import Unanswered
from sloppyjobs.storage.ports.claims import ClaimRequest, Fence
from sloppyjobs.storage.unavailable import StorageUnavailable

T = TypeVar("T")

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


class HeldRows:
    """Reads the rows that a fence is compared with."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def by_id(self, connection: Connection, ids: Sequence[str], *, lock: bool = True) -> list[HeldRow]:
        """The rows of these jobs, in id order, so that two writers never wait for each other in a ring."""
        key = "lock rows" if lock else "read rows"
        query = self.database.prepared(key, lambda: self._rows_by_id(lock=lock))
        given = {"ids": self.database.dialect.list_param(ids)}
        return [HeldRow(*row) for row in query.rows(cursor_of(connection), given)]

    def of_worker(self, connection: Connection, worker_id: str, held: Sequence[Fence], *, lock: bool) -> list[HeldRow]:
        """Those of these attempts that the worker still holds."""
        # A worker that has reclaimed its own job may ask for both attempts: the order must not decide.
        fences = set(held)
        found = self.by_id(connection, sorted({job_id for job_id, _ in held}), lock=lock)
        return [
            row
            for row in found
            if row.status == "processing" and row.owner == worker_id and (row.id, row.attempt) in fences
        ]

    def _rows_by_id(self, *, lock: bool) -> Select[Any]:
        c, dialect = self.database.tables.jobs.c, self.database.dialect
        query = select(c.id, c.status, c.locked_by, c.attempt_count, c.queue, c.name, c.followups)
        query = query.where(dialect.any_of(c.id, "ids")).order_by(c.id)
        return dialect.locked(query) if lock else query


class Settle:
    """Settlement of attempts: any mixture of outcomes, set-based."""

    def __init__(self, database: Database, held_rows: HeldRows, followups: Followups, unanswered: Unanswered) -> None:
        self.database = database
        self.held_rows = held_rows
        self.followups = followups
        self.unanswered = unanswered

    def settle(self, settlements: Sequence[Settlement]) -> set[str]:
        """Write what was decided; returns the ids that were accepted. All others were stale."""
        if not settlements:
            return set()
        self.database.ensure_schema()
        return self.settling(settlements, lambda c, _rerun: self.settle_in(c, settlements))

    def settle_in(self, connection: Connection, settlements: Sequence[Settlement]) -> set[str]:
        """The same inside a transaction that is open already."""
        ordered = sorted(settlements, key=lambda s: s.job_id)
        self.database.dialect.plan_by_index(connection)
        found = {row.id: row for row in self.held_rows.by_id(connection, [s.job_id for s in ordered])}
        accepted: dict[str, Settlement] = {}
        for settlement in ordered:
            if _passes(found.get(settlement.job_id), settlement):
                # Of two outcomes of one attempt in one batch, the first is the one.
                accepted.setdefault(settlement.job_id, settlement)
        if accepted:
            self._write(connection, list(accepted.values()), found)
        if len(accepted) == len(ordered) or not self.unanswered.settlements:
            return set(accepted)
        lost = self.unanswered.take(settlement for settlement in ordered if settlement.job_id not in accepted)
        return {*accepted, *self._settled_before(connection, lost)} if lost else set(accepted)

    def settling(
        self,
        settlements: Sequence[Settlement],
        work: Callable[[Connection, bool], T],
        claim: ClaimRequest | None = None,
    ) -> T:
        """As ``Database.write``, for work that settles these or claims: what may be committed unheard is remembered.

        ``work`` is told whether an earlier run of it may have been committed.
        """
        rerun = False

        def once() -> T:
            nonlocal rerun
            try:
                return self.database.write_once(lambda connection: work(connection, rerun))
            except StorageUnavailable as error:
                if error.maybe_done:
                    rerun = True
                    self.unanswered.add(settlements)
                raise

        try:
            done = self.database.retry(once)
        except Exception:
            self.unanswered.add(settlements)
            if claim is not None:
                self.unanswered.add_claim(claim)
            raise
        if self.unanswered.settlements:
            self.unanswered.forget(settlements)
        return done

    def ends_of_attempts(self, connection: Connection, ids: Sequence[str]) -> dict[tuple[str, int], tuple[Any, ...]]:
        """How the attempts of these jobs ended: by which worker, in which status, and when, in the driver's form."""
        query = self.database.prepared("ends of attempts", self._ends_of_attempts)
        found = query.rows(cursor_of(connection), {"ids": self.database.dialect.list_param(ids)})
        return {(row[0], row[1]): (row[2], row[3], row[4]) for row in found}

    def _write(self, connection: Connection, passed: Sequence[Settlement], found: Mapping[str, HeldRow]) -> None:
        """Write what has passed the fence, all of it or nothing: ``Conflict`` where a row has changed since."""
        now = self.database.now(connection)
        cursor = cursor_of(connection)
        plain = [s for s in passed if s.decision.path == _SUCCEEDED]
        others = [s for s in passed if s.decision.path != _SUCCEEDED]
        if plain:
            self.write_successes(cursor, plain, now)
        if others:
            self._write_others(cursor, others, now)
        count_settled(self.database, cursor, passed, found, now)
        held = [(s, found[s.job_id].followups) for s in passed]
        flagged = [edge for s, bits in held if bits is not None for edge in edges_taken(s, bits_of(bits))]
        if flagged:
            self.followups.after(connection, flagged)

    def write_successes(self, cursor: Any, settled: Sequence[Settlement], now: datetime) -> None:
        """The jobs, attempts and events of attempts that went well; ``Conflict`` where a job is not held any more."""
        given = as_json([settlement_sql.success(s) for s in settled])
        values = {"given": given, "now": self.database.to_driver(now)}
        changed = settlement_sql.prepared(self.database, settlement_sql.succeed_jobs).run(cursor, values)
        all_changed(changed, len(settled))
        settlement_sql.prepared(self.database, settlement_sql.close_successes).run(cursor, values)
        settlement_sql.prepared(self.database, settlement_sql.record_successes).run(cursor, values)

    def _write_others(self, cursor: Any, settled: Sequence[Settlement], now: datetime) -> None:
        moment = self.database.to_driver(now)
        given = as_json([settlement_sql.other(s, now, self.database.to_driver) for s in settled])
        statement = settlement_sql.prepared(self.database, settlement_sql.settle_jobs)
        all_changed(statement.run(cursor, {"given": given, "now": moment}), len(settled))
        given = as_json([settlement_sql.ended(s) for s in settled])
        settlement_sql.prepared(self.database, settlement_sql.close_attempts).run(
            cursor, {"given": given, "now": moment}
        )
        settlement_sql.write_paths(self.database, cursor, settled, moment)

    def _settled_before(self, connection: Connection, doubtful: Sequence[Settlement]) -> set[str]:
        """The jobs whose outcome is that of these settlements, whose answers were lost."""
        ends = self.ends_of_attempts(connection, [one.job_id for one in doubtful])
        return {
            one.job_id
            for one in doubtful
            if ends.get((one.job_id, one.attempt), ())[:2] == (one.worker_id, one.decision.attempt.value)
        }

    def _ends_of_attempts(self) -> Select[Any]:
        c = self.database.tables.attempts.c
        query = select(c.job_id, c.attempt_number, c.worker_id, c.status, c.finished_at)
        return query.where(self.database.dialect.any_of(c.job_id, "ids"))


def is_success(settlement: Settlement) -> bool:
    """Whether it went well, and its claim has said what is to be known of the job."""
    return settlement.decision.path == _SUCCEEDED and settlement.lane is not None


def is_plain(settlement: Settlement) -> bool:
    """Whether a success changes nothing but the job itself, as its claim said."""
    return settlement.followups is None and is_success(settlement)


def _passes(row: HeldRow | None, settlement: Settlement) -> bool:
    return (
        row is not None
        and row.status == "processing"
        and row.owner == settlement.worker_id
        and row.attempt == settlement.attempt
    )


def edges_taken(settlement: Settlement, bits: int) -> Iterable[Edge]:
    """The edges of a settlement, of a job on which this hangs."""
    source = Status.PROCESSING
    for target in settlement.decision.path:
        yield Edge(settlement.job_id, source, target, bits)
        source = target


# The counters of settlements, by minute, queue and name; in shards, so that workers do not wait for each other.

STATS_SHARDS = 8
COMMANDS_SHARD = STATS_SHARDS
"""Commands count in a shard that no worker uses: neither waits for the other."""


def count_settled(
    database: Database, cursor: Any, accepted: Sequence[Settlement], found: Mapping[str, HeldRow], now: datetime
) -> None:
    """Count accepted settlements of these rows."""
    _add(database, cursor, now, tally((found[s.job_id].queue, found[s.job_id].name, s) for s in accepted))


def count_plain(database: Database, cursor: Any, accepted: Sequence[Settlement], now: datetime) -> None:
    """Count accepted settlements whose claims said to which queue and name they belong."""
    _add(database, cursor, now, tally_plain(accepted))


def tally_plain(accepted: Iterable[Settlement]) -> list[dict[str, Any]]:
    """What ``count_plain`` counts."""
    return tally((*s.lane, s) for s in accepted if s.lane is not None)


def count_cancelled(database: Database, cursor: Any, lanes: Counter[tuple[str, str]], now: datetime) -> None:
    """Count jobs that a command has cancelled, by queue and name."""
    zero = {"succeeded": 0, "failed": 0, "dead": 0, "run_seconds": 0.0}
    counted = [
        {"queue": queue, "name": name, "shard": COMMANDS_SHARD, **zero, "cancelled": number}
        for (queue, name), number in sorted(lanes.items(), key=repr)
    ]
    _add(database, cursor, now, counted)


def _add(database: Database, cursor: Any, now: datetime, rows: Sequence[Mapping[str, Any]]) -> None:
    minute = database.to_driver(now.replace(second=0, microsecond=0))
    statement = database.prepared("count", database.dialect.count_up)
    statement.many(cursor, [{"minute": minute, **row} for row in rows])


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
