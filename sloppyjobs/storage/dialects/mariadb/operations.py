"""The hot operations on MariaDB and MySQL: few round trips, and no statement reads more rows than it changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Select

from sloppyjobs.domain.model import Job, NewJob, Settlement
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.conflicts import all_changed
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialects.mariadb import statements
from sloppyjobs.storage.dialects.mariadb.prepared import with_list
from sloppyjobs.storage.dialects.mariadb.turns import SideBySideTurns
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.jobs.claim import Claims
from sloppyjobs.storage.jobs.insert import Insert
from sloppyjobs.storage.jobs.lanes import Head, Lane, Lanes, is_limited
from sloppyjobs.storage.jobs.new_rows import NewRows
from sloppyjobs.storage.jobs.permits import Permits
from sloppyjobs.storage.jobs.settle import Settle
from sloppyjobs.storage.jobs.settlement_sql import as_json
from sloppyjobs.storage.jobs.unanswered import Unanswered
from sloppyjobs.storage.operations import Operations
from sloppyjobs.storage.ports.claims import Fence, Turns

LONGEST = 2_000_000
"""Characters of payloads in one statement. Written as JSON and then as SQL a character takes up to eight bytes, and a
server's default for a statement is 16 MiB."""

WHOLE_HEADS = 1000
"""Jobs of a lane that are read whole when they are locked."""

ALIKE = 4
"""Successes of one owner, number and result that are worth statements of their own."""

_FOLLOWUPS = rows.CLAIM_FIELDS.index("followups")


class MariaDbInsert(Insert):
    """Columns in which jobs differ travel as JSON, the others once."""

    def insert_rows(self, connection: Connection, new: Sequence[NewJob], now: datetime) -> list[Job]:
        """All of them in two statements, unless they are too long for that."""
        if len(new) > 1 and sum(len(job.payload) for job in new) > LONGEST:
            half = len(new) // 2
            first = self.insert_rows(connection, new[:half], now)
            return first + self.insert_rows(connection, new[half:], now + half * self.database.step)
        cursor, made = cursor_of(connection), NewRows(new, now, self.database.step)
        shared, own = made.values(self.database.to_driver)
        self.add_queues(cursor, made.queues(), self.database.to_driver(now))
        if len(new) == 1:
            shared |= {name: values[0] for name, values in own.items()}
            inserts = statements.insert_one(self.tables)
        else:
            shared["new"] = msgspec.json.encode(list(zip(*own.values(), strict=True))).decode()
            inserts = statements.insert_given(self.tables, tuple(own))
        for statement in inserts:
            cursor.execute(statement, shared)
        if Status.QUEUED in made.statuses:
            self.dialect.announce(connection)
        return made.jobs()


class MariaDbSettle(Settle):
    """Successes that are alike, which most are, are settled without a join."""

    @cached_property
    def _sql(self) -> statements.SuccessStatements:
        return statements.success_statements(self.database.tables)

    def write_successes(self, cursor: Any, settled: Sequence[Settlement], now: datetime) -> None:
        """Three statements for each group of one owner, number of attempt and result."""
        alike: dict[Any, list[Settlement]] = defaultdict(list)
        for one in settled:
            alike[one.worker_id, one.attempt, one.decision.result].append(one)
        few = [one for group in alike.values() if len(group) < ALIKE for one in group]
        if few:
            super().write_successes(cursor, few, now)
        for (owner, attempt, result), group in alike.items():
            if len(group) >= ALIKE:
                values = {
                    "given": as_json([(one.job_id, attempt, one.run_seconds) for one in group]),
                    "owner": owner,
                    "attempt": attempt,
                    "result": result,
                    "now": self.database.to_driver(now),
                }
                ids = [one.job_id for one in group]
                all_changed(_with_ids(cursor, self._sql.succeed, ids, values), len(group))
                cursor.execute(self._sql.close, values)
                cursor.execute(self._sql.record, values)


class MariaDbLanes(Lanes):
    """Lanes whose heads are found, and locked, along the claim index whatever the statistics say."""

    def heads(self, *columns: ColumnElement[Any]) -> Select[Any]:
        """With a hint."""
        jobs = self.tables.jobs
        return super().heads(*columns).with_hint(jobs, f"FORCE INDEX (ix_{jobs.name}_claim)")

    def heads_of(self, cursor: Any, lanes: Sequence[Lane], moment: Any, most: int) -> list[Head]:
        """Of a single lane the rows are read as they are locked: InnoDB keeps others from them until we commit.

        Of several lanes, or in search of jobs for which there is room, more would be read than is taken. A damaged row
        has to be read by itself, so by its id.
        """
        if len(lanes) == 1 and most <= WHOLE_HEADS:
            try:
                return self._whole_heads(cursor, lanes[0], moment, most)
            except Exception as error:
                if not self.dialect.is_unreadable(error):
                    raise
        return super().heads_of(cursor, lanes, moment, most)

    def _whole_heads(self, cursor: Any, lane: Lane, moment: Any, most: int) -> list[Head]:
        jobs = self.tables.jobs
        query = self.database.prepared(
            "whole heads of lane", lambda: self.heads(*rows.columns(jobs, rows.CLAIM_FIELDS))
        )
        found = query.rows(cursor, {"of_queue": lane[0], "of_name": lane[1], "now": moment, "most": most})
        return [Head(row[0], is_limited(row[_FOLLOWUPS]), row) for row in found]


class MariaDbClaims(Claims):
    """Jobs are taken by primary key, and attempts and events inserted from the rows of the jobs themselves."""

    def __init__(
        self, database: Database, _lanes: Lanes, settlement: Settle, unanswered: Unanswered, permits: Permits
    ) -> None:
        super().__init__(database, MariaDbLanes(database), settlement, unanswered, permits)

    def claimed_at(self, connection: Connection, now: datetime) -> datetime:  # noqa: ARG002
        """By the clock now: a row that was locked may have come back, from a lease that expired, since it was read."""
        return self.database.now(connection)

    def turns(self) -> Turns:
        """Side by side."""
        return SideBySideTurns(self.settlement.settle, self.claim)

    @cached_property
    def _sql(self) -> statements.ClaimStatements:
        return statements.claim_statements(self.tables)

    def take(self, cursor: Any, values: Mapping[str, Any]) -> int:
        """By primary key."""
        return _with_ids(cursor, self._sql.take, values["ids"], values)

    def open_attempts(self, cursor: Any, worker_id: str, taken: Sequence[Fence], moment: Any) -> None:
        """Two statements, whatever their number."""
        if taken:
            ids, values = [id for id, _ in taken], {"worker": worker_id, "now": moment}
            _with_ids(cursor, self._sql.open_attempts, ids, values)
            _with_ids(cursor, self._sql.record_claims, ids, values)


def _with_ids(cursor: Any, statement: str, ids: Sequence[str], values: Mapping[str, Any]) -> int:
    sql, given = with_list(statement, "%(ids)s", ids)
    changed: int = cursor.execute(sql, {**values, "ids": given})
    return changed


OPERATIONS = Operations(insert=MariaDbInsert, settle=MariaDbSettle, claims=MariaDbClaims)
