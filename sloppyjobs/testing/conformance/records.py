"""What the tests of the suite read behind the library's back, and what must hold for every job at any time."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

from sqlalchemy import Table, func, select, update

from sloppyjobs.jobs import Jobs
from sloppyjobs.states import INITIAL, Status, allowed


def rows(jobs: Jobs, table: Table) -> list[dict[str, Any]]:
    """Every row of a table, in the order of its primary key."""
    with jobs.storage.engine.connect() as connection:
        found = connection.execute(select(table).order_by(*table.primary_key)).mappings()
        return [dict(row) for row in found]


def count(jobs: Jobs, table: Table | None = None) -> int:
    """How many rows a table has; the jobs by default."""
    counted = jobs.storage.tables.jobs if table is None else table
    with jobs.storage.engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(counted)).scalar_one()


def row(jobs: Jobs, job_id: str) -> dict[str, Any]:
    """The job's row, with the payload and everything else that a ``Job`` does not show."""
    table = jobs.storage.tables.jobs
    with jobs.storage.engine.connect() as connection:
        return dict(connection.execute(select(table).where(table.c.id == job_id)).mappings().one())


def events(jobs: Jobs, job_id: str) -> list[dict[str, Any]]:
    """The job's events, oldest first."""
    table = jobs.storage.tables.events
    with jobs.storage.engine.connect() as connection:
        query = select(table).where(table.c.job_id == job_id).order_by(table.c.id)
        return [dict(found) for found in connection.execute(query).mappings()]


def walked(jobs: Jobs, job_id: str) -> list[str]:
    """The job's events as ``type:status``, oldest first."""
    return [f"{event['event_type']}:{event['to_status']}" for event in events(jobs, job_id)]


def attempts(jobs: Jobs, job_id: str) -> list[dict[str, Any]]:
    """The job's attempts by number."""
    return [found for found in rows(jobs, jobs.storage.tables.attempts) if found["job_id"] == job_id]


def ends(jobs: Jobs, job_id: str) -> list[tuple[int, str]]:
    """Number and status of each of the job's attempts."""
    return [(attempt["attempt_number"], attempt["status"]) for attempt in attempts(jobs, job_id)]


def damage(jobs: Jobs, job_id: str, **values: Any) -> None:
    """Write into the job's row what the library never would."""
    table = jobs.storage.tables.jobs
    with jobs.storage.engine.begin() as connection:
        connection.execute(update(table).where(table.c.id == job_id).values(**values))


def pause_queue(jobs: Jobs, queue: str, **values: Any) -> None:
    """Set ``paused_at`` and ``paused_until`` of a queue that has been seen."""
    table = jobs.storage.tables.queues
    with jobs.storage.engine.begin() as connection:
        assert connection.execute(update(table).where(table.c.name == queue).values(**values)).rowcount == 1


def check_every_history(jobs: Jobs) -> None:
    """Every job is where its events lead, by legal edges, and its attempts are 1, 2, 3 … within the budget.

    Rows that a test wrote by hand have no events, and are passed over.
    """
    tables = jobs.storage.tables
    by_job: dict[str, tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
    for event in sorted(rows(jobs, tables.events), key=lambda event: event["id"]):
        by_job[event["job_id"]][0].append(event)
    for attempt in rows(jobs, tables.attempts):
        by_job[attempt["job_id"]][1].append(attempt)
    for job in rows(jobs, tables.jobs):
        if by_job[job["id"]][0]:
            _check_history(job, *by_job[job["id"]])


def _check_history(job: dict[str, Any], walk: list[Any], attempted: list[Any]) -> None:
    assert walk[0]["from_status"] is None
    assert Status(walk[0]["to_status"]) in INITIAL
    for before, after in pairwise(walk):
        assert before["to_status"] == after["from_status"], f"the events of {job['id']} do not join"
        assert allowed(Status(after["from_status"]), Status(after["to_status"])), f"an illegal edge: {after}"
    claims = [event["attempt_number"] for event in walk if event["to_status"] == "processing"]
    folded = {"status": walk[-1]["to_status"], "attempt_count": len(claims), "updated_at": walk[-1]["created_at"]}
    assert {key: job[key] for key in folded} == folded, f"folding the events of {job['id']} does not give its row"
    numbers = [attempt["attempt_number"] for attempt in attempted]
    assert numbers == claims == list(range(1, job["attempt_count"] + 1))
    assert job["attempt_count"] <= job["max_attempts"]
    running = job["status"] == "processing"
    open_ones = [attempt["attempt_number"] for attempt in attempted if attempt["status"] == "running"]
    assert open_ones == ([job["attempt_count"]] if running else [])
    assert (job["locked_by"] is not None, job["locked_until"] is not None) == (running, running)
    assert (job["finished_at"] is not None) == (job["status"] in {"succeeded", "dead", "cancelled", "deleted"})
