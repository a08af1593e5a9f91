"""Lanes on MariaDB and MySQL: heads are read as they are locked, and not searched for among what was just claimed."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, bindparam, func

from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialects.mariadb import blocks
from sloppyjobs.storage.dialects.mariadb.prepared import JsonRows
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.jobs.lanes import Head, Lane, Lanes, with_rows
from sloppyjobs.storage.jobs.settlement_sql import as_json

WHOLE_HEADS = 1000
"""Jobs of a lane that are read whole when they are locked."""

MANY_HEADS = 100
"""Jobs in one claim after which the next one begins where it ended."""
RESUMED_SECONDS = 0.2
"""For how long claims go on like that before one begins at the beginning. Jobs that have come back stand there, and
those of a long transaction; those of a higher priority are found at once."""

_PLACE = {name: rows.CLAIM_FIELDS.index(name) for name in ("priority", "run_at", "created_at", "id")}
"""What the claim index goes by in a lane, and where a row has it."""


class Mark(NamedTuple):
    """Where a claim of many jobs ended: what it took is deleted from the index, but has yet to be purged."""

    lane: Lane
    place: Mapping[str, Any]
    until: float
    """By the monotonic clock."""


class MariaDbLanes(Lanes):
    """Lanes whose heads are found, and locked, along the claim index whatever the statistics say."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        # Who gives no moment is content with the server's own.
        self.moment = func.coalesce(self.moment, database.clock_column())
        self._only: Lane | None = None
        self._mark: Mark | None = None

    def open_lanes(
        self, connection: Connection, queues: Collection[str] | None, names: Collection[str] | None
    ) -> list[Lane]:
        """All of them in one round trip, where the server can."""
        if not blocks.takes_blocks(self.database):
            return super().open_lanes(connection, queues, names)
        given = None if queues is None else as_json(list(queues))
        block = blocks.open_lanes(self.tables)
        paused, ((found,),) = blocks.execute(cursor_of(connection), block, {"queues": given})
        lanes = [(queue, name) for queue, name in msgspec.json.decode(f"[{found[1:]}]")]
        self._only = lanes[0] if len(lanes) == 1 else None
        return self.claimable(lanes, self.still_paused(connection, paused), names)

    def expected(self, queues: Collection[str] | None, names: Collection[str] | None) -> Lane | None:
        """The lane that was the only one when somebody looked last, if these queues and names include it."""
        lane = self._only
        if lane is None or (queues is not None and lane[0] not in queues):
            return None
        return lane if names is None or lane[1] in names else None

    def of_only(
        self, cursor: Any, lane: Lane, queues: Collection[str] | None, moment: Any, most: int
    ) -> list[Head] | None:
        """The heads of a lane in one round trip; None if there are others, its queue is paused, or a row is damaged."""
        others = tuple(queue for queue in queues or () if queue != lane[0])
        values = {"of_queue": lane[0], "of_name": lane[1], "now": moment, "most": most, "others": others or (None,)}
        mark, self._mark = self._mark, None
        if mark is not None and mark.lane == lane and mark.until > time.monotonic() and most >= MANY_HEADS:
            resumed = self._only_heads(queues is None, mark, cursor, values)
            if resumed is not None and len(resumed) == most:
                self._mark = self._ended(lane, resumed, mark.until)
                return resumed
        heads = self._only_heads(queues is None, None, cursor, values)
        if not heads:
            self._only = None
        elif len(heads) == most >= MANY_HEADS:
            self._mark = self._ended(lane, heads, time.monotonic() + RESUMED_SECONDS)
        return heads

    @staticmethod
    def _ended(lane: Lane, heads: Sequence[Head], until: float) -> Mark | None:
        row = heads[-1].row
        return None if row is None else Mark(lane, {f"mark_{name}": row[at] for name, at in _PLACE.items()}, until)

    def _only_heads(self, every: bool, mark: Mark | None, cursor: Any, values: Mapping[str, Any]) -> list[Head] | None:
        resumed = mark is not None
        query = self.database.prepared(
            "whole heads behind a mark" if resumed else "whole heads of lane",
            lambda: self.whole_heads_query().where(self._behind_mark()) if resumed else self.whole_heads_query(),
        )
        assert isinstance(query, JsonRows)
        block = blocks.heads_of_only(self.tables, query.sql, every=every, resumed=resumed)
        given = values if mark is None else {**values, **mark.place}
        try:
            found = query.rows_in_block(cursor, block, given)
        except Exception as error:
            if not self.dialect.is_unreadable(error):
                raise
            return None
        return None if found is None else with_rows((given["of_queue"], given["of_name"]), found)

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

    def _behind_mark(self) -> ColumnElement[bool]:
        """Written out: of a comparison of rows the server makes no ranges of an index."""
        c = self.tables.jobs.c
        given: dict[str, ColumnElement[Any]] = {name: bindparam(f"mark_{name}") for name in _PLACE}
        behind = c.id > given["id"]
        for name in ("created_at", "run_at"):
            behind = (c[name] > given[name]) | ((c[name] == given[name]) & behind)
        return (c.priority < given["priority"]) | ((c.priority == given["priority"]) & behind)
