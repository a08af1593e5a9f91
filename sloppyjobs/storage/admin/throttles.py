"""Failures of clients, counted over a span of time, for all processes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, select, update

from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of


class Throttles:
    """One row for each client that failed lately. The span starts with the first failure."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables

    def failures(self, client: str, window: float) -> tuple[int, float]:
        """How often a client has failed in its present span, and how many seconds are left of that."""
        self.database.ensure_schema()
        throttles = self.tables.throttles

        def work(connection: Connection) -> tuple[int, float]:
            row = connection.execute(select(throttles).where(throttles.c.client == client)).one_or_none()
            left = 0.0 if row is None else (row.since - self.database.now(connection)).total_seconds() + window
            return (row.failures, left) if row is not None and left > 0 else (0, 0.0)

        return self.database.read(work)

    def count(self, client: str, window: float) -> None:
        """Count one failure more; the first after the end of a span begins the next."""
        self.database.ensure_schema()
        self.database.write(lambda connection: self._count_failure(connection, client, timedelta(seconds=window)))

    def remove(self, before: datetime) -> int:
        """Remove the rows of spans that began before an instant. There are few: callers bound the clients."""
        throttles = self.tables.throttles
        return self.database.write(lambda c: c.execute(delete(throttles).where(throttles.c.since < before)).rowcount)

    def _count_failure(self, connection: Connection, client: str, window: timedelta) -> None:
        now = self.database.now(connection)
        throttles = self.tables.throttles
        values = {"client": client, "failures": 1, "since": self.database.to_driver(now)}
        # Insert first: then the row is there in any case, so that the steps after it cannot miss it.
        if self.database.prepared("insert throttle", self._insert_throttle).run(cursor_of(connection), values) == 1:
            return
        row = update(throttles).where(throttles.c.client == client)
        more = row.where(throttles.c.since > now - window).values(failures=throttles.c.failures + 1)
        if connection.execute(more).rowcount == 0:
            connection.execute(row.values(failures=1, since=now))

    def _insert_throttle(self) -> Any:
        return self.dialect.insert_if_absent(self.tables.throttles, ("client", "failures", "since"))
