"""One job by one statement, also in a transaction of the caller, by drivers that take parameters by their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC
from typing import Any

from sqlalchemy import Connection

from sloppyjobs import errors
from sloppyjobs.domain.model import Job, NewJob
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialects.postgres import statements
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.jobs.insert import INSERT_TRIES, Insert, Written
from sloppyjobs.storage.jobs.new_rows import TERMS, of_terms


class SingleInsert(Insert):
    """The job, its event, the row of a new queue and the notification go at once; several jobs by the common way."""

    def __init__(self, database: Database, *, sql: statements.Statements) -> None:
        super().__init__(database)
        self._sql = sql
        self._known_queues: set[str] = set()
        """Queues that had their row when this process last enqueued to them, if only in a caller's transaction."""

    def insert_jobs(self, new: Sequence[NewJob], connection: Connection | None = None) -> list[Job]:
        """One by one statement."""
        if len(new) > 1:
            return super().insert_jobs(new, connection)
        if connection is not None:
            self.dialect.refuse_caller(connection)
        self.database.ensure_schema(connection)
        return [self._insert_one(new[0], connection)]

    def _insert_one(self, new: NewJob, connection: Connection | None) -> Job:
        terms, values = new.terms, dict(zip(TERMS, of_terms(new.terms), strict=True))
        values |= {"id": new.id, "payload": new.payload, "now": self.database.injected_now()}
        values |= {"run_at": terms.run_at, "delay": terms.delay or 0.0}
        # The upsert of the queue's row costs even when the row exists.
        known = new.terms.queue in self._known_queues
        statement = self._sql.insert_in_known if known else self._sql.insert_one
        for _ in range(INSERT_TRIES):
            row = self._on_cursor(lambda cursor: self._first_row(cursor, statement, values), connection)
            if row is not None:
                return self._inserted(new, row, connection)
            # A key or an id matched, and the other transaction has ended by now: only a new statement sees its row.
            # The id is random, so it is that of an earlier run of this statement, whose answer was lost.
            found = self.database.read(lambda c: self.holders(c, [new], ids=True), connection)
            if found:
                return Written([], found).answers([new])[0]
        raise errors.JobsError(f"the job that has the key {new.terms.idempotency_key!r} cannot be found; try again")

    def _inserted(self, new: NewJob, row: Any, connection: Connection | None) -> Job:
        status, run_at, created_at = Status(row[0]), row[1], row[2]
        if created_at.tzinfo is not UTC:
            run_at, created_at = run_at.astimezone(UTC), created_at.astimezone(UTC)
        queue, has_row = new.terms.queue, row[3]
        if not has_row:
            self._on_cursor(lambda cursor: self.add_queues(cursor, {queue}, created_at), connection)
        # A caller's transaction may take its row back; whoever counts on the row looks whether it is there.
        self._known_queues.add(queue)
        return rows.as_written(new, status, run_at, created_at)

    def _on_cursor(self, work: Callable[[Any], Any], connection: Connection | None) -> Any:
        return self.database.write(lambda c: work(cursor_of(c)), connection)

    def _first_row(self, cursor: Any, statement: str, values: dict[str, Any]) -> Any:
        cursor.execute(statement, values)
        return cursor.fetchone()
