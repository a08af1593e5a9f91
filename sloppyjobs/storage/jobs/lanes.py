"""Lanes of queued jobs, one for each queue and name, and what stands first in them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, FromClause, Select, bindparam, literal_column, null, select

from sloppyjobs.domain.followups import Followup
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import Prepared, cursor_of
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.schema.tables import Tables

Lane = tuple[str, str]
"""A queue and a name."""

_NAME, _QUEUE, _FOLLOWUPS = map(rows.CLAIM_FIELDS.index, ("name", "queue", "followups"))


class Head(NamedTuple):
    """A job that a claim may take."""

    id: str
    limited: bool
    """Whether it needs a permit."""
    row: list[Any] | None = None
    """Its columns that a claim reads, where it is locked and they were read with it."""


class Lanes:
    """Looks for the jobs that a claim may take."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self._queued = status_in(database.tables, "queued")
        self.moment: ColumnElement[Any] = bindparam("now")
        """When jobs must be due to be found."""

    def open_lanes(
        self, connection: Connection, queues: Collection[str] | None, names: Collection[str] | None
    ) -> list[Lane]:
        """The lanes that hold queued jobs of these queues and names, None for all: one index probe for each lane."""
        cursor = cursor_of(connection)
        paused = self._paused_queues(connection)
        wanted = self._queues_with_jobs(cursor) if queues is None else queues
        lanes = [(queue, name) for queue in wanted for name in self._names_with_jobs(cursor, queue)]
        return self.claimable(lanes, paused, names)

    def claimable(self, lanes: Sequence[Lane], paused: Set[str], names: Collection[str] | None) -> list[Lane]:
        """Those that are neither paused nor of other names."""
        return [(queue, name) for queue, name in lanes if queue not in paused and (names is None or name in names)]

    def heads_of(self, cursor: Any, lanes: Sequence[Lane], moment: Any, most: int) -> list[Head]:
        """The first jobs of these lanes that are due, in the order of the claim."""
        heads = self.heads_statement()
        found = [
            head
            for queue, name in lanes
            for head in heads.rows(cursor, {"of_queue": queue, "of_name": name, "now": moment, "most": most})
        ]
        return [Head(id, is_limited(bits)) for *_, id, bits in _in_order(found)[:most]]

    def whole_heads(self, cursor: Any, lane: Lane, moment: Any, most: int) -> list[Head]:
        """The first jobs of a lane with their rows, for where nobody can change these until they are taken.

        A damaged row has to be read by itself, so by its id.
        """
        query = self.database.prepared("whole heads of lane", self.whole_heads_query)
        try:
            found: list[Any] = query.rows(
                cursor, {"of_queue": lane[0], "of_name": lane[1], "now": moment, "most": most}
            )
            return with_rows(lane, found)
        except Exception as error:
            if not self.dialect.is_unreadable(error):
                raise
            return Lanes.heads_of(self, cursor, [lane], moment, most)

    def heads_statement(self) -> Prepared:
        """The statement that finds the first jobs of a lane, in the order of the claim."""
        return self.database.prepared("heads of lane", self.heads_query)

    def _queues_with_jobs(self, cursor: Any) -> Iterator[str]:
        step = self.database.prepared("next queue", self._next_queue)
        found = step.rows(cursor, {"after_queue": ""})
        while found:
            yield found[0][0]
            found = step.rows(cursor, {"after_queue": found[0][0]})

    def _names_with_jobs(self, cursor: Any, queue: str) -> Iterator[str]:
        step = self.database.prepared("next name", self._next_name)
        found = step.rows(cursor, {"of_queue": queue, "after_name": ""})
        while found:
            yield found[0][0]
            found = step.rows(cursor, {"of_queue": queue, "after_name": found[0][0]})

    def _paused_queues(self, connection: Connection) -> set[str]:
        paused = self.database.prepared("paused queues", self._paused).rows(cursor_of(connection), {})
        return self.still_paused(connection, paused)

    def still_paused(self, connection: Connection, paused: Sequence[Sequence[Any]]) -> set[str]:
        """Of queues, and until when they are paused, those that are; the clock is asked only where there are any."""
        if not paused:
            return set()
        now = self.database.now(connection)
        return {name for name, until in paused if until is None or (self.database.from_driver(until) or now) > now}

    # Queue first, then name: SQLite and MariaDB do not seek to a pair of values, they read everything up to it.

    def _next_queue(self) -> Select[Any]:
        c = self.tables.jobs.c
        query = select(c.queue).where(self._queued, c.queue > bindparam("after_queue"))
        return self.dialect.first(query.order_by(c.queue))

    def _next_name(self) -> Select[Any]:
        c = self.tables.jobs.c
        query = select(c.name).where(self._queued, c.queue == bindparam("of_queue"), c.name > bindparam("after_name"))
        return self.dialect.first(query.order_by(c.name))

    def _paused(self) -> Select[Any]:
        c = self.tables.queues.c
        return select(c.name, c.paused_until).where(c.paused_at.is_not(None))

    def heads_query(self) -> Select[Any]:
        """The same as a query, which locks what it finds."""
        c = self.tables.jobs.c
        return self.heads(-c.priority, c.run_at, c.created_at, c.id, c.followups)

    def heads(self, *columns: ColumnElement[Any]) -> Select[Any]:
        """These columns of the first jobs of a lane."""
        c = self.tables.jobs.c
        query = select(*columns).where(
            self._queued,
            c.queue == bindparam("of_queue"),
            c.name == bindparam("of_name"),
            c.run_at <= self.moment,
        )
        query = query.order_by(*claim_order(self.tables.jobs)).limit(bindparam("most"))
        return self.dialect.locked(query, skip=True)

    def whole_heads_query(self) -> Select[Any]:
        """Without what is known: the lane, and what a claim writes."""
        columns = zip(rows.CLAIM_FIELDS, rows.columns(self.tables.jobs, rows.CLAIM_FIELDS), strict=True)
        known = ("queue", "name", "updated_at", "locked_until")
        return self.heads(*(null().label(name) if name in known else column for name, column in columns))


def with_rows(lane: Lane, found: Sequence[list[Any]]) -> list[Head]:
    """The heads of a lane, of rows by ``whole_heads_query``."""
    for row in found:
        row[_QUEUE], row[_NAME] = lane
    return [Head(row[0], is_limited(row[_FOLLOWUPS]), row) for row in found]


def claim_order(jobs: FromClause) -> tuple[ColumnElement[Any], ...]:
    """The order in which queued jobs are claimed."""
    return jobs.c.priority.desc(), jobs.c.run_at, jobs.c.created_at, jobs.c.id


def status_in(tables: Tables, *statuses: str) -> ColumnElement[bool]:
    """A condition with the statuses in its text, so that a prepared plan can use the partial indexes."""
    return literal_column(tables.style.status_in(*statuses))


_PERMIT = int(Followup.PERMIT)


def is_limited(bits: Any) -> bool:
    return isinstance(bits, int) and bool(bits & _PERMIT)


def _in_order(heads: list[Any]) -> list[Any]:
    """Heads of lanes, (-priority, run_at, created_at, id, …), in the order of the claim."""
    try:
        return sorted(heads)
    except TypeError:
        # Among them is a damaged row, with bytes where the others have text.
        return sorted(heads, key=lambda head: tuple(map(str, head)))
