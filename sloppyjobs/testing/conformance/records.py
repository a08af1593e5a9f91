"""What the tests of the suite ask of a store's ``Inspection``, and what must hold for every job at any time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.ports.inspection import RowRefused
from sloppyjobs.storage.ports.records import AttemptRecord, EventRecord, JobRecord
from sloppyjobs.testing import history

ALWAYS = ("I3", "I4", "I5", "I6", "I14")
"""The invariants that hold at any time and by any clock, also one that a test sets back."""


def count(jobs: Jobs, what: str = "jobs") -> int:
    """How many rows of a kind there are."""
    return jobs.storage.inspection.counts()[what]


def row(jobs: Jobs, job_id: str) -> JobRecord:
    """The job's row, with the payload and everything else that a ``Job`` does not show."""
    return jobs.storage.inspection.job(job_id)


def events(jobs: Jobs, job_id: str) -> list[EventRecord]:
    """The job's events, oldest first."""
    return jobs.storage.inspection.events(job_id)


def transitions(jobs: Jobs, job_id: str) -> list[str]:
    """The job's events as ``type:status``, oldest first."""
    return [f"{event.event_type}:{event.to_status}" for event in events(jobs, job_id)]


def attempts(jobs: Jobs, job_id: str) -> list[AttemptRecord]:
    """The job's attempts by number."""
    return jobs.storage.inspection.attempts(job_id)


def ends(jobs: Jobs, job_id: str) -> list[tuple[int, str]]:
    """Number and status of each of the job's attempts."""
    return [(attempt.attempt_number, attempt.status) for attempt in attempts(jobs, job_id)]


@contextmanager
def unless_refused() -> Iterator[None]:
    """What cannot be damaged need not be borne."""
    try:
        yield
    except RowRefused:
        pytest.skip("the store itself keeps such a value out")


def told_apart(jobs: Jobs, texts: Sequence[str]) -> list[str]:
    """Those texts that the store tells from each other: to some, spaces at the end are nothing."""
    exact = getattr(jobs.storage.inspection, "trailing_spaces", True)
    return [text for text in texts if exact or not text.endswith(" ")]


def damage(jobs: Jobs, job_id: str, **values: Any) -> None:
    """Write into the job's row what the library never would."""
    with unless_refused():
        jobs.storage.inspection.set_job(job_id, **values)


def pause_queue(jobs: Jobs, queue: str, **values: Any) -> None:
    """Set ``paused_at`` and ``paused_until`` of a queue that has been seen."""
    jobs.storage.inspection.set_queue(queue, **values)


def check_every_history(jobs: Jobs) -> None:
    """Every job is where its events lead, by legal edges, and its attempts are 1, 2, 3 … within the budget.

    Rows that a test wrote by hand have no events, and are passed over.
    """
    found = history.violations(history.Evidence(history.Tables.of_jobs(jobs.storage.inspection)), ALWAYS)
    if found:
        raise AssertionError(history.report(found))
