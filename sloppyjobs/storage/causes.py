"""Dead jobs by cause. The dead index begins with the cause, so a walk jumps from one cause to the next."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, case, func, literal_column, select, text

from sloppyjobs.model import Job
from sloppyjobs.states import Status
from sloppyjobs.storage.counting import WINDOW, Count, Counting, Scope
from sloppyjobs.storage.job_tables import in_list
from sloppyjobs.storage.listing import Listing, same_value

SEEN = 100
"""Jobs at either end of a cause among which its first and last death are looked for."""
RECENT = 500
"""Dead jobs, the newest, from which an overview takes its causes."""
DEATHS = 5_000
"""Dead jobs that all causes count together."""

Cause = tuple[str | None, str | None]
"""The class of an error and the frame that raised it."""


# Everything but null is at least the empty text, and that is a range of the index.
_CAUSES = """
WITH RECURSIVE kinds (kind) AS (
  SELECT (SELECT min(error_type) FROM {dead} AND error_type >= '')
  UNION ALL
  SELECT (SELECT min(error_type) FROM {dead} AND error_type > kinds.kind) FROM kinds WHERE kinds.kind IS NOT NULL
),
frames (kind, frame) AS (
  SELECT kind, (SELECT min(error_frame) FROM {dead} AND error_type = kinds.kind AND error_frame >= '')
  FROM kinds WHERE kind IS NOT NULL
  UNION ALL
  SELECT kind, (SELECT min(error_frame) FROM {dead} AND error_type = frames.kind AND error_frame > frames.frame)
  FROM frames WHERE frames.frame IS NOT NULL
),
bare (frame) AS (
  SELECT (SELECT min(error_frame) FROM {dead} AND error_type IS NULL AND error_frame >= '')
  UNION ALL
  SELECT (SELECT min(error_frame) FROM {dead} AND error_type IS NULL AND error_frame > bare.frame)
  FROM bare WHERE bare.frame IS NOT NULL
)
SELECT kind, frame FROM (
  SELECT kind, frame FROM frames WHERE frame IS NOT NULL
  UNION ALL
  SELECT kind, NULL FROM kinds
  WHERE kind IS NOT NULL AND EXISTS (SELECT 1 FROM {dead} AND error_type = kinds.kind AND error_frame IS NULL)
  UNION ALL
  SELECT NULL, frame FROM bare WHERE frame IS NOT NULL
  UNION ALL
  SELECT NULL, NULL WHERE EXISTS (SELECT 1 FROM {dead} AND error_type IS NULL AND error_frame IS NULL)
) AS causes
LIMIT :most
"""


class CauseSummary(NamedTuple):
    """How many dead jobs have a cause, when they died, and the newest of them."""

    cause: Cause
    jobs: Count
    first_seen: datetime
    last_seen: datetime
    example: Job


class DeadCauses(Counting, Listing):
    """Why jobs died."""

    def dead_causes(self, limit: int, queues: Scope = None) -> list[CauseSummary]:
        """Up to ``limit`` causes; where some queues only are asked for, those of the newest dead jobs."""
        self.ensure_schema()
        if queues is not None:
            return self.read(lambda c: self.recent_causes(self.bounded(c), limit, queues, WINDOW))
        return self.read(lambda c: self._summaries(self.bounded(c), limit))

    def recent_causes(
        self, connection: Connection, limit: int, queues: Scope = None, window: int = RECENT
    ) -> list[CauseSummary]:
        """The most frequent causes among the newest dead jobs."""
        c = self.tables.jobs.c
        died = func.coalesce(c.finished_at, c.updated_at)
        seen = literal_column("1") if queues is None else case((c.queue.in_(queues), 1), else_=0)
        newest = select(c.error_type, c.error_frame, c.id, seen.label("seen"), died.label("died"))
        newest = newest.where(literal_column(in_list(Status.DEAD)))
        looked = newest.order_by(c.created_at.desc(), c.id.desc()).limit(window + 1).subquery()
        cause = (looked.c.error_type, looked.c.error_frame)
        columns = (func.count(), func.min(looked.c.died), func.max(looked.c.died), func.max(looked.c.id), looked.c.seen)
        rows = connection.execute(select(*cause, *columns).group_by(*cause, looked.c.seen)).all()
        more = sum(row[2] for row in rows) > window
        found = sorted((row for row in rows if row[6]), key=lambda row: (-row[2], row[5]))[:limit]
        examples = self._jobs_by_id(connection, [row[5] for row in found])
        return [
            CauseSummary((row[0], row[1]), Count(row[2], more), row[3], row[4], examples[row[5]])
            for row in found
            if row[5] in examples
        ]

    def _summaries(self, connection: Connection, limit: int) -> list[CauseSummary]:
        causes = self._causes(connection, limit)
        counts = self.shared(connection, [self._moments(cause) for cause in causes], DEATHS)
        ends = self._each(connection, [self._deaths(cause, newest=end) for end in (False, True) for cause in causes])
        oldest, newest = ends[: len(causes)], ends[len(causes) :]
        newest_ids = self._each(connection, [self._newest(cause) for cause in causes])
        examples = self._jobs_by_id(connection, [found[0][0] for found in newest_ids if found])
        summaries = []
        for cause, (count, _), first, last, found in zip(causes, counts, oldest, newest, newest_ids, strict=True):
            example = examples.get(found[0][0]) if found else None
            # All of them may have been retried or deleted between two of the queries.
            if example is not None and count.number and first[0][0] and last[0][1]:
                summaries.append(CauseSummary(cause, count, first[0][0], last[0][1], example))
        return summaries

    def _causes(self, connection: Connection, limit: int) -> list[Cause]:
        """The causes there are, in one statement that jumps from each to the next along the index."""
        name = connection.dialect.identifier_preparer.format_table(self.tables.jobs)
        found = connection.execute(text(_CAUSES.format(dead=f"{name} WHERE status = 'dead'")), {"most": limit})
        return [(row[0], row[1]) for row in found]

    # Statements

    def _dead(self, query: Select[Any], where: Sequence[ColumnElement[bool]], *, newest: bool) -> Select[Any]:
        c = self.tables.jobs.c
        order = (c.error_type, c.error_frame, c.created_at, c.id)
        query = query.where(literal_column("status = 'dead'"), *where)
        return query.order_by(*(column.desc() if newest else column for column in order))

    def _of(self, cause: Cause) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
        c = self.tables.jobs.c
        return same_value(c.error_type, cause[0]), same_value(c.error_frame, cause[1])

    def _moments(self, cause: Cause) -> Select[Any]:
        return self._dead(select(self.tables.jobs.c.created_at.label("first")), self._of(cause), newest=False)

    def _deaths(self, cause: Cause, *, newest: bool) -> Select[Any]:
        c = self.tables.jobs.c
        died = func.coalesce(c.finished_at, c.updated_at).label("died")
        seen = self._dead(select(died), self._of(cause), newest=newest).limit(SEEN).subquery()
        return select(func.min(seen.c.died), func.max(seen.c.died))

    def _newest(self, cause: Cause) -> Select[Any]:
        return self._dead(select(self.tables.jobs.c.id), self._of(cause), newest=True).limit(1)
