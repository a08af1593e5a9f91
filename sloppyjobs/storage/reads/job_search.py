"""Search by a part of an id."""

from __future__ import annotations

from sqlalchemy import select

from sloppyjobs.storage.database import Database


class JobSearch:
    """Bounded lists to search in: no index finds the middle of a text."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.tables = database.tables

    def latest_ids(self, limit: int) -> list[str]:
        """The ids of the jobs that come last by id: those of the latest jobs."""
        self.database.ensure_schema()
        c = self.tables.jobs.c
        query = select(c.id).order_by(c.id.desc()).limit(limit)
        return self.database.read(lambda connection: list(connection.scalars(query)))
