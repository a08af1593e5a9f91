"""Leases: an attempt is a worker's own while it keeps extending its lease."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, bindparam, update

from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs.settle import HeldRows
from sloppyjobs.storage.ports.claims import Fence


class Leases:
    """What a worker does with attempts that it holds, each fenced."""

    def __init__(self, database: Database, held_rows: HeldRows) -> None:
        self.database = database
        self.held_rows = held_rows

    def renew(self, worker_id: str, held: Sequence[Fence], lease: float) -> dict[Fence, datetime]:
        """Extend the leases that are still the worker's; returns the new ends of those."""
        if not held:
            return {}
        self.database.ensure_schema()
        return self.database.write(lambda c: self._renew(c, worker_id, held, lease))

    def still_held(self, worker_id: str, held: Sequence[Fence]) -> set[Fence]:
        """Which of these attempts are still the worker's; a cancelled or lost one is not."""
        if not held:
            return set()
        return self.database.read(
            lambda c: {(row.id, row.attempt) for row in self.held_rows.of_worker(c, worker_id, held, lock=False)}
        )

    def set_progress(
        self, worker_id: str, fence: Fence, percent: float | None, message: str | None, fields: str | None = None
    ) -> bool:
        """Store how far a running job is, ``fields`` as JSON; False when the attempt is not the worker's any more."""

        def work(connection: Connection) -> bool:
            held = self.held_rows.of_worker(connection, worker_id, [fence], lock=True)
            jobs = self.database.tables.jobs
            values = {"progress_percent": percent, "progress_message": message, "progress_fields": fields}
            for row in held:
                mine = (jobs.c.id == row.id, jobs.c.locked_by == worker_id, jobs.c.attempt_count == row.attempt)
                connection.execute(update(jobs).where(*mine).values(values))
            return bool(held)

        return self.database.write(work)

    def _renew(
        self, connection: Connection, worker_id: str, held: Sequence[Fence], lease: float
    ) -> dict[Fence, datetime]:
        until = self.database.now(connection) + timedelta(seconds=lease)
        ours = self.held_rows.of_worker(connection, worker_id, held, lock=True)
        moment = self.database.to_driver(until)
        self.database.prepared("renew lease", self._renew_lease).many(
            cursor_of(connection),
            [{"job": row.id, "worker": worker_id, "attempt": row.attempt, "until": moment} for row in ours],
        )
        return {(row.id, row.attempt): until for row in ours}

    def _renew_lease(self) -> Any:
        jobs = self.database.tables.jobs
        # The fence once more: where rows are read without locks, the job may have ended since.
        held = (jobs.c.locked_by == bindparam("worker"), jobs.c.attempt_count == bindparam("attempt"))
        return update(jobs).where(jobs.c.id == bindparam("job"), *held).values(locked_until=bindparam("until"))
