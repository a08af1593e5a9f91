"""Deaths of jobs that are dead no more: a retry or a delete adds them up by cause, queue and hour.

Nothing is written when a job dies: the dead are counted where they are. Only what leaves them is remembered here, in
the transaction in which it leaves, so that the sum of both is all deaths of a cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, func, select

from sloppyjobs.domain.causes import cause_id
from sloppyjobs.storage.database import Database, bounded_read
from sloppyjobs.storage.ports.reads import Cause, PastDeaths

HOURS = 2_400
"""Hours of one cause that are read: more than are kept."""


class Deaths:
    """The deaths of jobs that were dead and are no more."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables

    def record(self, connection: Connection, ids: Sequence[str]) -> None:
        """Add up the deaths of these jobs, which are dead and whose locks are held, before they leave."""
        rows = _summed(self._dead_rows(connection, ids))
        if rows:
            self.dialect.add_deaths(connection, rows)

    def past(
        self, connection: Connection, causes: Sequence[str], queues: Sequence[str] | None
    ) -> dict[str, PastDeaths]:
        """The deaths of each of these causes in all, of all queues or of some."""
        c = self.tables.deaths.c
        query = select(c.cause, func.sum(c.deaths), func.min(c.first_at), func.max(c.last_at))
        query = _within(query.where(c.cause.in_(causes)), c.queue, queues).group_by(c.cause)
        return {row[0]: PastDeaths(int(row[1]), row[2], row[3]) for row in connection.execute(query)} if causes else {}

    @bounded_read
    def past_by_hour(
        self, connection: Connection, cause: str, queues: Sequence[str] | None
    ) -> dict[datetime, PastDeaths]:
        """The deaths of one cause by the hour, latest hours first where there are very many."""
        c = self.tables.deaths.c
        query = select(c.hour, func.sum(c.deaths), func.min(c.first_at), func.max(c.last_at))
        query = _within(query.where(c.cause == cause), c.queue, queues).group_by(c.hour)
        found = connection.execute(query.order_by(c.hour.desc()).limit(HOURS))
        return {row[0]: PastDeaths(int(row[1]), row[2], row[3]) for row in found}

    @bounded_read
    def past_cause(self, connection: Connection, cause: str) -> Cause | None:
        """What a cause consists of, where jobs that died of it were retried or deleted."""
        c = self.tables.deaths.c
        row = connection.execute(select(c.error_type, c.error_frame, c.name).where(c.cause == cause).limit(1)).first()
        return None if row is None else (row[0], row[1], row[2])

    def _dead_rows(self, connection: Connection, ids: Sequence[str]) -> Sequence[Any]:
        c = self.tables.jobs.c
        died = func.coalesce(c.finished_at, c.updated_at).label("died")
        query = select(c.queue, c.name, c.error_type, c.error_frame, died).where(self.dialect.any_of(c.id, "ids"))
        try:
            return connection.execute(query, {"ids": self.dialect.list_param(sorted(ids))}).all()
        except Exception as error:
            # A damaged row can be commanded all the same.
            if not self.dialect.is_unreadable(error):
                raise
            return ()


def _within(query: Select[Any], queue: Any, queues: Sequence[str] | None) -> Select[Any]:
    return query if queues is None else query.where(queue.in_(queues))


def _summed(rows: Iterable[Any]) -> list[dict[str, Any]]:
    """One row for each cause, queue and hour, in the order of their keys, so that no two writers wait in a ring."""
    sums: dict[tuple[str, str, datetime], dict[str, Any]] = {}
    for row in rows:
        cause = cause_id(row.name, row.error_type, row.error_frame)
        hour = row.died.replace(minute=0, second=0, microsecond=0)
        known = sums.setdefault(
            (cause, row.queue, hour),
            {
                "cause": cause,
                "queue": row.queue,
                "hour": hour,
                "name": row.name,
                "error_type": row.error_type,
                "error_frame": row.error_frame,
                "deaths": 0,
                "first_at": row.died,
                "last_at": row.died,
            },
        )
        known["deaths"] += 1
        known["first_at"] = min(known["first_at"], row.died)
        known["last_at"] = max(known["last_at"], row.died)
    return [sums[key] for key in sorted(sums)]
