"""The set-based statements of SQLite as text: many rows in one step, from one JSON value."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from sqlalchemy.dialects import sqlite

from sloppyjobs.storage.jobs.new_rows import JOB_INSERT
from sloppyjobs.storage.schema.tables import Tables


class Statements(NamedTuple):
    """The texts for one installation."""

    open_attempts: str
    record_claims: str
    jobs: str
    """The name of the table of jobs."""
    events: str


def statements(tables: Tables) -> Statements:
    """The statements over these tables."""
    format_table = sqlite.dialect().identifier_preparer.format_table
    names = {
        "jobs": format_table(tables.jobs),
        "attempts": format_table(tables.attempts),
        "events": format_table(tables.events),
    }
    return Statements(*(text.format(**names) for text in (*_STATEMENTS, "{jobs}", "{events}")))


@lru_cache(maxsize=500)
def insert_jobs(jobs: str, events: str, own: tuple[str, ...]) -> tuple[str, str]:
    """Inserts of jobs and of their first events: the columns in which the jobs differ, as JSON rows, and the others."""
    given = {name: f"json_extract(value, '$[{place}]')" for place, name in enumerate(own)}
    values = {name: given.get(name, f":{name}") for name in JOB_INSERT}
    of_event = {
        "job_id": values["id"],
        "created_at": values["created_at"],
        "event_type": "'created'",
        "to_status": values["status"],
    }
    return _insert_given(jobs, values), _insert_given(events, of_event)


def _insert_given(table: str, values: Mapping[str, str]) -> str:
    return f"INSERT INTO {table} ({', '.join(values)}) SELECT {', '.join(values.values())} FROM json_each(:new)"


_STATEMENTS = (
    """
INSERT INTO {attempts} (job_id, attempt_number, worker_id, status, started_at)
SELECT id, attempt_count, :worker, 'running', :now FROM {jobs} WHERE id IN (SELECT value FROM json_each(:ids))
""",
    """
INSERT INTO {events} (job_id, event_type, from_status, to_status, attempt_number, worker_id, created_at)
SELECT id, 'claimed', 'queued', 'processing', attempt_count, :worker, :now
FROM {jobs} WHERE id IN (SELECT value FROM json_each(:ids))
""",
)
