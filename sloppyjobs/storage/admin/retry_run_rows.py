"""Runs that retry a cause of death, as they are read: the rows, and what has become of their jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, and_, case, func, select

from sloppyjobs.domain import causes
from sloppyjobs.domain.causes import MemberCounts
from sloppyjobs.domain.states import Status
from sloppyjobs.domain.stored_words import status_or_none
from sloppyjobs.storage.database import Database, bounded_read
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.ports.operators import Run, Tally
from sloppyjobs.storage.ports.reads import Cause
from sloppyjobs.storage.reads.keyset import Keyset, same_value

COUNTED = 2_000
"""Members of a run, the latest, whose fate is counted."""
RUNS = 10
"""Runs of a cause that are read for somebody who sees some queues only, to find one of theirs."""
DUE = 100
"""Due runs that are read at once."""


class RetryRunRows:
    """Bounded reads of runs and their members."""

    def __init__(self, database: Database, keyset: Keyset) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.keyset = keyset

    def due(self) -> list[str]:
        """The ids of the runs that have something to do now."""
        self.database.ensure_schema()
        return self.database.read(self._due_runs)

    def get(self, run_id: str) -> Run | None:
        """The run with this id."""
        self.database.ensure_schema()
        return self.database.read(lambda c: self.find(c, run_id))

    @bounded_read
    def latest(
        self, connection: Connection, asked: Sequence[tuple[str, str]], scope: Sequence[str] | None
    ) -> list[Run]:
        """The latest run of each cause and kind that somebody with this scope sees, where there is one."""
        c = self.tables.retry_runs.c
        columns = [c[name] for name in Run._fields]
        most = 1 if scope is None else RUNS
        order = c.created_at.desc(), c.id.desc()
        queries = [
            select(*columns).where(c.cause == cause, c.kind == kind).order_by(*order).limit(most)
            for cause, kind in asked
        ]
        answers = [
            sorted(map(Run._make, rows), key=_age, reverse=True) for rows in self.keyset.each(connection, queries)
        ]
        seen = [[run for run in runs if run.seen_by(scope)] for runs in answers]
        return [runs[0] for runs in seen if runs]

    @bounded_read
    def tallies(self, connection: Connection, runs: Sequence[Run]) -> list[Tally]:
        """What has become of the members of each run."""
        return [_tally(rows) for rows in self.keyset.each(connection, [self._by_fate(run) for run in runs])]

    @bounded_read
    def member_ids(self, connection: Connection, run_id: str) -> list[str]:
        """The latest members of a run."""
        c = self.tables.retry_members.c
        query = select(c.job_id).where(c.run_id == run_id).order_by(c.number.desc()).limit(COUNTED)
        return list(connection.execute(query).scalars())

    @bounded_read
    def run_cause(self, connection: Connection, cause: str) -> Cause | None:
        """What a cause consists of, where it was ever retried as such."""
        c = self.tables.retry_runs.c
        row = connection.execute(select(c.error_type, c.error_frame, c.name).where(c.cause == cause).limit(1)).first()
        return None if row is None else (row[0], row[1], row[2])

    # Statements

    def find(self, connection: Connection, run_id: str, *, lock: bool = False, wait: bool = False) -> Run | None:
        c = self.tables.retry_runs.c
        query: Any = select(*(c[name] for name in Run._fields)).where(c.id == run_id)
        row = connection.execute(self.dialect.locked(query, skip=not wait) if lock else query).first()
        return None if row is None else Run(*row)

    def _due_runs(self, connection: Connection) -> list[str]:
        query = self.database.prepared("due retry runs", self._running_runs)
        rows = query.rows(cursor_of(connection), {})
        if not rows:
            return []
        now = self.database.by_clock(rows[0][2])
        return [id for id, at, _ in rows if (due := self.database.from_driver(at)) is not None and due <= now]

    def _running_runs(self) -> Select[Any]:
        """The running runs, those that are due first, and the clock."""
        c = self.tables.retry_runs.c
        query = select(c.id, c.next_at, self.database.clock_column()).where(c.state == "running")
        return query.order_by(c.next_at).limit(DUE)

    def member_statuses(self, connection: Connection, run_id: str) -> list[Status | None]:
        """The statuses of a run's latest members, latest first."""
        jobs, members = self.tables.jobs, self.tables.retry_members
        query = select(jobs.c.status).join_from(members, jobs, members.c.job_id == jobs.c.id, isouter=True)
        query = query.where(members.c.run_id == run_id).order_by(members.c.number.desc()).limit(COUNTED)
        return [status_or_none(status) for status in connection.execute(query).scalars()]

    def _by_fate(self, run: Run) -> Select[Any]:
        jobs, members = self.tables.jobs, self.tables.retry_members
        j = jobs.c
        same = and_(same_value(j.error_type, run.error_type), same_value(j.error_frame, run.error_frame))
        scanned = select(j.status, case((same, 1), else_=0).label("same"))
        scanned = scanned.join_from(members, jobs, members.c.job_id == j.id, isouter=True)
        scanned = scanned.where(members.c.run_id == run.id).order_by(members.c.number.desc()).limit(COUNTED)
        inner = scanned.subquery()
        return select(inner.c.status, inner.c.same, func.count().label("n")).group_by(inner.c.status, inner.c.same)


def _age(run: Run) -> tuple[datetime, str]:
    return run.created_at, run.id


def _tally(rows: Sequence[Sequence[Any]]) -> Tally:
    counts = dict.fromkeys(MemberCounts._fields, 0)
    elsewhere = scanned = 0
    for status, same, number in rows:
        met = causes.counted_as(status_or_none(status))
        counts[met] += number
        scanned += number
        elsewhere += number if met == "died" and not same else 0
    return Tally(MemberCounts(**counts), elsewhere, scanned)


def count_fates(statuses: Sequence[Status | None]) -> MemberCounts:
    """How many of these jobs met which fate."""
    met = [causes.counted_as(status) for status in statuses]
    return MemberCounts(*(met.count(name) for name in MemberCounts._fields))
