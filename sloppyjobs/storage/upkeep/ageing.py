"""Ageing: in queues that ask for it, jobs that wait rise in priority, a bounded number at a time.

The priority in the row is the one by which claims go, so that their index serves; the one that the job was enqueued
with is kept beside it. Queues that do not ask for it cost nothing.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, literal_column, select, update

from sloppyjobs.domain.ageing import Ageing
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.admin.audit import Audit
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs.insert import Insert
from sloppyjobs.storage.ports.operators import Command
from sloppyjobs.storage.reads.keyset import Scan
from sloppyjobs.storage.upkeep.retention import Retention

CHUNK = 500
"""Jobs that one transaction raises."""


class PriorityAgeing:
    """Which queues age, and the sweep that does it."""

    def __init__(self, database: Database, retention: Retention, audit: Audit, inserts: Insert) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.retention = retention
        self.audit = audit
        self.inserts = inserts

    def get(self, queue: str) -> Ageing | None:
        """How a queue ages; None where it does not."""
        return self._queues().get(queue)

    def set(self, queue: str, ageing: Ageing | None, command: Command) -> None:
        """Let a queue age, or no more; audited."""
        self.database.ensure_schema()
        queues = self.tables.queues

        def work(connection: Connection) -> None:
            now = self.database.now(connection)
            self.inserts.add_queues(cursor_of(connection), [queue], self.database.to_driver(now))
            every, most = (None, None) if ageing is None else ageing
            values = {"ageing_seconds": every, "ageing_most": most}
            connection.execute(update(queues).where(queues.c.name == queue).values(values))
            self.audit.write(connection, command, "queue", queue, {"every": every, "most": most})

        self.database.write(work)

    def raise_priorities(self, limit: int) -> int:
        """Raise queued jobs by their age, from where the last call stopped, up to ``limit``; how many it was."""
        ageing = self._queues()
        if not ageing:
            return 0
        c = self.tables.jobs.c
        queued: ColumnElement[bool] = literal_column(self.tables.style.in_list(Status.QUEUED))
        scan = Scan((queued,), (c.created_at, c.id), ((c.queue, lambda given: given.in_(sorted(ageing))),))
        keys, _ = self.retention.continue_scan("ageing", scan, limit)
        ids = [key[-1] for key in keys]
        chunks = [ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK)]
        return sum(self.database.write(lambda conn, chunk=chunk: self._raise(conn, chunk, ageing)) for chunk in chunks)  # type: ignore[misc]

    def _raise(self, connection: Connection, ids: list[str], ageing: dict[str, Ageing]) -> int:
        jobs, now = self.tables.jobs, self.database.now(connection)
        c = jobs.c
        query = select(c.id, c.queue, c.priority, c.base_priority, c.run_at).where(c.id.in_(ids), c.status == "queued")
        steps: dict[tuple[int, int], list[str]] = defaultdict(list)
        for row in connection.execute(self.dialect.locked(query.order_by(c.id), skip=True)):
            wanted = _aged(row, ageing.get(row.queue), now)
            if wanted > row.priority:
                steps[row.priority, wanted].append(row.id)
        raised = 0
        for (before, after), group in sorted(steps.items()):
            same = (c.id.in_(sorted(group)), c.status == "queued", c.priority == before)
            values = {"priority": after, "base_priority": func.coalesce(c.base_priority, before)}
            raised += connection.execute(update(jobs).where(*same).values(values)).rowcount
        return raised

    def _queues(self) -> dict[str, Ageing]:
        c = self.tables.queues.c
        query = select(c.name, c.ageing_seconds, c.ageing_most).where(c.ageing_seconds.is_not(None))
        return self.database.read(
            lambda connection: {row[0]: Ageing(float(row[1]), int(row[2] or 0)) for row in connection.execute(query)}
        )


def _aged(row: Any, ageing: Ageing | None, now: datetime) -> int:
    base: int = row.priority if row.base_priority is None else row.base_priority
    if ageing is None:
        return base
    return base + min(ageing.most, int((now - row.run_at).total_seconds() // ageing.every))
