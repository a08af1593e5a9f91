"""The hot operations on MariaDB and MySQL: few round trips, and no statement reads more rows than it changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import count
from typing import Any

import msgspec
from sqlalchemy import Connection

from sloppyjobs.domain.model import Claim, Job, NewJob, Settlement, Terms
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialects.mariadb import blocks, statements
from sloppyjobs.storage.dialects.mariadb.blocks import takes_blocks
from sloppyjobs.storage.dialects.mariadb.lanes import WHOLE_HEADS, MariaDbLanes
from sloppyjobs.storage.dialects.mariadb.prepared import with_json, with_list
from sloppyjobs.storage.dialects.mariadb.turns import SideBySideTurns
from sloppyjobs.storage.driver import all_changed, cursor_of
from sloppyjobs.storage.jobs import settle
from sloppyjobs.storage.jobs.claim import ATTEMPT, Claims, SeenRows, Taken, queues_of, seen_rows
from sloppyjobs.storage.jobs.insert import Insert
from sloppyjobs.storage.jobs.lanes import Head, Lane, Lanes
from sloppyjobs.storage.jobs.new_rows import NewRows, due_at_once
from sloppyjobs.storage.jobs.permits import Permits
from sloppyjobs.storage.jobs.settle import Settle, is_plain
from sloppyjobs.storage.jobs.settlement_sql import as_json
from sloppyjobs.storage.jobs.unanswered import Unanswered
from sloppyjobs.storage.jobs.unread_claims import UnreadClaims
from sloppyjobs.storage.operations import Operations
from sloppyjobs.storage.ports.claims import ClaimRequest, Fence, Turns

LONGEST = 2_000_000
"""Characters of payloads in one statement. Written as JSON and then as SQL a character takes up to eight bytes, and a
server's default for a statement is 16 MiB."""

ALIKE = 4
"""Successes of one owner, number and result that are worth statements of their own."""
MANY_ALIKE = 32
"""Such successes of plain jobs that are worth a transaction of their own."""


_UNKNOWN = datetime(2000, 1, 1, tzinfo=UTC)
"""Stands for a moment that the server knows."""


class MariaDbInsert(Insert):
    """Columns in which jobs differ travel as JSON, the others once."""

    def insert_jobs(self, new: Sequence[NewJob], connection: Connection | None = None) -> list[Job]:
        """A plain job in one round trip and a commit, where the server can."""
        if connection is None and len(new) == 1 and _is_plain_new(new[0].terms):
            self.database.ensure_schema()
            if takes_blocks(self.database):
                runs = count()
                return self.database.write(
                    lambda c: self.insert_all(c, new, rerun=True) if next(runs) else self._insert_by_block(c, new)
                )
        return super().insert_jobs(new, connection)

    def _insert_by_block(self, connection: Connection, new: Sequence[NewJob]) -> list[Job]:
        """A job by the server's clock, unless a test has another."""
        now, step = self.database.injected_now(), self.database.step
        shared, own = NewRows(new, now or _UNKNOWN, step).values(self.database.to_driver)
        values = shared | {name: given[0] for name, given in own.items()}
        values["now"] = None if now is None else self.database.to_driver(now)
        ((row,),) = blocks.execute(cursor_of(connection), blocks.insert_one(self.tables), values)
        self.dialect.announce(connection)
        return NewRows(new, self.database.by_clock(row[0]), step).jobs()

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


def _is_plain_new(terms: Terms) -> bool:
    """Whether a new job is due at once, and nothing but its row and its event is written for it."""
    more = (terms.idempotency_key, terms.expires, terms.tags, terms.batch_id)
    return due_at_once(terms) and all(value is None for value in more)


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
        if takes_blocks(self.database):
            return ids if self._settled_by_block(cursor_of(connection), alike) else self.settle_in(connection, alike)
        cursor, now = cursor_of(connection), self.database.now(connection)
        cursor.execute("SAVEPOINT plain")
        if self._succeed(cursor, self._plain_sql, alike, now) < len(alike):
            cursor.execute("ROLLBACK TO SAVEPOINT plain")
            return self.settle_in(connection, alike)
        settle.count_plain(self.database, cursor, alike, now)
        return ids

    def _settled_by_block(self, cursor: Any, alike: Sequence[Settlement]) -> bool:
        """The same in one round trip; whether it was done."""
        one, ids = alike[0], [one.job_id for one in alike]
        now = self.database.injected_now()
        values = {
            "now": None if now is None else self.database.to_driver(now),
            "owner": one.worker_id,
            "attempt": one.attempt,
            "result": one.decision.result,
            "meant": len(ids),
        }
        block = blocks.fill(
            blocks.settle_and_count(self.database.tables),
            values,
            lists={"ids": ids},
            times=[(one.job_id, one.run_seconds) for one in alike],
            counts=blocks.counter_rows(settle.tally_plain(alike)),
        )
        changed: int = blocks.execute(cursor, block, values)[0][0][0]
        return changed == len(ids)

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


class MariaDbClaims(Claims):
    """Jobs are taken by primary key, and attempts and events inserted from the rows of the jobs themselves."""

    def __init__(
        self, database: Database, _lanes: Lanes, settlement: Settle, unanswered: Unanswered, permits: Permits
    ) -> None:
        self.heads = MariaDbLanes(database)
        super().__init__(database, self.heads, settlement, unanswered, permits)

    def turns(self) -> Turns:
        """Side by side."""
        return SideBySideTurns(self.settlement.settle, self._claim_unread)

    def _claim_unread(self, request: ClaimRequest) -> Sequence[Claim]:
        """As ``claim``; a worker reads them when the next claim is under way."""
        self.database.ensure_schema()
        return self.turn((), request)[1]

    @cached_property
    def _sql(self) -> statements.ClaimStatements:
        return statements.claim_statements(self.tables)

    def lanes_before(self, request: ClaimRequest) -> list[Lane]:
        """The lane that was the only one the last time, if there was one: the claim itself looks for others."""
        lane = self.heads.expected(queues_of(request), request.names) if takes_blocks(self.database) else None
        return super().lanes_before(request) if lane is None else [lane]

    def claim_lanes(self, connection: Connection, request: ClaimRequest, lanes: Sequence[Lane], depth: int) -> Taken:
        """Two round trips for a lane of plain jobs, where the server can: what is first in it, and all that follows."""
        if len(lanes) != 1 or depth > WHOLE_HEADS or not takes_blocks(self.database):
            return super().claim_lanes(connection, request, lanes, depth)
        cursor, now = cursor_of(connection), self.database.injected_now()
        moment = None if now is None else self.database.to_driver(now)
        if lanes[0] == self.heads.expected(queues_of(request), request.names):
            heads = self.heads.of_only(cursor, lanes[0], queues_of(request), moment, depth)
        else:
            heads = self.heads.heads_of(cursor, lanes, moment, depth)
        if heads is None:
            return super().claim_lanes(connection, request, self.lanes_for(connection, request), depth)
        chosen = heads[: request.limit]
        numbers = {None if head.row is None else head.row[ATTEMPT] for head in chosen}
        if len(numbers) == 1 and None not in numbers and not any(head.limited for head in heads):
            return self._take_alike(connection, request, chosen, moment)
        return super().claim_lanes(connection, request, lanes, depth) if heads else Taken([])

    def _take_alike(self, connection: Connection, request: ClaimRequest, heads: Sequence[Head], moment: Any) -> Taken:
        """Take jobs whose rows were read and have as many attempts each, and open the next ones."""
        cursor, chosen, seen = cursor_of(connection), [head.id for head in heads], seen_rows(heads)
        values = {
            "now": moment,
            "lease": timedelta(seconds=request.lease) // timedelta(microseconds=1),
            "worker": request.worker_id,
            "attempt": seen[chosen[0]][ATTEMPT] + 1,
            "meant": len(chosen),
        }
        block = blocks.fill(blocks.take_and_open(self.tables), values, lists={"ids": chosen}, keys=chosen)
        (((moment, until, changed),),) = blocks.execute(cursor, block, values)
        taken = {"ids": chosen, "worker": request.worker_id, "now": moment, "until": until}
        if changed == len(chosen):
            return Taken(UnreadClaims(len(chosen), lambda: self._read(chosen, seen, taken)))
        chosen = self.left_to_us(cursor, chosen, frozenset(), taken)
        claims = self.open_claims(connection, chosen, seen, taken) if chosen else []
        return Taken(claims, again=not claims)

    def _read(self, ids: Sequence[str], seen: SeenRows, taken: Mapping[str, Any]) -> list[Claim]:
        """The claims of jobs that were taken, when that is committed; damaged ones cost a second look."""
        try:
            return self.claims_seen(ids, seen, taken)
        except Exception as error:
            if not self.dialect.is_unreadable(error):
                raise
        return self.database.read(lambda connection: self.claims_of(connection, ids, {}, taken))

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
