"""The hot operations on MariaDB and MySQL: few round trips, and no statement reads more rows than it changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Select

from sloppyjobs.domain.model import Job, NewJob, Settlement
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialects.mariadb import statements
from sloppyjobs.storage.dialects.mariadb.prepared import with_json, with_list
from sloppyjobs.storage.dialects.mariadb.turns import SideBySideTurns
from sloppyjobs.storage.driver import all_changed, cursor_of
from sloppyjobs.storage.jobs import settle
from sloppyjobs.storage.jobs.claim import Claims
from sloppyjobs.storage.jobs.insert import Insert
from sloppyjobs.storage.jobs.lanes import Head, Lane, Lanes
from sloppyjobs.storage.jobs.new_rows import NewRows
from sloppyjobs.storage.jobs.permits import Permits
from sloppyjobs.storage.jobs.settle import Settle, is_plain
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
MANY_ALIKE = 32
"""Such successes of plain jobs that are worth a transaction of their own."""


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
    """Successes that are alike, which most are, are settled without a join; plain ones without reading their rows."""

    @cached_property
    def _sql(self) -> statements.SuccessStatements:
        return statements.success_statements(self.database.tables, plain=False)

    @cached_property
    def _plain_sql(self) -> statements.SuccessStatements:
        return statements.success_statements(self.database.tables, plain=True)

    def settle(self, settlements: Sequence[Settlement]) -> set[str]:
        """Plain successes that are alike in a transaction of their own, which locks rows in id order; then the rest."""
        alike = max(_groups(filter(is_plain, settlements)).values(), key=len, default=[])
        if len(alike) < MANY_ALIKE:
            return super().settle(settlements)
        self.database.ensure_schema()
        try:
            accepted = self.settling(alike, lambda c, rerun: self._settle_plain(c, alike, rerun=rerun))
            if len(alike) < len(settlements):
                ids = {one.job_id for one in alike}
                accepted |= super().settle([one for one in settlements if one.job_id not in ids])
        except Exception:
            self.unanswered.add(settlements)
            raise
        return accepted

    def _settle_plain(self, connection: Connection, alike: Sequence[Settlement], *, rerun: bool) -> set[str]:
        """The update compares the fence. Where it changes fewer rows it is undone, and they are looked at first."""
        ids = {one.job_id for one in alike}
        if rerun or len(ids) < len(alike):
            return self.settle_in(connection, alike)
        cursor, now = cursor_of(connection), self.database.now(connection)
        cursor.execute("SAVEPOINT plain")
        if self._succeed(cursor, self._plain_sql, alike, now) < len(alike):
            cursor.execute("ROLLBACK TO SAVEPOINT plain")
            return self.settle_in(connection, alike)
        settle.count_plain(self.database, cursor, alike, now)
        return ids

    def write_successes(self, cursor: Any, settled: Sequence[Settlement], now: datetime) -> None:
        """Three statements for each group of one owner, number of attempt and result."""
        groups = _groups(settled)
        few = [one for group in groups.values() if len(group) < ALIKE for one in group]
        if few:
            super().write_successes(cursor, few, now)
        for group in groups.values():
            if len(group) >= ALIKE:
                all_changed(self._succeed(cursor, self._sql, group, now), len(group))

    def _succeed(
        self, cursor: Any, sql: statements.SuccessStatements, alike: Sequence[Settlement], now: datetime
    ) -> int:
        """Settle a group; how many jobs were changed. Nothing but jobs is written where some were not."""
        one, ids = alike[0], [one.job_id for one in alike]
        values = {"owner": one.worker_id, "attempt": one.attempt, "now": self.database.to_driver(now)}
        changed = _with_ids(cursor, sql.succeed, ids, {**values, "result": one.decision.result})
        if changed == len(alike):
            _with_json(cursor, sql.close, "times", [(one.job_id, one.run_seconds) for one in alike], values)
            _with_json(cursor, sql.record, "keys", ids, values)
        return changed


def _groups(settlements: Iterable[Settlement]) -> Mapping[Any, list[Settlement]]:
    """By owner, number of attempt and result."""
    groups: dict[Any, list[Settlement]] = defaultdict(list)
    for one in settlements:
        groups[one.worker_id, one.attempt, one.decision.result].append(one)
    return groups


class MariaDbLanes(Lanes):
    """Lanes whose heads are found, and locked, along the claim index whatever the statistics say."""

    def heads(self, *columns: ColumnElement[Any]) -> Select[Any]:
        """With a hint."""
        jobs = self.tables.jobs
        return super().heads(*columns).with_hint(jobs, f"FORCE INDEX (ix_{jobs.name}_claim)")

    def heads_of(self, cursor: Any, lanes: Sequence[Lane], moment: Any, most: int) -> list[Head]:
        """Of a single lane the rows are read as they are locked: InnoDB keeps others from them until we commit.

        Of several lanes, or in search of jobs for which there is room, more would be read than is taken.
        """
        if len(lanes) == 1 and most <= WHOLE_HEADS:
            return self.whole_heads(cursor, lanes[0], moment, most)
        return super().heads_of(cursor, lanes, moment, most)


class MariaDbClaims(Claims):
    """Jobs are taken by primary key, and attempts and events inserted from the rows of the jobs themselves."""

    def __init__(
        self, database: Database, _lanes: Lanes, settlement: Settle, unanswered: Unanswered, permits: Permits
    ) -> None:
        super().__init__(database, MariaDbLanes(database), settlement, unanswered, permits)

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
        """Two statements for each number of attempts, which mostly is one."""
        by_number: dict[int, list[str]] = defaultdict(list)
        for id, number in taken:
            by_number[number].append(id)
        for number, ids in by_number.items():
            values = {"worker": worker_id, "now": moment, "attempt": number}
            _with_json(cursor, self._sql.open_attempts, "keys", ids, values)
            _with_json(cursor, self._sql.record_claims, "keys", ids, values)


def _with_ids(cursor: Any, statement: str, ids: Sequence[str], values: Mapping[str, Any]) -> int:
    sql, given = with_list(statement, "%(ids)s", ids)
    changed: int = cursor.execute(sql, {**values, "ids": given})
    return changed


def _with_json(cursor: Any, statement: str, name: str, rows: Sequence[Any], values: Mapping[str, Any]) -> None:
    sql, given = with_json(statement, f"%({name})s", as_json(rows))
    cursor.execute(sql, {**values, name: given})


OPERATIONS = Operations(insert=MariaDbInsert, settle=MariaDbSettle, claims=MariaDbClaims)
