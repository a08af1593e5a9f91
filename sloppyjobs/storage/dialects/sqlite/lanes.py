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
from sloppyjobs.storage.jobs.lanes import Head, Lane, Lanes, claim_order, in_order, is_limited

DEEPER = 8
"""How many times as many jobs of a lane are read, once all that were read of it are among the first."""

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
        """Of a single lane the whole rows: nobody else can change them before this transaction has ended.

        Of several, a few jobs of each at first: two, and twice its share. More only of a lane whose jobs are all among
        the first.
        """
        if len(lanes) == 1:
            return self.whole_heads(cursor, lanes[0], moment, most)
        few, left = 2 + 2 * most // len(lanes), lanes
        found: list[Any] = []
        while True:
            read = self._some_of_each(cursor, left, moment, min(few, most), most)
            found = in_order(found + read)[:most]
            if few >= most:
                break
            number = Counter((queue, name) for *_, queue, name in found)
            left = [lane for lane in left if number[lane] >= few]
            if not left:
                break
            again = set(left)
            found = [head for head in found if (head[-2], head[-1]) not in again]
            few *= DEEPER
        return [Head(id, is_limited(bits)) for *_, id, bits, _, _ in found]

    def _some_of_each(self, cursor: Any, lanes: Sequence[Lane], moment: Any, few: int, most: int) -> list[Any]:
        query = self.database.prepared("heads of lanes", self._heads_of_lanes)
        return query.rows(cursor, {"lanes": _as_json(lanes), "now": moment, "few": few, "most": most})

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
        c = head.c
        query = select(-c.priority, c.run_at, c.created_at, c.id, c.followups, lane.c.queue, lane.c.name)
        query = query.select_from(lane.join(head, literal_column("head.rowid").in_(some)))
        return query.order_by(*claim_order(head)).limit(bindparam("most"))


def _as_json(values: Sequence[Any]) -> str:
    return msgspec.json.encode(values).decode()
