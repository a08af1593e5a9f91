"""The log lines of jobs, and how many were left out of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, func, insert, select, update

from sloppyjobs.storage.database import Database
from sloppyjobs.storage.ports.claims import Fence

LEFT_OUT = "_left_out"
"""The field by which the line is known that says how many were left out; it is the last line of its job."""


class JobLogs:
    """Appending lines. How many a job may have is for those to decide who append."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.tables = database.tables

    def write(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Append handlers' log lines, in order."""
        if lines:
            self.database.write(lambda c: c.execute(insert(self.tables.logs), list(lines)))

    def count(self, job_ids: Collection[str], most: int) -> dict[str, int]:
        """How many lines each of these jobs has, counted up to ``most``."""
        logs = self.tables.logs

        def counted(connection: Connection, job_id: str) -> int:
            some = select(logs.c.id).where(logs.c.job_id == job_id).limit(most).subquery()
            return int(connection.execute(select(func.count()).select_from(some)).scalar_one())

        return self.database.read(lambda c: {job_id: counted(c, job_id) for job_id in job_ids})

    def record_omitted(self, fence: Fence, number: int) -> None:
        """Say in the last line of a job that so many more lines were left out in this attempt."""
        self.database.write(lambda c: self._leave_out(c, fence, number))

    def _leave_out(self, connection: Connection, fence: Fence, number: int) -> None:
        logs = self.tables.logs
        last = select(logs.c.id, logs.c.fields).where(logs.c.job_id == fence[0]).order_by(logs.c.id.desc()).limit(1)
        found = connection.execute(last).one_or_none()
        before = 0 if found is None else _left_out(found.fields)
        total = before + number
        values = {
            "attempt_number": fence[1],
            "level": "warning",
            "message": f"{total} further {'line was' if total == 1 else 'lines were'} left out",
            "fields": msgspec.json.encode({LEFT_OUT: total}).decode(),
            "created_at": self.database.now(connection),
        }
        if found is not None and before:
            connection.execute(update(logs).where(logs.c.id == found.id).values(values))
        else:
            connection.execute(insert(logs).values(job_id=fence[0], **values))


def _left_out(fields: str | None) -> int:
    try:
        known = {} if fields is None else msgspec.json.decode(fields)
    except msgspec.DecodeError:
        return 0
    number = known.get(LEFT_OUT) if isinstance(known, dict) else None
    return number if isinstance(number, int) else 0
