"""Jobs that one statement inserts: arrays of the columns in which they differ, and the others once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sloppyjobs.domain.model import NewJob, part_of
from sloppyjobs.storage.dialects.postgres import statements
from sloppyjobs.storage.dialects.postgres.arrays import array, instant_array, text_array
from sloppyjobs.storage.jobs.insert import chunks
from sloppyjobs.storage.jobs.new_rows import NewRows
from sloppyjobs.storage.schema.columns import JOB_COLUMNS, Kind

KIND = {column.name: column.kind for column in JOB_COLUMNS}

PART = 4000
"""Jobs that one statement inserts. Of more, the server writes some while the next are made."""

FIRST_PART = 1000
"""Jobs of the first statement of several: until it is sent, the server has nothing to do."""


class Part(NamedTuple):
    """The jobs, and of the statement's values those that do not depend on when the jobs are created."""

    rows: NewRows
    shared: Mapping[str, Any]
    values: Mapping[str, Any]
    encoding: str

    @classmethod
    def of(cls, new: Sequence[NewJob], encoding: str) -> Part:
        """Made for a connection with this encoding."""
        rows = NewRows(new, None, timedelta(0))
        shared = {name: value for name, value in rows.shared.items() if value is not None}
        values: dict[str, Any] = {name: array(KIND[name], given, encoding) for name, given in rows.own.items()}
        values |= {"id": text_array(rows.ids, encoding), "payload": text_array(rows.payloads, encoding)}
        values |= shared | {"queues": text_array(rows.queues(), encoding)}
        return cls(rows, shared, values, encoding)

    def statement(
        self, sql: statements.Statements, now: datetime, step: timedelta, batch_id: str | None = None
    ) -> tuple[str, dict[str, Any]]:
        """The statement and all of its values; the first of the jobs is created ``now``."""
        rows, number = self.rows, len(self.rows.ids)
        rows.date(now, step)
        values: dict[str, Any] = {**self.values, "now": instant_array(now, step, number)}
        own, shared = tuple(rows.own), tuple(self.shared)
        if rows.delay:
            values |= {"run_at": instant_array(rows.run_at[0], step, number), "status": rows.statuses[0].value}
            own, shared = (*own, "run_at"), (*shared, "status")
        elif not rows.due_now:
            values["run_at"] = array(Kind.INSTANT, rows.run_at, self.encoding)
            values["status"] = text_array([status.value for status in rows.statuses], self.encoding)
            own = (*own, "run_at", "status")
        statement = sql.insert_many
        if batch_id is not None:
            statement, values["batch"] = sql.insert_members, batch_id
        return statements.insert_many(statement, own, shared), values


def parts_of(new: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
    """The jobs of each statement."""
    first = FIRST_PART if len(new) > 2 * FIRST_PART else len(new)
    yield from chunks(part_of(new, 0, first), PART)
    yield from chunks(part_of(new, first, len(new)), PART)
