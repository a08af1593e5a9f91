"""Dependencies in SQL: parents whose end nobody saw."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import null, update

from sloppyjobs.domain.dependencies import After
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.retry import NO_RETRY
from sloppyjobs.jobs import Jobs
from sloppyjobs.testing.conformance.sql_storage import sql_storage

_WAITS = "waiting"
_ENDS: dict[str, Callable[[Jobs, Job], object]] = {
    "succeeded": lambda jobs, _job: jobs.complete(jobs.claim("worker-1")[0]),
    "dead": lambda jobs, _job: jobs.fail(jobs.claim("worker-1")[0], ValueError("no")),
    "cancelled": lambda jobs, job: jobs.admin.cancel(job.id),
    "deleted": lambda jobs, job: jobs.admin.delete(job.id),
    "not ended": lambda jobs, job: jobs.admin.get_job(job.id),
}


@pytest.mark.parametrize(
    ("end", "success", "failure", "always"),
    [
        ("succeeded", "queued", "cancelled", "queued"),
        ("dead", _WAITS, "queued", "queued"),
        ("cancelled", "cancelled", "queued", "queued"),
        ("deleted", "cancelled", "queued", "queued"),
        ("not ended", _WAITS, _WAITS, _WAITS),
    ],
)
def test_the_end_of_a_parent_that_nobody_saw_is_found(
    live_jobs: Jobs, end: str, success: str, failure: str, always: str
) -> None:
    live_jobs.declare("work", retry=NO_RETRY)
    parent = live_jobs.enqueue("work")
    children = [live_jobs.enqueue("work", depends_on=[After(parent, on=on)]) for on in ("success", "failure", "always")]
    grandchild = live_jobs.enqueue("work", depends_on=[children[0]])
    store = sql_storage(live_jobs)
    jobs = store.tables.jobs
    with store.database.writing() as connection:
        # As if nothing hung on it.
        connection.execute(update(jobs).where(jobs.c.id == parent.id).values(followups=null()))
    _ENDS[end](live_jobs, parent)

    def statuses() -> list[str]:
        return [live_jobs.admin.get_job(job.id).status.value for job in (*children, grandchild)]

    assert statuses() == [_WAITS] * 4
    moved = live_jobs.storage.cleanup.release_waiting(100)
    found = statuses()
    assert found == [success, failure, always, "cancelled" if success == "cancelled" else _WAITS]
    assert moved == 4 - found.count(_WAITS)
    assert live_jobs.storage.cleanup.release_waiting(100) == 0
