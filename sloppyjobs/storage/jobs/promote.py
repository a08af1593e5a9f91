"""Promotion: jobs that have become due go to their queues."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, bindparam, select

from sloppyjobs.domain.states import Status
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import all_changed, cursor_of
from sloppyjobs.storage.jobs import settlement_sql
from sloppyjobs.storage.jobs.followups import Edge, Followups, bits_of
from sloppyjobs.storage.jobs.lanes import status_in
from sloppyjobs.storage.jobs.settlement_sql import as_json


class Promotion:
    """Queues scheduled and retrying jobs, a bounded number at a time."""

    def __init__(self, database: Database, followups: Followups) -> None:
        self.database = database
        self.followups = followups

    def promote(self, limit: int) -> int:
        """Queue jobs that have become due, in a transaction; the number of them."""
        return self.database.write(lambda connection: self.promote_in(connection, limit))

    def promote_in(self, connection: Connection, limit: int) -> int:
        """The same inside a transaction that is open already."""
        self.database.dialect.plan_by_index(connection)
        now = self.database.now(connection)
        cursor, moment = cursor_of(connection), self.database.to_driver(now)
        query = self.database.prepared("due jobs", self._due_jobs)
        found = query.rows(cursor, {"now": moment, "most": limit})
        due = sorted((str(id), Status(status), followups) for id, status, followups in found)
        if not due:
            return 0
        values = {"given": as_json([(id, source.value) for id, source, _ in due]), "now": moment}
        all_changed(settlement_sql.prepared(self.database, settlement_sql.promote_jobs).run(cursor, values), len(due))
        settlement_sql.prepared(self.database, settlement_sql.record_promotions).run(cursor, values)
        flagged = [Edge(id, source, Status.QUEUED, bits_of(bits)) for id, source, bits in due if bits is not None]
        if flagged:
            self.followups.after(connection, flagged)
        return len(due)

    def _due_jobs(self) -> Select[Any]:
        c = self.database.tables.jobs.c
        query = select(c.id, c.status, c.followups).where(
            status_in(self.database.tables, "scheduled", "retrying"), c.run_at <= bindparam("now")
        )
        return self.database.dialect.locked(query.order_by(c.run_at, c.id).limit(bindparam("most")), skip=True)
