"""What belongs to one job (attempts, events, logs), and the small tables that are read whole, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, select

from sloppyjobs.domain.model import Attempt, Event, Job
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.jobs.lookup import possible_id, unknown
from sloppyjobs.storage.ports.reads import Key, LogLine, WorkerRow
from sloppyjobs.storage.ports.records import LockRecord, QueueRecord
from sloppyjobs.storage.reads.keyset import Scan, scan_after


class History:
    """Keyset pages of attempts, events, logs, workers, locks and queues. Each asks for one row more than shown."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.tables = database.tables

    def job_name(self, job_id: str) -> str:
        """The name of the job with this id, or ``UnknownJob``."""
        known: Job | None = self.database.seen().get(("job", possible_id(job_id)))
        if known is not None:
            return known.name
        self.database.ensure_schema()
        jobs = self.tables.jobs
        query = select(jobs.c.name).where(jobs.c.id == possible_id(job_id))
        name: str | None = self.database.read(lambda c: c.execute(query).scalar_one_or_none())
        if name is None:
            raise unknown(job_id)
        return name

    def job_attempts(self, job_id: str, after: Key | None, *, backward: bool, limit: int) -> list[Attempt]:
        """A job's attempts beyond a number."""
        table = self.tables.attempts
        scan = Scan((table.c.job_id == job_id,), (table.c.attempt_number,))
        query = select(*rows.columns(table, rows.ATTEMPT_FIELDS))
        return [rows.attempt(row) for row in self._page(query, scan, after, backward, limit)]

    def job_events(self, job_id: str, after: Key | None, *, backward: bool, limit: int) -> list[Event]:
        """A job's events beyond a number."""
        table = self.tables.events
        scan = Scan((table.c.job_id == job_id,), (table.c.id,))
        query = select(*rows.columns(table, rows.EVENT_FIELDS))
        return [rows.event(row) for row in self._page(query, scan, after, backward, limit)]

    def job_logs(self, job_id: str, after: Key | None, *, backward: bool, limit: int) -> list[LogLine]:
        """A job's log lines beyond a number."""
        table = self.tables.logs
        scan = Scan((table.c.job_id == job_id,), (table.c.id,))
        query = select(*rows.columns(table, LogLine._fields))
        return [LogLine._make(row) for row in self._page(query, scan, after, backward, limit)]

    def lock_rows(self, after: Key | None, *, backward: bool, limit: int) -> list[LockRecord]:
        """Locks by name."""
        table = self.tables.locks
        query = select(*rows.columns(table, LockRecord._fields))
        return [LockRecord._make(row) for row in self._page(query, Scan((), (table.c.name,)), after, backward, limit)]

    def queue_rows(
        self, scope: Sequence[str] | None, after: Key | None, *, backward: bool, limit: int
    ) -> list[QueueRecord]:
        """Queues by name."""
        table = self.tables.queues
        where = () if scope is None else (table.c.name.in_(scope),)
        query = select(*rows.columns(table, QueueRecord._fields))
        return [
            QueueRecord._make(row) for row in self._page(query, Scan(where, (table.c.name,)), after, backward, limit)
        ]

    def worker_rows(self, after: Key | None, *, backward: bool, limit: int) -> list[WorkerRow]:
        """Workers, those heard of last first."""
        table = self.tables.workers
        scan = Scan((), (table.c.heartbeat_at, table.c.id))
        query = select(*rows.columns(table, WorkerRow._fields))
        return [WorkerRow._make(row) for row in self._page(query, scan, after, not backward, limit)]

    def _page(
        self, query: Select[Any], scan: Scan, after: Key | None, descending: bool, limit: int
    ) -> Sequence[Row[Any]]:
        self.database.ensure_schema()
        narrowed = scan_after(self.database.dialect, query, scan, after, descending).limit(limit)

        def work(connection: Connection) -> Sequence[Row[Any]]:
            return self.database.bounded(connection).execute(narrowed).all()

        return self.database.read(work)
