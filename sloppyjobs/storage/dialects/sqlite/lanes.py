"""Lanes on SQLite, in one statement for all of them: a step of the driver costs more than a probe of the index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    ScalarSelect,
    Select,
    Text,
    bindparam,
    literal_column,
    select,
)
from sqlalchemy import func as sql

from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.jobs.lanes import Head, Lane, Lanes, claim_order, is_limited

DEEPER = 8
"""How many times as many jobs of a lane are read, once all that were read of it are among the first."""

_NAME, _QUEUE, _PRIORITY, _RUN_AT, _CREATED_AT, _FOLLOWUPS = map(
    rows.CLAIM_FIELDS.index, ("name", "queue", "priority", "run_at", "created_at", "followups")
)
_ONE: ColumnElement[int] = literal_column("1")
_EMPTY: ColumnElement[str] = literal_column("''")


class SqliteLanes(Lanes):
    """Looks for lanes, and for the first jobs of many lanes, by single statements."""

    def open_lanes(
        self, connection: Connection, queues: Collection[str] | None, names: Collection[str] | None
    ) -> list[Lane]:
        """One statement, which jumps along the claim index."""
        paused = self._paused_queues(connection)
        if queues is None:
            query, given = self.database.prepared("all lanes", self._all_lanes), {}
        else:
            query, given = self.database.prepared("lanes of queues", self._lanes_of), {"queues": _as_json([*{*queues}])}
        found = query.rows(cursor_of(connection), given)
        return [(queue, name) for queue, name in found if queue not in paused and (names is None or name in names)]

    def heads_of(self, cursor: Any, lanes: Sequence[Lane], moment: Any, most: int) -> list[Head]:
        """With their rows: nobody else can change them before this transaction has ended."""
        if len(lanes) == 1:
            return self.whole_heads(cursor, lanes[0], moment, most)
        try:
            found = self._first_rows(cursor, lanes, moment, most)
            return [Head(row[0], is_limited(row[_FOLLOWUPS]), row) for row in found]
        except Exception as error:
            # A damaged row has to be read by itself, so by its id.
            if not self.dialect.is_unreadable(error):
                raise
            return super().heads_of(cursor, lanes, moment, most)

    def _first_rows(self, cursor: Any, lanes: Sequence[Lane], moment: Any, most: int) -> list[Any]:
        """The rows of the first jobs of several lanes.

        A few jobs of each at first: two, and twice its share. More only of a lane whose jobs are all among the first.
        """
        query = self.database.prepared("heads of lanes", self._heads_of_lanes)
        few, left = min(2 + 2 * most // len(lanes), most), lanes
        found: list[Any] = []
        while left:
            read = query.rows(cursor, {"lanes": _as_json(left), "now": moment, "few": few, "most": most})
            found = sorted(found + read, key=_claim_place)[:most]
            if few == most:
                break
            number = Counter((row[_QUEUE], row[_NAME]) for row in found)
            left = [lane for lane in left if number[lane] >= few]
            if left:
                again = set(left)
                found = [row for row in found if (row[_QUEUE], row[_NAME]) not in again]
                few = min(few * DEEPER, most)
        return found

    # Statements

    def _all_lanes(self) -> Select[Any]:
        c = self.tables.jobs.c
        queues = select(self._next_in(c.queue).label("queue")).cte("queues", recursive=True)
        beyond = self._next_in(c.queue, after=queues.c.queue)
        return self._lanes_in(queues.union_all(select(beyond).where(queues.c.queue.is_not(None))))

    def _lanes_of(self) -> Select[Any]:
        each = sql.json_each(bindparam("queues")).table_valued("value")
        return self._lanes_in(select(each.c.value.label("queue")).cte("queues"))

    def _lanes_in(self, queues: CTE) -> Select[Any]:
        c = self.tables.jobs.c
        first = self._next_in(c.name, c.queue == queues.c.queue)
        lanes = select(queues.c.queue, first.label("name")).where(queues.c.queue.is_not(None))
        found = lanes.cte("lanes", recursive=True)
        beyond = self._next_in(c.name, c.queue == found.c.queue, after=found.c.name)
        found = found.union_all(select(found.c.queue, beyond).where(found.c.name.is_not(None)))
        return select(found.c.queue, found.c.name).where(found.c.name.is_not(None))

    def _next_in(
        self, column: ColumnElement[str], *where: ColumnElement[bool], after: ColumnElement[str] = _EMPTY
    ) -> ScalarSelect[str]:
        """The next value of a column of queued jobs; none where there is no more."""
        query = select(column).where(self._queued, *where, column > after).order_by(column).limit(_ONE)
        return query.correlate_except(self.tables.jobs).scalar_subquery()

    def _heads_of_lanes(self) -> Select[Any]:
        lane = self.dialect.given_rows("lanes", {"queue": Text(), "name": Text()})
        first, head = self.tables.jobs.alias("first"), self.tables.jobs.alias("head")
        of_lane = (first.c.queue == lane.c.queue, first.c.name == lane.c.name, first.c.run_at <= bindparam("now"))
        some: Select[Any] = select(literal_column("first.rowid")).select_from(first).where(self._queued, *of_lane)
        some = some.order_by(*claim_order(first)).limit(bindparam("few")).correlate(lane)
        heads: Select[Any] = select(literal_column("head.rowid").label("place"))
        heads = heads.select_from(lane.join(head, literal_column("head.rowid").in_(some)))
        chosen = heads.order_by(*claim_order(head)).limit(bindparam("most")).subquery("chosen")
        job = self.tables.jobs.alias("job")
        query = select(*(job.c[name] for name in rows.CLAIM_FIELDS))
        return query.select_from(chosen.join(job, literal_column("job.rowid") == chosen.c.place))


def _claim_place(row: Sequence[Any]) -> tuple[Any, ...]:
    return -row[_PRIORITY], row[_RUN_AT], row[_CREATED_AT], row[0]


def _as_json(values: Sequence[Any]) -> str:
    return msgspec.json.encode(values).decode()
