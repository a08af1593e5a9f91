"""Dead jobs by cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, case, func, literal_column, select

from sloppyjobs.domain.causes import cause_id
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.database import Database, bounded_read
from sloppyjobs.storage.jobs.lanes import status_in
from sloppyjobs.storage.ports.reads import (
    WINDOW,
    Cause,
    CauseSummary,
    Count,
    DeadJob,
    DeadOfCause,
    Death,
    Scope,
)
from sloppyjobs.storage.reads.counts import CAP, Counts
from sloppyjobs.storage.reads.death_causes import DeathCauses
from sloppyjobs.storage.reads.distinct_values import DistinctValues
from sloppyjobs.storage.reads.job_lists import JobLists
from sloppyjobs.storage.reads.keyset import Keyset, same_value
from sloppyjobs.storage.upkeep.deaths import Deaths

SEEN = 100
"""Jobs at either end of a cause among which its first and last death are found."""
RECENT = 500
"""Dead jobs, the newest, from which an overview takes its causes."""
DEATHS = 5_000
"""Dead jobs that are counted for all causes."""

CAUSES = 500
"""Causes among which those of one name are looked for."""

LISTED = 2_000
"""Dead jobs of one cause, those created last, that its page reads."""


class DeadGroups:
    """Why jobs died."""

    def __init__(self, database: Database, counts: Counts, keyset: Keyset, deaths: Deaths, lists: JobLists) -> None:
        self.database = database
        self.tables = database.tables
        self.causes = DeathCauses(database, DistinctValues(database, keyset))
        self.counts = counts
        self.keyset = keyset
        self.deaths = deaths
        self.lists = lists

    @bounded_read
    def dead_cause(self, connection: Connection, cause: str, most: int) -> Cause | None:
        """What a cause consists of, where it is among the first ``most`` of which jobs are dead now."""
        found = self.causes.dead(connection, most)
        return next((one for one in found if cause_id(one[2], one[0], one[1]) == cause), None)

    @bounded_read
    def dead_of(self, connection: Connection, cause: Cause, queues: Scope = None) -> DeadOfCause:
        """The dead jobs of one cause, of all queues or of some."""
        return self.dead_in(connection, cause, queues)

    def dead_in(self, connection: Connection, cause: Cause, queues: Scope) -> DeadOfCause:
        """The same, in a transaction."""
        c = self.tables.jobs.c
        died = func.coalesce(c.finished_at, c.updated_at).label("died")
        query = self._dead(select(c.id, c.queue, died), self._of(cause), newest=True).limit(LISTED + 1)
        scanned = [Death(*row) for row in connection.execute(query)]
        seen = [one for one in scanned[:LISTED] if queues is None or one.queue in queues]
        if len(scanned) <= LISTED or queues is not None:
            return DeadOfCause(
                Count(len(seen), len(scanned) > LISTED), seen, min((one.died_at for one in seen), default=None)
            )
        [(count, _)] = self.counts.to_caps(connection, [(self._moments(cause), CAP)])
        [[ends]] = self.keyset.each(connection, [self._deaths(cause, newest=False)])
        return DeadOfCause(count, seen, min(ends[0], *(one.died_at for one in seen)))

    def dead_causes(self, limit: int, queues: Scope = None) -> list[CauseSummary]:
        """Up to ``limit`` causes; where some queues only are asked for, those of the newest dead jobs."""
        self.database.ensure_schema()

        def work(connection: Connection) -> list[CauseSummary]:
            self.database.bounded(connection)
            if queues is None:
                causes = self.causes.dead(connection, limit)
                return self._with_past(connection, self._summaries(connection, causes), None)
            return self._with_past(connection, self._recent(connection, limit, queues, WINDOW), queues)

        return self.database.read(work)

    def _with_past(self, connection: Connection, found: list[CauseSummary], queues: Scope) -> list[CauseSummary]:
        ids = [cause_id(one.cause[2], one.cause[0], one.cause[1]) for one in found]
        past = self.deaths.past(connection, ids, queues)
        return [one._replace(past=past.get(id)) for one, id in zip(found, ids, strict=True)]

    @bounded_read
    def recent_causes(self, connection: Connection, limit: int, queues: Scope = None) -> list[CauseSummary]:
        """The most frequent causes among the newest dead jobs."""
        return self._recent(connection, limit, queues, RECENT)

    def _recent(
        self, connection: Connection, limit: int, queues: Scope, window: int, name: str | None = None
    ) -> list[CauseSummary]:
        c = self.tables.jobs.c
        died = func.coalesce(c.finished_at, c.updated_at)
        seen = literal_column("1") if queues is None else case((c.queue.in_(queues), 1), else_=0)
        newest = select(c.error_type, c.error_frame, c.name, c.id, seen.label("seen"), died.label("died"))
        newest = newest.where(literal_column(self.tables.style.in_list(Status.DEAD)))
        scanned = newest.order_by(c.created_at.desc(), c.id.desc()).limit(window + 1).subquery()
        cause = (scanned.c.error_type, scanned.c.error_frame, scanned.c.name)
        columns = (
            func.count(),
            func.min(scanned.c.died),
            func.max(scanned.c.died),
            func.max(scanned.c.id),
            scanned.c.seen,
        )
        rows = connection.execute(select(*cause, *columns).group_by(*cause, scanned.c.seen)).all()
        more = sum(row[3] for row in rows) > window
        seen_rows = (row for row in rows if row[7] and name in (None, row[2]))
        found = sorted(seen_rows, key=lambda row: (-row[3], row[6]))[:limit]
        examples = self.lists.jobs_by_id(connection, [row[6] for row in found])
        return [
            CauseSummary((row[0], row[1], row[2]), Count(row[3], more), row[4], row[5], examples[row[6]])
            for row in found
            if row[6] in examples
        ]

    @bounded_read
    def causes_of(self, connection: Connection, name: str, limit: int, queues: Scope = None) -> list[CauseSummary]:
        """Up to ``limit`` causes of which jobs of a name are dead, among the first of all causes.

        Of some queues, those of the newest dead jobs of all.
        """
        if queues is None:
            named = [cause for cause in self.causes.dead(connection, CAUSES) if cause[2] == name]
            return self._brief(connection, named[:limit])
        return self._recent(connection, limit, queues, WINDOW, name)

    @bounded_read
    def dead_jobs(self, connection: Connection, ids: Sequence[str]) -> dict[str, DeadJob]:
        """These jobs, each with what a list shows of it, how long its last attempt ran, and on which worker."""
        jobs = self.lists.details_by_id(connection, ids)
        c = self.tables.attempts.c
        numbers = {job.attempt_count for job, _ in jobs.values()}
        query = select(c.job_id, c.attempt_number, c.run_seconds, c.worker_id)
        query = query.where(c.job_id.in_(list(jobs)), c.attempt_number.in_(sorted(numbers)))
        ran = {(row[0], row[1]): (row[2], row[3]) for row in connection.execute(query)} if jobs else {}
        return {id: (job, details, ran.get((id, job.attempt_count))) for id, (job, details) in jobs.items()}

    def _brief(self, connection: Connection, causes: Sequence[Cause]) -> list[CauseSummary]:
        """The same as ``_summaries`` in two statements, counted in equal shares."""
        most = min(CAP, DEATHS // max(1, len(causes)))
        ends = [(cause, most + 1, True) for cause in causes] + [(cause, SEEN, False) for cause in causes]
        found = self.keyset.each(connection, [self._end(*end) for end in ends])
        newest, oldest = [[rows[0] for rows in half] for half in (found[: len(causes)], found[len(causes) :])]
        examples = self.lists.jobs_by_id(connection, [row[3] for row in newest if row[0]])
        return [
            CauseSummary(cause, Count(min(new[0], most), new[0] > most), old[1], new[2], examples[new[3]])
            for cause, new, old in zip(causes, newest, oldest, strict=True)
            if new[0] and new[3] in examples
        ]

    def _summaries(self, connection: Connection, causes: Sequence[Cause]) -> list[CauseSummary]:
        counts = self.counts.shared(connection, [self._moments(cause) for cause in causes], DEATHS)
        ends = self.keyset.each(
            connection, [self._deaths(cause, newest=end) for end in (False, True) for cause in causes]
        )
        oldest, newest = ends[: len(causes)], ends[len(causes) :]
        newest_ids = self.keyset.each(connection, [self._newest(cause) for cause in causes])
        examples = self.lists.jobs_by_id(connection, [found[0][0] for found in newest_ids if found])
        summaries = []
        for cause, (count, _), first, last, found in zip(causes, counts, oldest, newest, newest_ids, strict=True):
            example = examples.get(found[0][0]) if found else None
            # All of them may have been retried or deleted between two of the queries.
            if example is not None and count.number and first[0][0] and last[0][1]:
                summaries.append(CauseSummary(cause, count, first[0][0], last[0][1], example))
        return summaries

    # Statements

    def _dead(self, query: Select[Any], where: Sequence[ColumnElement[bool]], *, newest: bool) -> Select[Any]:
        c = self.tables.jobs.c
        fixed = (c.error_type, c.error_frame, c.name) if self.database.dialect.orders_by_fixed else ()
        order = (*fixed, c.created_at, c.id)
        query = query.where(status_in(self.tables, "dead"), *where)
        return query.order_by(*(column.desc() if newest else column for column in order))

    def _of(self, cause: Cause) -> tuple[ColumnElement[bool], ...]:
        c = self.tables.jobs.c
        return same_value(c.error_type, cause[0]), same_value(c.error_frame, cause[1]), c.name == cause[2]

    def _moments(self, cause: Cause) -> Select[Any]:
        return self._dead(select(self.tables.jobs.c.created_at.label("first")), self._of(cause), newest=False)

    def _deaths(self, cause: Cause, *, newest: bool) -> Select[Any]:
        c = self.tables.jobs.c
        died = func.coalesce(c.finished_at, c.updated_at).label("died")
        seen = self._dead(select(died), self._of(cause), newest=newest).limit(SEEN).subquery()
        return select(func.min(seen.c.died), func.max(seen.c.died))

    def _end(self, cause: Cause, most: int, newest: bool) -> Select[Any]:
        """Of so many dead jobs at one end of a cause: their number, the first and the last death, the newest job."""
        c = self.tables.jobs.c
        died = func.coalesce(c.finished_at, c.updated_at).label("died")
        seen = self._dead(select(c.id, died), self._of(cause), newest=newest).limit(most).subquery()
        columns: tuple[ColumnElement[Any], ...]
        columns = (func.count(), func.min(seen.c.died), func.max(seen.c.died), func.max(seen.c.id))
        return select(*columns)

    def _newest(self, cause: Cause) -> Select[Any]:
        return self._dead(select(self.tables.jobs.c.id), self._of(cause), newest=True).limit(1)
