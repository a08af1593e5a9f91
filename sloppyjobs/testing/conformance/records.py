"""What the tests of the suite ask of a store's ``Inspection``, and what must hold for every job at any time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sloppyjobs.domain.states import INITIAL, Status, allowed
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.ports.records import AttemptRecord, EventRecord, JobRecord


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


def damage(jobs: Jobs, job_id: str, **values: Any) -> None:
    """Write into the job's row what the library never would."""
    jobs.storage.inspection.set_job(job_id, **values)


def pause_queue(jobs: Jobs, queue: str, **values: Any) -> None:
    """Set ``paused_at`` and ``paused_until`` of a queue that has been seen."""
    jobs.storage.inspection.set_queue(queue, **values)


def check_every_history(jobs: Jobs) -> None:
    """Every job is where its events lead, by legal edges, and its attempts are 1, 2, 3 … within the budget.

    Rows that a test wrote by hand have no events, and are passed over.
    """
    inspection = jobs.storage.inspection
    by_job: dict[str, tuple[list[EventRecord], list[AttemptRecord]]] = defaultdict(lambda: ([], []))
    for event in inspection.events():
        by_job[event.job_id][0].append(event)
    for attempt in inspection.attempts():
        by_job[attempt.job_id][1].append(attempt)
    for job in inspection.jobs():
        if by_job[job.id][0]:
            _check_history(job, *by_job[job.id])


def _check_history(job: JobRecord, events: Sequence[EventRecord], attempted: Sequence[AttemptRecord]) -> None:
    assert events[0].from_status is None
    assert Status(events[0].to_status) in INITIAL
    for before, after in pairwise(events):
        assert before.to_status == after.from_status, f"the events of {job.id} do not join"
        assert allowed(Status(before.to_status), Status(after.to_status)), f"an illegal edge: {after}"
    claims = [event.attempt_number for event in events if event.to_status == "processing"]
    folded = (events[-1].to_status, len(claims), events[-1].created_at)
    assert (job.status, job.attempt_count, job.updated_at) == folded, f"folding the events of {job.id} differs"
    numbers = [attempt.attempt_number for attempt in attempted]
    assert numbers == claims == list(range(1, job.attempt_count + 1))
    assert job.attempt_count <= job.max_attempts
    running = job.status == "processing"
    open_ones = [attempt.attempt_number for attempt in attempted if attempt.status == "running"]
    assert open_ones == ([job.attempt_count] if running else [])
    assert (job.locked_by is not None, job.locked_until is not None) == (running, running)
    assert (job.finished_at is not None) == (job.status in {"succeeded", "dead", "cancelled", "deleted"})
