"""The statements of the hot operations as text: many rows in one step."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Float, Table, Text
from sqlalchemy.dialects import mysql

from sloppyjobs.storage.dialects.mariadb.json_rows import json_keys, json_table
from sloppyjobs.storage.jobs.new_rows import JOB_INSERT
from sloppyjobs.storage.schema.tables import Tables


class ClaimStatements(NamedTuple):
    """What follows the choice of jobs: they are ours, with an attempt and an event each."""

    take: str
    open_attempts: str
    record_claims: str


def claim_statements(tables: Tables) -> ClaimStatements:
    """The statements over these tables."""
    return ClaimStatements(*(text.format(**_names(tables)) for text in _CLAIM))


# By primary key, whatever the statistics say: a scan would lock every row that it reads.
_CLAIM = (
    """
UPDATE {jobs} FORCE INDEX (PRIMARY)
SET status = 'processing', attempt_count = attempt_count + 1, locked_by = %(worker)s, locked_until = %(until)s,
    updated_at = %(now)s, progress_percent = NULL, progress_message = NULL, progress_fields = NULL
WHERE id IN %(ids)s AND status = 'queued'
""",
    """
INSERT INTO {attempts} (job_id, attempt_number, worker_id, status, started_at)
SELECT id, %(attempt)s, %(worker)s, 'running', %(now)s FROM {keys}
""",
    """
INSERT INTO {events} (job_id, event_type, from_status, to_status, attempt_number, worker_id, created_at)
SELECT id, 'claimed', 'queued', 'processing', %(attempt)s, %(worker)s, %(now)s FROM {keys}
""",
)


class SuccessStatements(NamedTuple):
    """The settlement of attempts that went well and have the same owner, number and result."""

    succeed: str
    close: str
    record: str


def success_statements(tables: Tables, *, plain: bool) -> SuccessStatements:
    """The statements over these tables; ``plain`` for jobs on which nothing hangs, which the update makes sure of."""
    only = "AND followups IS NULL" if plain else ""
    return SuccessStatements(*(text.format(only=only, **_names(tables)) for text in _SUCCESS))


# An update that joins two tables costs several times as much as one of a single table. So jobs are listed, and
# attempts, each of which has its own time, are "inserted": all of them are there, and are updated.
_SUCCESS = (
    """
UPDATE {jobs} FORCE INDEX (PRIMARY)
SET status = 'succeeded', result = %(result)s, updated_at = %(now)s, finished_at = %(now)s, locked_by = NULL,
    locked_until = NULL, error_code = NULL, error_type = NULL, error_message = NULL, error_frame = NULL
WHERE id IN %(ids)s AND status = 'processing' AND locked_by <=> %(owner)s AND attempt_count = %(attempt)s {only}
""",
    """
INSERT INTO {attempts} (job_id, attempt_number, worker_id, status, started_at)
SELECT id, %(attempt)s, %(owner)s, 'succeeded', %(now)s FROM {times}
ON DUPLICATE KEY UPDATE status = 'succeeded', finished_at = %(now)s, run_seconds = given.seconds
""",
    """
INSERT INTO {events} (job_id, event_type, from_status, to_status, attempt_number, worker_id, created_at)
SELECT id, 'succeeded', 'processing', 'succeeded', %(attempt)s, %(owner)s, %(now)s FROM {keys}
""",
)


def _names(tables: Tables) -> dict[str, str]:
    """The tables, and the ids of jobs as rows, alone or with the seconds that their handlers ran."""
    return {
        "jobs": name_of(tables.jobs),
        "attempts": name_of(tables.attempts),
        "events": name_of(tables.events),
        "keys": json_keys("%(keys)s", "given"),
        "times": json_table("%(times)s", {"id": Text(), "seconds": Float()}, "given"),
    }


@lru_cache(maxsize=500)
def insert_given(tables: Tables, own: tuple[str, ...]) -> tuple[str, str]:
    """Inserts of jobs and of their first events: the columns in which the jobs differ, as JSON rows, and the others."""
    types = {name: tables.jobs.c[name].type for name in own}
    jobs, events = _inserts(tables, {name: f"given.`{name}`" for name in own})
    source = json_table("%(new)s", types, "given")
    return f"{jobs[0]} SELECT {jobs[1]} FROM {source}", f"{events[0]} SELECT {events[1]} FROM {source}"


@lru_cache(maxsize=16)
def insert_one(tables: Tables) -> tuple[str, str]:
    """Inserts of one job and of its first event."""
    jobs, events = _inserts(tables, {})
    return f"{jobs[0]} VALUES ({jobs[1]})", f"{events[0]} VALUES ({events[1]})"


def _inserts(tables: Tables, given: Mapping[str, str]) -> tuple[tuple[str, str], tuple[str, str]]:
    values = {name: given.get(name, f"%({name})s") for name in JOB_INSERT}
    of_event = {
        "job_id": values["id"],
        "created_at": values["created_at"],
        "event_type": "'created'",
        "to_status": values["status"],
    }
    return _insert(tables.jobs, values), _insert(tables.events, of_event)


def _insert(table: Table, values: Mapping[str, str]) -> tuple[str, str]:
    columns = ", ".join(f"`{name}`" for name in values)
    return f"INSERT INTO {name_of(table)} ({columns})", ", ".join(values.values())


def name_of(table: Table) -> str:
    name: Any = mysql.dialect().identifier_preparer.format_table(table)
    return str(name)
