"""The hot operations on SQL Server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, insert, literal_column, select

from sloppyjobs.storage.jobs.claim import Claims
from sloppyjobs.storage.jobs.keys import Keys
from sloppyjobs.storage.operations import Operations
from sloppyjobs.storage.ports.claims import Fence


class SqlServerClaims(Claims):
    """Attempts and events are inserted from the rows of the jobs themselves."""

    def open_attempts(self, cursor: Any, worker_id: str, taken: Sequence[Fence], moment: Any) -> None:
        """Two statements, whatever their number."""
        values = {"ids": self.dialect.list_param([id for id, _ in taken]), "worker": worker_id, "now": moment}
        self.database.prepared("open attempts", self._open_attempts).run(cursor, values)
        self.database.prepared("record claims", self._record_claims).run(cursor, values)

    def _open_attempts(self) -> Any:
        attempts, c = self.tables.attempts, self.tables.jobs.c
        columns = {
            "job_id": c.id,
            "attempt_number": c.attempt_count,
            "worker_id": bindparam("worker", type_=attempts.c.worker_id.type),
            "status": literal_column("'running'"),
            "started_at": bindparam("now", type_=attempts.c.started_at.type),
        }
        return self._insert_for_taken(attempts, columns)

    def _record_claims(self) -> Any:
        events, c = self.tables.events, self.tables.jobs.c
        columns = {
            "job_id": c.id,
            "event_type": literal_column("'claimed'"),
            "from_status": literal_column("'queued'"),
            "to_status": literal_column("'processing'"),
            "attempt_number": c.attempt_count,
            "worker_id": bindparam("worker", type_=events.c.worker_id.type),
            "created_at": bindparam("now", type_=events.c.created_at.type),
        }
        return self._insert_for_taken(events, columns)

    def _insert_for_taken(self, table: Any, columns: dict[str, Any]) -> Any:
        taken = select(*columns.values()).where(self.dialect.any_of(self.tables.jobs.c.id, "ids"))
        return insert(table).from_select(list(columns), taken)


class SqlServerKeys(Keys):
    """Jobs give up their keys without waiting for others who have locked the rows."""

    def _keys_of_jobs(self) -> Any:
        # A reader waits for writers where the database reads no row versions. The jobs are locked by whoever asks; a
        # row of one of their keys that somebody else is writing names another job, or will.
        return self.dialect.locked(super()._keys_of_jobs(), skip=True)


OPERATIONS = Operations(keys=SqlServerKeys, claims=SqlServerClaims)
