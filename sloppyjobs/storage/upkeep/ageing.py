"""Ageing: in queues that ask for it, jobs that wait rise in priority, a bounded number at a time.

The priority in the row is the one by which claims go, so that their index serves; the one that the job was enqueued
with is kept beside it. Queues that do not ask for it cost nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, func, literal_column, select, update

from sloppyjobs.domain.ageing import Ageing
from sloppyjobs.domain.states import Status, WaitingFor
from sloppyjobs.storage.admin.audit import Audit
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs.insert import Insert
from sloppyjobs.storage.ports.operators import Command
from sloppyjobs.storage.reads.keyset import Scan
from sloppyjobs.storage.upkeep.retention import Retention

CHUNK = 500
"""Jobs that one transaction raises."""

_State = tuple[Status, WaitingFor | None]
_QUEUED: _State = (Status.QUEUED, None)
_PARKED: _State = (Status.WAITING, WaitingFor.PERMIT)
"""In a line for a permit. The place there is that of the priority: both move together."""


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
        self.database.ensure_schema()
        return self._queues().get(queue)

    def set(self, queue: str, ageing: Ageing | None, command: Command) -> None:
        """Let a queue age, or no more; audited."""
        self.database.ensure_schema()
        queues = self.tables.queues

        def work(connection: Connection) -> None:
            now = self.database.now(connection)
            self.inserts.add_queues(cursor_of(connection), [queue], self.database.to_driver(now))
            every, most = (None, None) if ageing is None else ageing
            values = {"ageing_seconds": every, "ageing_most": most, "ageing_vanished_at": None}
            connection.execute(update(queues).where(queues.c.name == queue).values(values))
            self.audit.write(connection, command, "queue", queue, {"every": every, "most": most})

        self.database.write(work)

    def declare(self, queue: str, ageing: Ageing, application: str | None) -> None:
        """Write how code lets a queue age, unless it said the same before."""
        self.database.ensure_schema()
        said = msgspec.json.encode(ageing).decode()
        queues = self.tables.queues
        c = queues.c

        def work(connection: Connection) -> None:
            now = self.database.to_driver(self.database.now(connection))
            self.inserts.add_queues(cursor_of(connection), [queue], now)
            query = select(c.ageing_declared_as, c.ageing_application, c.ageing_vanished_at).where(c.name == queue)
            before = connection.execute(self.dialect.locked(query)).one()
            if tuple(before) == (said, application, None):
                # Nothing new: a start of a worker writes nothing.
                return
            values: dict[str, Any] = {"ageing_declared_as": said, "ageing_application": application}
            values["ageing_vanished_at"] = None
            if before.ageing_declared_as != said:
                values |= {"ageing_seconds": ageing.every, "ageing_most": ageing.most}
            connection.execute(update(queues).where(c.name == queue).values(values))

        self.database.write(work)

    def mark_vanished(self, queues: Collection[str], application: str | None) -> list[str]:
        """End the ageing that this application declared for queues not among these; which these were."""
        self.database.ensure_schema()
        c = self.tables.queues.c
        ours = c.ageing_application.is_(None) if application is None else c.ageing_application == application
        query = select(c.name).where(c.ageing_declared_as.is_not(None), c.ageing_vanished_at.is_(None), ours)

        def work(connection: Connection) -> list[str]:
            gone = sorted(set(connection.execute(query).scalars()) - set(queues))
            now = self.database.now(connection)
            for name in gone:
                same = (c.name == name, c.ageing_vanished_at.is_(None))
                connection.execute(update(self.tables.queues).where(*same).values(ageing_vanished_at=now))
            return gone

        return self.database.write(work)

    # The sweep

    def raise_priorities(self, limit: int) -> int:
        """Raise jobs by their age, from where the last call stopped, up to ``limit`` of each kind; how many it was."""
        ageing = self._queues()
        if not ageing:
            return 0
        c, parked = self.tables.jobs.c, self.tables.parked.c
        queued: ColumnElement[bool] = literal_column(self.tables.style.in_list(Status.QUEUED))
        scan = Scan((queued,), (c.created_at, c.id), ((c.queue, lambda given: given.in_(sorted(ageing))),))
        keys, _ = self.retention.continue_scan("ageing", scan, limit)
        in_line, _ = self.retention.continue_scan("ageing of parked", Scan((), (parked.job_id,)), limit)
        return self._raise_all(_QUEUED, [key[-1] for key in keys], ageing) + self._raise_all(
            _PARKED, [key[0] for key in in_line], ageing
        )

    def _raise_all(self, state: _State, ids: list[str], ageing: dict[str, Ageing]) -> int:
        chunks = [ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK)]
        writes = [lambda connection, chunk=chunk: self._raise(connection, state, chunk, ageing) for chunk in chunks]
        return sum(self.database.write(write) for write in writes)

    def _raise(self, connection: Connection, state: _State, ids: list[str], ageing: dict[str, Ageing]) -> int:
        jobs, now = self.tables.jobs, self.database.now(connection)
        c = jobs.c
        status, waiting_for = state
        there = (c.status == status.value, *(() if waiting_for is None else (c.waiting_for == waiting_for.value,)))
        query = select(c.id, c.queue, c.priority, c.base_priority, c.run_at).where(c.id.in_(ids), *there)
        steps: dict[tuple[int, int], list[str]] = defaultdict(list)
        for row in connection.execute(self.dialect.locked(query.order_by(c.id), skip=True)):
            wanted = _aged(row, ageing.get(row.queue), now)
            if wanted > row.priority:
                steps[row.priority, wanted].append(row.id)
        raised = 0
        for (before, after), group in sorted(steps.items()):
            same = (c.id.in_(sorted(group)), *there, c.priority == before)
            values = {"priority": after, "base_priority": func.coalesce(c.base_priority, before)}
            raised += connection.execute(update(jobs).where(*same).values(values)).rowcount
            if state is _PARKED:
                self._move_up(connection, group, before, after)
        return raised

    def _move_up(self, connection: Connection, ids: list[str], before: int, after: int) -> None:
        """Give jobs the places in their lines that their new priority has; their rows are locked."""
        parked = self.tables.parked
        same = (parked.c.job_id.in_(sorted(ids)), parked.c.released == literal_column("0"), parked.c.place == -before)
        connection.execute(update(parked).where(*same).values(place=-after))

    def _queues(self) -> dict[str, Ageing]:
        c = self.tables.queues.c
        ages = (c.ageing_seconds.is_not(None), c.ageing_vanished_at.is_(None))
        query = select(c.name, c.ageing_seconds, c.ageing_most).where(*ages)
        return self.database.read(
            lambda connection: {row[0]: Ageing(float(row[1]), int(row[2] or 0)) for row in connection.execute(query)}
        )


def _aged(row: Any, ageing: Ageing | None, now: datetime) -> int:
    base: int = row.priority if row.base_priority is None else row.base_priority
    if ageing is None:
        return base
    return base + min(ageing.most, int((now - row.run_at).total_seconds() // ageing.every))
