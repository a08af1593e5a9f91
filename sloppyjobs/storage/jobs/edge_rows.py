"""The rows of edges and of the children at their ends: statements that are compiled once and take lists of ids.

A worker that drains graphs runs them at every turn, with hundreds of ids in each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, bindparam, case, func, literal_column, or_, select, update

from sloppyjobs.domain.dependencies import EdgeState
from sloppyjobs.domain.followups import Followup
from sloppyjobs.domain.states import Status, WaitingFor
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import Prepared, all_changed, cursor_of
from sloppyjobs.storage.jobs import settlement_sql
from sloppyjobs.storage.jobs.followups import Edge, bits_of
from sloppyjobs.storage.jobs.settlement_sql import as_json
from sloppyjobs.storage.schema.instants import Instant

CHUNK = 1000
"""Ids in one statement."""

_OPEN: ColumnElement[int] = literal_column(str(int(EdgeState.OPEN)))
_WAITING: ColumnElement[str] = literal_column("'waiting'")
_TARGETS = {False: Status.QUEUED, True: Status.SCHEDULED}
_JOBS = WaitingFor.JOBS.value
_OPEN_STATE, _MET_STATE, _FAILED_STATE = map(int, EdgeState)
_NO_MORE = ~int(Followup.DEPENDANTS | Followup.PARENTS | Followup.ANY_PARENT)


class OpenEdge(NamedTuple):
    """An edge that is not decided."""

    child_id: str
    parent_id: str
    needs: str
    result_test: str | None


class WaitingChild(NamedTuple):
    """A job that waits for others, under its row's lock."""

    id: str
    attempt_count: int
    bits: int
    later: bool
    """Whether it is not due yet."""


class Awaiting(NamedTuple):
    """The children of parents that have succeeded."""

    found: bool
    """Whether there are edges to decide."""
    ready: list[WaitingChild]
    """Those of which every edge is met then."""
    others: list[WaitingChild]
    numbers: Mapping[str, Mapping[int, int]]
    """How many edges of the others are in which state then."""


class EdgeRows:
    """Reads and writes the edges of parents that end, and lets children start."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables

    def open_edges(self, connection: Connection, parents: Sequence[str]) -> list[OpenEdge]:
        """The edges of these parents that are open."""
        query = self.database.prepared("open edges", self._open_edges)
        cursor, found = cursor_of(connection), list[tuple[Any, ...]]()
        for ids in chunks(parents):
            found += query.rows(cursor, {"ids": self.dialect.list_param(ids)})
        return [OpenEdge(*row) for row in found]

    def decide(self, connection: Connection, parents: Sequence[str], state: EdgeState) -> None:
        """Write the same state to all edges of these parents that are open."""
        statement = self.database.prepared("decide edges", self._decide_edges)
        self._each(statement, connection, parents, {"decided": int(state)})

    def touch(self, connection: Connection, children: Sequence[str]) -> None:
        """Write to the rows of children that wait, in id order, so that others who decide about them wait for us."""
        if self.dialect.one_writer:
            return
        self._each(self.database.prepared("touch children", self._touch_children), connection, children)

    def waiting(self, connection: Connection, children: Sequence[str], now: datetime) -> list[WaitingChild]:
        """Those of these jobs that wait for others; all rows are locked in id order."""
        query = self.database.prepared("waiting children", self._waiting_children)
        values = {"ids": self.dialect.list_param(children), "now": self.database.to_driver(now)}
        return [
            WaitingChild(id, attempts, bits_of(bits), bool(later))
            for id, status, reason, attempts, bits, later in query.rows(cursor_of(connection), values)
            if _waits(status, reason)
        ]

    def awaiting(self, connection: Connection, parents: Sequence[str], now: datetime) -> Awaiting | None:
        """The children whose edges to these parents, which have succeeded, are open; all by one look.

        None where an edge asks for more than success. Only for databases with one writer: nothing is locked.
        """
        query = self.database.prepared("awaiting children", self._awaiting_children)
        values = {"ids": self.dialect.list_param(parents), "now": self.database.to_driver(now)}
        found = query.rows(cursor_of(connection), values)
        if any(row[0] for row in found):
            return None
        ready, others, numbers = [], [], {}
        for _, met, still_open, failed, id, status, reason, attempts, bits, later in found:
            if not _waits(status, reason):
                continue
            child = WaitingChild(id, attempts, bits_of(bits), bool(later))
            if still_open == met and not failed:
                ready.append(child)
            else:
                others.append(child)
                numbers[id] = {_OPEN_STATE: still_open - met, _MET_STATE: met, _FAILED_STATE: failed}
        return Awaiting(bool(found), ready, others, numbers)

    def numbers(self, connection: Connection, children: Sequence[str]) -> dict[str, dict[int, int]]:
        """How many edges of each of these jobs are in which state."""
        query = self.database.prepared("edges by state", self._edges_by_state)
        found: dict[str, dict[int, int]] = defaultdict(dict)
        for child, state, number in query.rows(cursor_of(connection), {"ids": self.dialect.list_param(children)}):
            found[child][state] = number
        return found

    def start(self, connection: Connection, ready: Sequence[WaitingChild], now: datetime) -> list[Edge]:
        """Let these start; ``Conflict`` where one does not wait any more.

        The transitions of those on which more hangs than other jobs.
        """
        cursor, moment = cursor_of(connection), self.database.to_driver(now)
        words = {later: target.value for later, target in _TARGETS.items()}
        given = as_json([(one.id, one.attempt_count, words[one.later]) for one in ready])
        statement = settlement_sql.prepared(self.database, settlement_sql.start_jobs)
        all_changed(statement.run(cursor, {"given": given, "now": moment}), len(ready))
        record = settlement_sql.prepared(self.database, settlement_sql.record_unblocked)
        for later, target in words.items():
            if ids := [(one.id,) for one in ready if one.later is later]:
                record.run(cursor, {"given": as_json(ids), "now": moment, "to_status": target})
        if not all(one.later for one in ready):
            self.dialect.announce(connection)
        return [Edge(one.id, Status.WAITING, _TARGETS[one.later], one.bits) for one in ready if one.bits & _NO_MORE]

    def _each(
        self, statement: Prepared, connection: Connection, ids: Sequence[str], values: Mapping[str, Any] | None = None
    ) -> None:
        cursor = cursor_of(connection)
        for some in chunks(ids):
            statement.run(cursor, {"ids": self.dialect.list_param(some), **(values or {})})

    # Statements

    def _open_edges(self) -> Select[Any]:
        c = self.tables.dependencies.c
        query = select(c.child_id, c.parent_id, c.needs, c.result_test)
        return query.where(self.dialect.any_of(c.parent_id, "ids"), c.state == _OPEN)

    def _decide_edges(self) -> Any:
        table = self.tables.dependencies
        which = (self.dialect.any_of(table.c.parent_id, "ids"), table.c.state == _OPEN)
        return update(table).where(*which).values(state=bindparam("decided"))

    def _touch_children(self) -> Any:
        jobs = self.tables.jobs
        mine = (self.dialect.any_of(jobs.c.id, "ids"), jobs.c.status == _WAITING)
        return update(jobs).where(*mine).values(updated_at=jobs.c.updated_at)

    def _waiting_children(self) -> Select[Any]:
        c = self.tables.jobs.c
        query = select(*self._child_columns()).where(self.dialect.any_of(c.id, "ids"))
        return self.dialect.locked(query.order_by(c.id))

    def _child_columns(self) -> tuple[ColumnElement[Any], ...]:
        c = self.tables.jobs.c
        later = case((c.run_at > bindparam("now", type_=Instant()), literal_column("1")), else_=literal_column("0"))
        return c.id, c.status, c.waiting_for, c.attempt_count, c.followups, later

    def _awaiting_children(self) -> Select[Any]:
        """The edges of the parents by child, beside all edges of the child."""
        jobs, edges, ours = self.tables.jobs, self.tables.dependencies, self.tables.dependencies.alias("ours")
        asks = or_(ours.c.needs == literal_column("'failure'"), ours.c.result_test.is_not(None))
        by_child = (
            select(ours.c.child_id, func.max(_number(asks)).label("asks"), func.count().label("met"))
            .where(self.dialect.any_of(ours.c.parent_id, "ids"), ours.c.state == _OPEN)
            .group_by(ours.c.child_id)
            .subquery("by_child")
        )
        is_open, has_failed = edges.c.state == _OPEN, edges.c.state == literal_column(str(_FAILED_STATE))
        counted = (
            select(*by_child.c, func.sum(_number(is_open)).label("open"), func.sum(_number(has_failed)).label("failed"))
            .where(edges.c.child_id == by_child.c.child_id)
            .group_by(by_child.c.child_id)
            .subquery("counted")
        )
        query = select(counted.c.asks, counted.c.met, counted.c.open, counted.c.failed, *self._child_columns())
        return query.where(jobs.c.id == counted.c.child_id)

    def _edges_by_state(self) -> Select[Any]:
        c = self.tables.dependencies.c
        query = select(c.child_id, c.state, func.count()).where(self.dialect.any_of(c.child_id, "ids"))
        return query.group_by(c.child_id, c.state)


def _waits(status: Any, reason: Any) -> bool:
    # Before schema version 13 there was nothing else to wait for.
    return bool(status == "waiting" and (reason is None or reason == _JOBS))


def _number(condition: ColumnElement[bool]) -> ColumnElement[Any]:
    return case((condition, literal_column("1")), else_=literal_column("0"))


def chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """The ids, as many at a time as one statement takes."""
    for start in range(0, len(ids), CHUNK):
        yield ids[start : start + CHUNK]
