"""The hot operations on SQLite: few, long statements, because every step of the driver costs a change of threads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from itertools import count
from typing import Any

import msgspec
from sqlalchemy import Connection

from sloppyjobs.domain.model import Job, NewJob
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialects.sqlite import statements
from sloppyjobs.storage.dialects.sqlite.kept_writer import kept_writer
from sloppyjobs.storage.dialects.sqlite.lanes import SqliteLanes
from sloppyjobs.storage.dialects.sqlite.settle import SqliteSettle
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs.claim import Claims
from sloppyjobs.storage.jobs.insert import Insert, keyed
from sloppyjobs.storage.jobs.keys import Keys
from sloppyjobs.storage.jobs.lanes import Lanes
from sloppyjobs.storage.jobs.new_rows import NewRows
from sloppyjobs.storage.jobs.permits import Permits
from sloppyjobs.storage.jobs.settle import Settle
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
            rerun = next(runs) > 0
            if not rerun:
                with writer.transaction() as cursor:
                    written = self._insert_one(cursor, new)
                if written is not None:
                    return written
            return self.database.write_once(lambda c: super(SqliteInsert, self).insert_all(c, new, rerun=rerun))

        return self.database.retry(attempt)

    def insert_all(self, connection: Connection, new: Sequence[NewJob], *, rerun: bool) -> list[Job]:
        """A plain job by three statements; in every other case by the common way."""
        written = None
        if not rerun and _is_one_plain(new):
            if keyed(new):
                # From here on nobody else writes, so that a key that is free stays free.
                self.dialect.ensure_begun(connection)
            written = self._insert_one(cursor_of(connection), new)
        return super().insert_all(connection, new, rerun=rerun) if written is None else written

    def _insert_one(self, cursor: Any, new: Sequence[NewJob]) -> list[Job] | None:
        """None where its key is taken."""
        terms = new[0].terms
        cursor.execute(self._sql.look, {"queue": terms.queue, "key": terms.idempotency_key})
        clock, queue_known, taken = cursor.fetchone()
        if taken:
            return None
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
    """Whether it is a single job, with no rows but its own."""
    terms = new[0].terms
    return len(new) == 1 and terms.batch_id is None and not terms.linked


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
