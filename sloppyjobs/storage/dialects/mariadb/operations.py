"""The hot operations on MariaDB and MySQL: few round trips, and no statement reads more rows than it changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec
from sqlalchemy import Connection, Select

from sloppyjobs.domain.model import Job, NewJob
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialects.mariadb import statements
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs.claim import Claims
from sloppyjobs.storage.jobs.insert import Insert
from sloppyjobs.storage.jobs.lanes import Lanes
from sloppyjobs.storage.jobs.new_rows import NewRows
from sloppyjobs.storage.jobs.settle import Settle
from sloppyjobs.storage.jobs.unanswered import Unanswered
from sloppyjobs.storage.operations import Operations
from sloppyjobs.storage.ports.claims import Fence


class MariaDbInsert(Insert):
    """Columns in which jobs differ travel as JSON, the others once."""

    def insert_rows(self, connection: Connection, new: Sequence[NewJob], now: datetime) -> list[Job]:
        """All of them in two statements."""
        cursor, made = cursor_of(connection), NewRows(new, now, self.database.step)
        shared, own = made.values(self.database.to_driver)
        self.add_queues(cursor, made.queues(), self.database.to_driver(now))
        if len(new) == 1:
            shared |= {name: values[0] for name, values in own.items()}
            inserts = statements.insert_one(self.tables)
        else:
            shared["new"] = msgspec.json.encode(list(zip(*own.values(), strict=True))).decode()
            inserts = statements.insert_given(self.tables, tuple(own))
        for statement in inserts:
            cursor.execute(statement, shared)
        if Status.QUEUED in made.statuses:
            self.dialect.announce(connection)
        return made.jobs()


class MariaDbLanes(Lanes):
    """Lanes whose heads are found, and locked, along the claim index whatever the statistics say."""

    def heads_query(self) -> Select[Any]:
        """With a hint."""
        jobs = self.tables.jobs
        return super().heads_query().with_hint(jobs, f"FORCE INDEX (ix_{jobs.name}_claim)")


class MariaDbClaims(Claims):
    """Jobs are taken by primary key, and attempts and events inserted from the rows of the jobs themselves."""

    def __init__(self, database: Database, _lanes: Lanes, settlement: Settle, unanswered: Unanswered) -> None:
        super().__init__(database, MariaDbLanes(database), settlement, unanswered)

    @cached_property
    def _sql(self) -> statements.ClaimStatements:
        return statements.claim_statements(self.tables)

    def take(self, cursor: Any, values: Mapping[str, Any]) -> int:
        """By primary key."""
        changed: int = cursor.execute(self._sql.take, {**values, "ids": tuple(values["ids"])})
        return changed

    def open_attempts(self, cursor: Any, worker_id: str, taken: Sequence[Fence], moment: Any) -> None:
        """Two statements, whatever their number."""
        if taken:
            values = {"ids": tuple(id for id, _ in taken), "worker": worker_id, "now": moment}
            cursor.execute(self._sql.open_attempts, values)
            cursor.execute(self._sql.record_claims, values)


OPERATIONS = Operations(insert=MariaDbInsert, claims=MariaDbClaims)
