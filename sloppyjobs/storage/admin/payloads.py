"""Payloads that operators change: decided under the row's lock, written if the job is still as it was."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from sloppyjobs.domain.states import Status
from sloppyjobs.domain.stored_words import known_or
from sloppyjobs.storage.admin.audit import Audit
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import all_changed
from sloppyjobs.storage.jobs.rows import possible_id, unknown
from sloppyjobs.storage.ports.operators import Command
from sloppyjobs.storage.ports.patches import DecidePayload, StoredPayload


class Payloads:
    """Writes payloads of jobs that are there already."""

    def __init__(self, database: Database, audit: Audit) -> None:
        self.database = database
        self.dialect = database.dialect
        self.jobs = database.tables.jobs
        self.audit = audit

    def replace(self, job_id: str, decide: DecidePayload, command: Command) -> bool:
        """Write another payload; False where nothing changes."""
        self.database.ensure_schema()
        tried: list[str] = []
        return self.database.write(lambda c: self._replace(c, possible_id(job_id), decide, command, tried))

    def _replace(
        self, connection: Connection, job_id: str, decide: DecidePayload, command: Command, tried: list[str]
    ) -> bool:
        c = self.jobs.c
        columns = (c.name, c.queue, c.status, c.payload, c.payload_version, c.attempt_count)
        query = self.dialect.locked(select(*columns).where(c.id == job_id))
        row = connection.execute(query).one_or_none()
        if row is None:
            raise unknown(job_id)
        if row.payload in tried:
            # An earlier run of this transaction was committed, although nobody was told.
            return True
        stored = StoredPayload(
            job_id, row.name, row.queue, known_or(Status.FAILED, row.status), row.payload, row.payload_version
        )
        new = decide(stored)
        if new is None:
            return False
        tried.append(new.payload)
        # The condition decides, where the database has no locks: a job that has started, or another patch.
        unchanged = (c.status == row.status, c.attempt_count == row.attempt_count, c.payload == row.payload)
        # ``updated_at`` stays: it is of the last event, and this is none.
        patched = update(self.jobs).where(c.id == job_id, *unchanged).values(payload=new.payload)
        changed = connection.execute(patched).rowcount
        all_changed(changed, 1)
        self.audit.write(connection, command, "job", job_id, {"keys": list(new.keys)})
        return True
