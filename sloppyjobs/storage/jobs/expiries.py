"""When jobs expire: a row for each job that does, which is looked at once, when its time has come.

A job that has not started by then is cancelled; one that has is left alone. A worker that claims an expired job before
the sweep has come to it does the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, Text, delete, insert, select, update
from sqlalchemy.types import TypeEngine

from sloppyjobs.domain.failures import EXPIRED
from sloppyjobs.domain.model import NewJob
from sloppyjobs.domain.states import FINISHED, Status
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs.transitions import Transitions
from sloppyjobs.storage.ports.operators import Move, Step
from sloppyjobs.storage.schema.instants import Instant

_ROW: Mapping[str, TypeEngine[Any]] = {"job_id": Text(), "expires_at": Instant()}


def with_instants(new: Sequence[NewJob], now: datetime) -> list[NewJob]:
    """The jobs with the instants at which they expire."""
    placed = {
        id(job.terms): replace(job.terms, expires_at=now + timedelta(seconds=job.terms.expires))
        for job in new
        if job.terms.expires is not None
    }
    return [replace(job, terms=placed[id(job.terms)]) if id(job.terms) in placed else job for job in new]


def write_expiries(database: Database, connection: Connection, new: Sequence[NewJob]) -> None:
    """Write the rows of those new jobs that expire."""
    expiries = database.tables.expiries

    def build() -> Any:
        given = database.dialect.given_rows("given", _ROW)
        return insert(expiries).from_select(list(_ROW), select(*(given.c[name] for name in _ROW)))

    to_driver = database.to_driver
    rows = [(job.id, to_driver(job.terms.expires_at)) for job in new if job.terms.expires_at is not None]
    statement = database.prepared("write expiries", build)
    statement.run(cursor_of(connection), {"given": msgspec.json.encode(rows).decode()})


class Expiries:
    """The sweep of jobs that expire."""

    def __init__(self, database: Database, transitions: Transitions) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.transitions = transitions

    def cancel_expired(self, limit: int) -> int:
        """Cancel jobs whose time has come before they started; how many rows were looked at."""
        return self.database.write(lambda connection: self._cancel_expired(connection, limit))

    def _cancel_expired(self, connection: Connection, limit: int) -> int:
        rows, jobs = self.tables.expiries, self.tables.jobs
        now = self.database.now(connection)
        query = select(rows.c.job_id).where(rows.c.expires_at <= now)
        query = query.order_by(rows.c.expires_at, rows.c.job_id).limit(limit)
        ids = sorted(connection.execute(self.dialect.locked(query, skip=True)).scalars())
        if not ids:
            return 0
        states = self.transitions.lock_states(connection, ids)
        moves: list[Move] = [
            (state, Step(Status.CANCELLED, "cancelled"))
            for state in states.values()
            if state.attempt_count == 0 and state.status not in FINISHED
        ]
        if moves:
            self.transitions.write_moves(connection, moves, now, actor=None, message=EXPIRED.message)
            reason = {"error_code": EXPIRED.code, "error_type": EXPIRED.type, "error_message": EXPIRED.message}
            connection.execute(update(jobs).where(jobs.c.id.in_([state.id for state, _ in moves])).values(reason))
        connection.execute(delete(rows).where(rows.c.job_id.in_(ids)))
        return len(ids)
