"""The hot operations on SQLite: few, long statements, because every step of the driver costs a change of threads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec
from sqlalchemy import Connection

from sloppyjobs.domain.model import Job, NewJob
from sloppyjobs.storage.dialects.sqlite import statements
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs.claim import Claims
from sloppyjobs.storage.jobs.insert import Insert
from sloppyjobs.storage.jobs.new_rows import NewRows
from sloppyjobs.storage.operations import Operations
from sloppyjobs.storage.ports.claims import SWEEP_LIMIT, Fence, TransactionTurns


class SqliteInsert(Insert):
    """Columns in which jobs differ travel as JSON, the others once."""

    @cached_property
    def _sql(self) -> statements.Statements:
        return statements.statements(self.tables)

    def insert_rows(self, connection: Connection, new: Sequence[NewJob], now: datetime) -> list[Job]:
        """All of them in two statements."""
        cursor, made = cursor_of(connection), NewRows(new, now, self.database.step)
        shared, own = made.values(self.database.to_driver)
        self.add_queues(cursor, made.queues(), shared["created_at"])
        shared["new"] = msgspec.json.encode(list(zip(*own.values(), strict=True))).decode()
        for statement in statements.insert_jobs(self._sql.jobs, self._sql.events, tuple(own)):
            cursor.execute(statement, shared)
        return made.jobs()


class SqliteClaims(Claims):
    """Attempts and events are inserted from the rows of the jobs themselves."""

    @cached_property
    def _sql(self) -> statements.Statements:
        return statements.statements(self.tables)

    def turns(self) -> TransactionTurns:
        """A turn queues what has become due."""
        return TransactionTurns(self.turn, promotes=True)

    def promote_due(self, connection: Connection) -> bool:
        """In the turn's own transaction: a commit for the sweep alone would write the same pages once more."""
        return self.promotion.promote_in(connection, SWEEP_LIMIT) > 0

    def open_attempts(self, cursor: Any, worker_id: str, taken: Sequence[Fence], moment: Any) -> None:
        """Two statements, whatever their number."""
        values = {"ids": self.dialect.list_param([id for id, _ in taken]), "worker": worker_id, "now": moment}
        cursor.execute(self._sql.open_attempts, values)
        cursor.execute(self._sql.record_claims, values)


OPERATIONS = Operations(insert=SqliteInsert, claims=SqliteClaims)
