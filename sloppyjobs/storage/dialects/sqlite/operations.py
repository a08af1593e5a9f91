"""The hot operations on SQLite: few, long statements, because every step of the driver costs a change of threads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property
from itertools import count
from typing import Any

import msgspec
from sqlalchemy import Connection

from sloppyjobs.domain.model import Job, NewJob, Settlement
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialects.sqlite import statements
from sloppyjobs.storage.dialects.sqlite.kept_writer import kept_writer
from sloppyjobs.storage.dialects.sqlite.lanes import SqliteLanes
from sloppyjobs.storage.driver import all_changed, cursor_of
from sloppyjobs.storage.jobs.claim import Claims
from sloppyjobs.storage.jobs.followups import Edge, bits_of
from sloppyjobs.storage.jobs.insert import Insert
from sloppyjobs.storage.jobs.keys import Keys
from sloppyjobs.storage.jobs.lanes import Lanes
from sloppyjobs.storage.jobs.new_rows import NewRows
from sloppyjobs.storage.jobs.permits import Permits
from sloppyjobs.storage.jobs.settle import Settle, count_plain, is_success
from sloppyjobs.storage.jobs.settlement_sql import as_json
from sloppyjobs.storage.jobs.unanswered import Unanswered
from sloppyjobs.storage.operations import Operations
from sloppyjobs.storage.ports.claims import SWEEP_LIMIT, Fence, TransactionTurns


class SqliteInsert(Insert):
    """Columns in which jobs differ travel as JSON, the others once."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._kept_writer = kept_writer(database)

    @cached_property
    def _sql(self) -> statements.Statements:
        return statements.statements(self.tables)

    def insert_jobs(self, new: Sequence[NewJob], connection: Connection | None = None) -> list[Job]:
        """A plain job on a connection that is kept for this; in every other case by the common way."""
        writer = self._kept_writer
        if writer is None or connection is not None or not _is_one_plain(new):
            return super().insert_jobs(new, connection)
        self.database.ensure_schema()
        runs = count()

        def attempt() -> list[Job]:
            if next(runs) > 0:
                return self.database.write_once(lambda c: self.insert_all(c, new, rerun=True))
            with writer.transaction() as cursor:
                return self._insert_one(cursor, new)

        return self.database.retry(attempt)

    def insert_all(self, connection: Connection, new: Sequence[NewJob], *, rerun: bool) -> list[Job]:
        """A plain job by three statements; in every other case by the common way."""
        if rerun or not _is_one_plain(new):
            return super().insert_all(connection, new, rerun=rerun)
        return self._insert_one(cursor_of(connection), new)

    def _insert_one(self, cursor: Any, new: Sequence[NewJob]) -> list[Job]:
        cursor.execute(self._sql.clock_and_queue, {"queue": new[0].terms.queue})
        clock, queue_known = cursor.fetchone()
        made = NewRows(new, self.database.by_clock(clock), self.database.step)
        [row] = made.dicts(self.database.to_driver)
        if not queue_known:
            self.add_queues(cursor, made.queues(), row["created_at"])
        for statement in self._sql.insert_one:
            cursor.execute(statement, row)
        return made.jobs()

    def insert_rows(self, connection: Connection, new: Sequence[NewJob], now: datetime) -> list[Job]:
        """All of them in two statements."""
        cursor, made = cursor_of(connection), NewRows(new, now, self.database.step)
        shared, own = made.values(self.database.to_driver)
        self.add_queues(cursor, made.queues(), shared["created_at"])
        shared["new"] = msgspec.json.encode(list(zip(*own.values(), strict=True))).decode()
        for statement in statements.insert_jobs(self._sql.jobs, self._sql.events, tuple(own)):
            cursor.execute(statement, shared)
        return made.jobs()

    def write_tags(self, connection: Connection, written: Sequence[Job], now: datetime) -> None:
        """By tag, in the order of the table. All jobs of a call are created in the same instant."""
        ids: dict[str, list[str]] = defaultdict(list)
        for job in written:
            for tag in job.tags:
                ids[tag].append(job.id)
        values = {"ids": as_json(dict(sorted(ids.items()))), "now": self.database.to_driver(now)}
        cursor_of(connection).execute(self._sql.insert_tags, values)


class SqliteKeys(Keys):
    """Keys that are kept alike travel as one JSON object, by the ids of their jobs."""

    @cached_property
    def _sql(self) -> statements.Statements:
        return statements.statements(self.tables)

    def write_rows(self, cursor: Any, rows: Sequence[tuple[Any, ...]]) -> None:
        """Without a value of its own for each row, where that is possible."""
        _, _, until_start, reserved_until, now = rows[0]
        keys = {job_id: key for key, job_id, *ends in rows if ends == [until_start, reserved_until, now]}
        if len(keys) < len(rows):
            super().write_rows(cursor, rows)
            return
        values = {"keys": as_json(keys), "until_start": until_start, "reserved_until": reserved_until, "now": now}
        cursor.execute(self._sql.insert_keys, values)


def _is_one_plain(new: Sequence[NewJob]) -> bool:
    """Whether it is a single job, without a key that may be taken, and with no rows but its own."""
    terms = new[0].terms
    return len(new) == 1 and terms.idempotency_key is None and terms.batch_id is None and not terms.linked


class SqliteSettle(Settle):
    """Successes of one worker and number of attempt are settled without a join, and mostly without reading their rows.

    What differs between them travels as one JSON object, by the ids of the jobs.
    """

    @cached_property
    def _sql(self) -> statements.Statements:
        return statements.statements(self.database.tables)

    def settle_in(self, connection: Connection, settlements: Sequence[Settlement]) -> set[str]:
        """The update compares the fence, and what hangs on each job with what its claim said.

        Where it changes fewer rows it is undone, and they are looked at first.
        """
        claimed = [one for one in settlements if is_success(one)]
        ids = {one.job_id for one in settlements}
        if not claimed or len(ids) < len(settlements) or not self._settle_unread(connection, claimed):
            return super().settle_in(connection, settlements)
        if len(claimed) == len(settlements):
            return ids
        others = super().settle_in(connection, [one for one in settlements if not is_success(one)])
        return others | {one.job_id for one in claimed}

    def _settle_unread(self, connection: Connection, claimed: Sequence[Settlement]) -> bool:
        """All of them, or none."""
        cursor, now = cursor_of(connection), self.database.now(connection)
        cursor.execute("SAVEPOINT unread")
        for group in _alike(claimed):
            if self._succeed(cursor, group, now, unread=True) < len(group):
                cursor.execute("ROLLBACK TO SAVEPOINT unread")
                return False
        count_plain(self.database, cursor, claimed, now)
        if flagged := [_success(one) for one in claimed if one.followups is not None]:
            self.followups.after(connection, flagged)
        return True

    def write_successes(self, cursor: Any, settled: Sequence[Settlement], now: datetime) -> None:
        """Three statements for each worker and number of attempt."""
        for group in _alike(settled):
            all_changed(self._succeed(cursor, group, now, unread=False), len(group))

    def _succeed(self, cursor: Any, group: Sequence[Settlement], now: datetime, *, unread: bool) -> int:
        """Settle a group; how many jobs were changed. Nothing but jobs is written where some were not."""
        values = {
            "ids": as_json([one.job_id for one in group]),
            "attempt": group[0].attempt,
            "worker": group[0].worker_id,
            "followups": group[0].followups,
            "now": self.database.to_driver(now),
        }
        results = {one.job_id: one.decision.result for one in group}
        any_result = any(result is not None for result in results.values())
        if any_result:
            values["results"] = as_json(results)
        changed: int = cursor.execute(self._sql.succeed[any_result, unread], values).rowcount
        if changed == len(group):
            values["times"] = as_json({one.job_id: one.run_seconds for one in group})
            cursor.execute(self._sql.close_attempts, values)
            cursor.execute(self._sql.record_successes, values)
        return changed


def _alike(settled: Sequence[Settlement]) -> Iterable[list[Settlement]]:
    """In groups of one worker and number of attempt, on whose jobs the same hung when they were claimed."""
    groups: dict[tuple[str, int, int | None], list[Settlement]] = defaultdict(list)
    for one in settled:
        groups[one.worker_id, one.attempt, one.followups].append(one)
    return groups.values()


def _success(settlement: Settlement) -> Edge:
    return Edge(settlement.job_id, Status.PROCESSING, Status.SUCCEEDED, bits_of(settlement.followups))


class SqliteClaims(Claims):
    """Whatever their number, jobs of one number of attempts are taken in two statements after the update."""

    def __init__(
        self, database: Database, _lanes: Lanes, settlement: Settle, unanswered: Unanswered, permits: Permits
    ) -> None:
        super().__init__(database, SqliteLanes(database), settlement, unanswered, permits)

    @cached_property
    def _sql(self) -> statements.Statements:
        return statements.statements(self.tables)

    def turns(self) -> TransactionTurns:
        """A turn queues what has become due."""
        return TransactionTurns(self.turn, promotes=True)

    def promote_due(self, connection: Connection) -> bool:
        """In the turn's own transaction: a commit for the sweep alone would write the same pages once more."""
        return self.promotion.promote_in(connection, SWEEP_LIMIT) > 0

    def open_attempts(self, cursor: Any, worker_id: str, taken: Sequence[Fence], moment: Any) -> None:
        """Two statements for each number of attempts, which mostly is one."""
        by_number: dict[int, list[str]] = defaultdict(list)
        for id, number in taken:
            by_number[number].append(id)
        for number, ids in by_number.items():
            values = {"ids": self.dialect.list_param(ids), "attempt": number, "worker": worker_id, "now": moment}
            cursor.execute(self._sql.open_attempts, values)
            cursor.execute(self._sql.record_claims, values)


OPERATIONS = Operations(insert=SqliteInsert, keys=SqliteKeys, settle=SqliteSettle, claims=SqliteClaims)
