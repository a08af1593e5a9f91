"""The set-based statements of SQLite as text: many rows in one step, from one JSON value."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy.dialects import sqlite

from sloppyjobs.storage.enqueue import JOB_INSERT
from sloppyjobs.storage.tables import Tables


class Statements(NamedTuple):
    """The texts for one installation."""

    open_attempts: str
    record_claims: str
    insert_alike: str
    record_created: str


def statements(tables: Tables) -> Statements:
    """The statements over these tables."""
    format_table = sqlite.dialect().identifier_preparer.format_table
    names = {
        "jobs": format_table(tables.jobs),
        "attempts": format_table(tables.attempts),
        "events": format_table(tables.events),
        "job_insert": ", ".join(JOB_INSERT),
    }
    return Statements(*(text.format(**names) for text in _STATEMENTS))


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
    """
INSERT INTO {jobs} ({job_insert})
SELECT json_extract(value, '$[0]'), :name, :queue, 'queued', :priority, :now, :now, :now, 0, :max_attempts,
       :timeout_seconds, NULL, :correlation_id, :schedule_id, :occurrence_at, :principal, json_extract(value, '$[1]'),
       :retry_policy, :metadata
FROM json_each(:new)
""",
    """
INSERT INTO {events} (job_id, event_type, to_status, created_at)
SELECT json_extract(value, '$[0]'), 'created', 'queued', :now FROM json_each(:new)
""",
)
