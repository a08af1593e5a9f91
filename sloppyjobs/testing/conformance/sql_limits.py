"""Limits in SQL: no row of a line stays behind a job that has left it."""

from __future__ import annotations

from sqlalchemy import func, select

from sloppyjobs.jobs import Jobs
from sloppyjobs.testing.conformance.sql_storage import sql_storage


def _in_line(jobs: Jobs) -> int:
    storage = sql_storage(jobs)
    with storage.engine.connect() as connection:
        number: int = connection.execute(select(func.count()).select_from(storage.tables.parked)).scalar_one()
    return number


def test_whoever_starts_leaves_the_line_also_when_the_limit_is_gone(jobs: Jobs) -> None:
    jobs.declare("work")
    jobs.limit("api", concurrency=1)
    jobs.enqueue_many([("work", None, {"resource": "api"})] * 4)
    jobs.claim("worker-1", limit=10)
    assert _in_line(jobs) == 3
    jobs.admin.delete_limit("api")
    assert len(jobs.claim("worker-1", limit=10)) == 3
    assert _in_line(jobs) == 0
