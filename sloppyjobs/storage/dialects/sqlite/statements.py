"""The set-based statements of SQLite as text: many rows in one step, from one JSON value."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from sqlalchemy.dialects import sqlite

from sloppyjobs.storage.dialects.sqlite.schema import NOW
from sloppyjobs.storage.jobs.new_rows import JOB_INSERT
from sloppyjobs.storage.schema.tables import Tables


class Statements(NamedTuple):
    """The texts for one installation."""

    open_attempts: str
    record_claims: str
    close_attempts: str
    record_successes: str
    succeed: Mapping[tuple[bool, bool], str]
    """The update of jobs that went well: by whether any has a result, and whether nobody has read their rows."""
    insert_keys: str
    """Keys of jobs by their ids, that are kept alike."""
    insert_tags: str
    """The ids of jobs by their tags."""
    fail: Mapping[bool, str]
    """The update of jobs that failed alike: by whether each has a due time of its own."""
    fail_attempts: str
    record_failures: Mapping[bool, str]
    """The first event of each of them, with its message; by the same."""
    record_edges: str
    """The further events, one statement for each edge."""
    jobs: str
    """The name of the table of jobs."""
    events: str
    look: str
    """What time it is, whether a queue has its row, and whether a key is taken."""
    insert_one: tuple[str, str]
    """The inserts of a job and of its first event."""


def statements(tables: Tables) -> Statements:
    """The statements over these tables."""
    format_table = sqlite.dialect().identifier_preparer.format_table
    names = {
        "jobs": format_table(tables.jobs),
        "attempts": format_table(tables.attempts),
        "events": format_table(tables.events),
        "queues": format_table(tables.queues),
        "keys": format_table(tables.keys),
        "tags": format_table(tables.tags),
    }
    succeed = {
        (results, unread): _succeed_jobs(names["jobs"], results=results, unread=unread)
        for results in (False, True)
        for unread in (False, True)
    }
    return Statements(
        open_attempts=_OPEN_ATTEMPTS.format(**names),
        record_claims=_RECORD_CLAIMS.format(**names),
        close_attempts=_CLOSE_ATTEMPTS.format(**names),
        record_successes=_RECORD_SUCCESSES.format(**names),
        succeed=succeed,
        insert_keys=_INSERT_KEYS.format(**names),
        insert_tags=_INSERT_TAGS.format(**names),
        fail={apart: _FAIL.format(jobs=names["jobs"], held=_UNREAD, **_GIVEN[apart]) for apart in _GIVEN},
        fail_attempts=_FAIL_ATTEMPTS.format(**names),
        record_failures={apart: _RECORD_FAILURES.format(**names, **_GIVEN[apart]) for apart in _GIVEN},
        record_edges=_RECORD_EDGES.format(**names),
        jobs=names["jobs"],
        events=names["events"],
        look=_LOOK.format(now=NOW, **names),
        insert_one=_insert_one(names["jobs"], names["events"]),
    )


def _insert_one(jobs: str, events: str) -> tuple[str, str]:
    """By value, and not from JSON, which takes as long again for a single row."""
    given = {name: f":{name}" for name in JOB_INSERT}
    of_event = _event_values(given)
    return (
        f"INSERT INTO {jobs} ({', '.join(given)}) VALUES ({', '.join(given.values())})",
        f"INSERT INTO {events} ({', '.join(of_event)}) VALUES ({', '.join(of_event.values())})",
    )


@lru_cache(maxsize=500)
def insert_jobs(jobs: str, events: str, own: tuple[str, ...]) -> tuple[str, str]:
    """Inserts of jobs and of their first events: the columns in which the jobs differ, as JSON rows, and the others."""
    given = {name: f"json_extract(value, '$[{place}]')" for place, name in enumerate(own)}
    values = {name: given.get(name, f":{name}") for name in JOB_INSERT}
    return _insert_given(jobs, values), _insert_given(events, _event_values(values))


def _event_values(values: Mapping[str, str]) -> dict[str, str]:
    """The columns of a job's first event, by the values of the job."""
    return {
        "job_id": values["id"],
        "created_at": values["created_at"],
        "event_type": "'created'",
        "to_status": values["status"],
    }


def _insert_given(table: str, values: Mapping[str, str]) -> str:
    return f"INSERT INTO {table} ({', '.join(values)}) SELECT {', '.join(values.values())} FROM json_each(:new)"


def _succeed_jobs(jobs: str, *, results: bool, unread: bool) -> str:
    text = _SUCCEED_WITH_RESULTS if results else _SUCCEED
    return text.format(jobs=jobs, held=_UNREAD if unread else _HELD, values=_SUCCEEDED)


_OPEN_ATTEMPTS = """
INSERT INTO {attempts} (job_id, attempt_number, worker_id, status, started_at)
SELECT value, :attempt, :worker, 'running', :now FROM json_each(:ids)
"""
_RECORD_CLAIMS = """
INSERT INTO {events} (job_id, event_type, from_status, to_status, attempt_number, worker_id, created_at)
SELECT value, 'claimed', 'queued', 'processing', :attempt, :worker, :now FROM json_each(:ids)
"""
_CLOSE_ATTEMPTS = """
UPDATE {attempts} SET status = 'succeeded', finished_at = :now, run_seconds = given.value
FROM json_each(:times) AS given WHERE job_id = given.key AND attempt_number = :attempt
"""
_RECORD_SUCCESSES = """
INSERT INTO {events} (job_id, event_type, from_status, to_status, attempt_number, worker_id, created_at)
SELECT value, 'succeeded', 'processing', 'succeeded', :attempt, :worker, :now FROM json_each(:ids)
"""
_INSERT_KEYS = """
INSERT INTO {keys} (job_id, key, until_start, reserved_until, created_at)
SELECT key, value, :until_start, :reserved_until, :now FROM json_each(:keys)
"""
_INSERT_TAGS = """
INSERT INTO {tags} (tag, created_at, job_id)
SELECT tagged.key, :now, job.value FROM json_each(:ids) AS tagged, json_each(tagged.value) AS job
"""
_LOOK = """
SELECT {now}, EXISTS (SELECT 1 FROM {queues} WHERE name = :queue),
  EXISTS (SELECT 1 FROM {jobs} WHERE idempotency_key = :key)
"""

_SUCCEEDED = """status = 'succeeded', updated_at = :now, finished_at = :now, locked_by = NULL, locked_until = NULL,
  error_code = NULL, error_type = NULL, error_message = NULL, error_frame = NULL"""
# An expression, not the column: the partial indexes must look unusable, for the way is by primary key.
_HELD = "coalesce(status, '') = 'processing' AND locked_by = :worker AND attempt_count = :attempt"
_UNREAD = f"{_HELD} AND followups IS :followups"
_SUCCEED = "UPDATE {jobs} SET {values}, result = NULL WHERE id IN (SELECT value FROM json_each(:ids)) AND {held}"
_SUCCEED_WITH_RESULTS = """
UPDATE {jobs} SET {values}, result = given.value
FROM json_each(:results) AS given WHERE {jobs}.id = given.key AND {held}
"""

# What jobs that failed alike share is given once: to take it out of JSON for each of them costs as much as the write.
_GIVEN: Mapping[bool, Mapping[str, str]] = {
    False: {"message": "given.value", "due": ":due"},
    True: {"message": "json_extract(given.value, '$[0]')", "due": "json_extract(given.value, '$[1]')"},
}
_FAIL = """
UPDATE {jobs} SET status = :last, run_at = coalesce({due}, run_at), updated_at = :now, finished_at = :finished,
  locked_by = NULL, locked_until = NULL, max_attempts = max_attempts + :extra,
  error_code = :code, error_type = :type, error_frame = :frame, error_message = {message}
FROM json_each(:given) AS given WHERE {jobs}.id = given.key AND {held}
"""
_RECORD_FAILURES = """
INSERT INTO {events} (job_id, event_type, from_status, to_status, attempt_number, worker_id, message, created_at)
SELECT given.key, :event, :source, :target, :attempt, :worker, {message}, :now FROM json_each(:given) AS given
"""
_FAIL_ATTEMPTS = """
UPDATE {attempts} SET status = :ended, finished_at = :now, run_seconds = json_extract(given.value, '$[0]'),
  error_code = :code, error_type = :type, error_frame = :frame, error_message = json_extract(given.value, '$[1]'),
  traceback = coalesce(json_extract(given.value, '$[2]'), :beginning || json_extract(given.value, '$[1]') || char(10))
FROM json_each(:endings) AS given WHERE job_id = given.key AND attempt_number = :attempt
"""
_RECORD_EDGES = """
INSERT INTO {events} (job_id, event_type, from_status, to_status, attempt_number, worker_id, created_at)
SELECT key, :event, :source, :target, :attempt, :worker, :now FROM json_each(:given)
"""
