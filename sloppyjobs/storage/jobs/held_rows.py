"""The rows of running jobs, locked by primary key in id order, and whose they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, select

from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.ports.claims import Fence


class HeldRow(NamedTuple):
    """What the fence is compared with, and what the counters need."""

    id: str
    status: str
    owner: str | None
    attempt: int
    queue: str
    name: str
    followups: int | None


class HeldRows:
    """Reads the rows that a fence is compared with."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def by_id(self, connection: Connection, ids: Sequence[str], *, lock: bool = True) -> list[HeldRow]:
        """The rows of these jobs, in id order, so that two writers never wait for each other in a ring."""
        key = "lock rows" if lock else "read rows"
        query = self.database.prepared(key, lambda: self._rows_by_id(lock=lock))
        given = {"ids": self.database.dialect.list_param(ids)}
        return [HeldRow(*row) for row in query.rows(cursor_of(connection), given)]

    def of_worker(self, connection: Connection, worker_id: str, held: Sequence[Fence], *, lock: bool) -> list[HeldRow]:
        """Those of these attempts that the worker still holds."""
        # A worker that has reclaimed its own job may ask for both attempts: the order must not decide.
        fences = set(held)
        found = self.by_id(connection, sorted({job_id for job_id, _ in held}), lock=lock)
        return [
            row
            for row in found
            if row.status == "processing" and row.owner == worker_id and (row.id, row.attempt) in fences
        ]

    def _rows_by_id(self, *, lock: bool) -> Select[Any]:
        c, dialect = self.database.tables.jobs.c, self.database.dialect
        query = select(c.id, c.status, c.locked_by, c.attempt_count, c.queue, c.name, c.followups)
        query = query.where(dialect.any_of(c.id, "ids")).order_by(c.id)
        return dialect.locked(query) if lock else query
