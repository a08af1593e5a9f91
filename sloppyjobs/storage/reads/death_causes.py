"""The causes of death there are. The dead index begins with the cause, so that a read skips from one to the next."""

from __future__ import annotations

from sqlalchemy import Connection, text

from sloppyjobs.storage.database import Database
from sloppyjobs.storage.jobs.lanes import status_in
from sloppyjobs.storage.ports.reads import Cause
from sloppyjobs.storage.reads.distinct_values import DistinctValues
from sloppyjobs.storage.reads.keyset import same_value

# Everything but null is at least the empty text, and that is a range of the index.
_PLACES = """
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
)"""
_NAMES = """,
{cte} ({given}job_name) AS (
  SELECT {given}(SELECT min(name) FROM {dead} AND {match}) {source}
  UNION ALL
  SELECT {given}(SELECT min(name) FROM {dead} AND {match} AND name > {cte}.job_name)
  FROM {cte} WHERE job_name IS NOT NULL
)"""
_MATCHES = (
    ("whole", "kind, frame, ", "FROM frames WHERE frame IS NOT NULL", "error_type = kind AND error_frame = frame"),
    ("placeless", "kind, ", "FROM kinds WHERE kind IS NOT NULL", "error_type = kind AND error_frame IS NULL"),
    ("classless", "frame, ", "FROM bare WHERE frame IS NOT NULL", "error_type IS NULL AND error_frame = frame"),
    ("unknown", "", "", "error_type IS NULL AND error_frame IS NULL"),
)
"""Which classes and frames there are, and how jobs of each are found: ``= NULL`` finds nothing."""
_FOUND = """
SELECT kind, frame, job_name FROM (
  SELECT kind, frame, job_name FROM whole WHERE job_name IS NOT NULL
  UNION ALL
  SELECT kind, NULL, job_name FROM placeless WHERE job_name IS NOT NULL
  UNION ALL
  SELECT NULL, frame, job_name FROM classless WHERE job_name IS NOT NULL
  UNION ALL
  SELECT NULL, NULL, job_name FROM unknown WHERE job_name IS NOT NULL
) AS causes
LIMIT :most
"""


class DeathCauses:
    """The causes of which jobs are dead now."""

    def __init__(self, database: Database, values: DistinctValues) -> None:
        self.dialect = database.dialect
        self.tables = database.tables
        self.values = values

    def dead(self, connection: Connection, limit: int) -> list[Cause]:
        """Up to ``limit`` causes: class of the error, place in the code, name of the job."""
        if not self.dialect.recursive_minimum:
            return self._in_rounds(connection, limit)
        name = connection.dialect.identifier_preparer.format_table(self.tables.jobs)
        found = connection.execute(
            text(_statement(f"{name} WHERE {self.tables.style.status_in('dead')}")), {"most": limit}
        )
        return [(row[0], row[1], row[2]) for row in found]

    def _in_rounds(self, connection: Connection, limit: int) -> list[Cause]:
        """The classes, then the places of each class, then the names at each place."""
        c = self.tables.jobs.c
        dead = status_in(self.tables, "dead")
        kinds: list[str | None] = [*self.values.of(connection, c.error_type, (dead,), limit), None]
        of_kinds = [(dead, same_value(c.error_type, kind)) for kind in kinds]
        frames = self.values.of_each(connection, c.error_frame, of_kinds, limit, limit)
        places: list[tuple[str | None, str | None]] = [(kind, None) for kind in kinds]
        places += [(kind, frame) for kind, found in zip(kinds, frames, strict=True) for frame in found]
        # Known classes and places first, as the recursive statement has them.
        places.sort(key=lambda place: (place[0] is None, place[1] is None))
        at_places = [(dead, same_value(c.error_type, kind), same_value(c.error_frame, frame)) for kind, frame in places]
        names = self.values.of_each(connection, c.name, at_places, limit, limit)
        return [(*place, name) for place, found in zip(places, names, strict=True) for name in found][:limit]


def _statement(dead: str) -> str:
    """One statement that finds all causes; ``dead`` is the table and its condition."""
    names = (
        _NAMES.format(cte=cte, given=given, source=source, match=match, dead=dead)
        for cte, given, source, match in _MATCHES
    )
    return _PLACES.format(dead=dead) + "".join(names) + _FOUND
