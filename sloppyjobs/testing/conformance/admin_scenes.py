"""Jobs in every state, made the way that workers and operators make them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from sloppyjobs.domain.model import Claim, Job, WorkerInfo
from sloppyjobs.domain.states import Status
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.storage.ports.records import JobRecord
from sloppyjobs.testing.conformance.records import unless_refused
from sloppyjobs.views import Page

NAME = "greet"
WORKER = "worker_1"


def declared(jobs: Jobs, name: str = NAME) -> Jobs:
    """The jobs, knowing the one that these tests enqueue."""
    if jobs.definitions.get(name) is None:
        jobs.declare(name)
    return jobs


def queued(jobs: Jobs, *, name: str = NAME, **options: Any) -> Job:
    """A job that is due."""
    return declared(jobs, name).enqueue(name, {"to": "Ada"}, **options)


def _claimed(jobs: Jobs, worker: str, options: dict[str, Any]) -> tuple[Job, Claim]:
    # Of a high priority, so that it is this job which is claimed, whatever else is queued.
    job = queued(jobs, **({"priority": 100} | options))
    [claim] = jobs.claim(worker, queues=[job.queue])
    assert claim.id == job.id
    return job, claim


def succeeded(jobs: Jobs, result: Any = None, **options: Any) -> Job:
    """A job that ran well."""
    job, claim = _claimed(jobs, WORKER, options)
    assert jobs.complete(claim, result)
    return jobs.get(job.id)


def running(jobs: Jobs, worker: str = WORKER, **options: Any) -> Job:
    """A job that a worker holds."""
    return _claimed(jobs, worker, options)[1].job


def failed_once(jobs: Jobs, error: BaseException | str = "no", **options: Any) -> Job:
    """A job that waits for its next attempt."""
    job, claim = _claimed(jobs, WORKER, options)
    assert jobs.fail(claim, error, retry_after=60)
    return jobs.get(job.id)


def dead(jobs: Jobs, error: BaseException | str = "no", **options: Any) -> Job:
    """A job whose only attempt failed."""
    job, claim = _claimed(jobs, WORKER, options | {"max_attempts": 1})
    assert jobs.fail(claim, error)
    return jobs.get(job.id)


def in_status(jobs: Jobs, status: Status) -> Job:
    """A job in the given state, as far as anything leads there yet."""
    admin = jobs.admin
    made: dict[Status, Callable[[], str]] = {
        Status.QUEUED: lambda: queued(jobs).id,
        Status.SCHEDULED: lambda: queued(jobs, delay=60).id,
        Status.PROCESSING: lambda: running(jobs).id,
        Status.SUCCEEDED: lambda: succeeded(jobs).id,
        Status.RETRYING: lambda: failed_once(jobs).id,
        Status.DEAD: lambda: dead(jobs).id,
        Status.CANCELLED: lambda: admin.cancel(queued(jobs).id).id,
        Status.PAUSED: lambda: admin.pause(queued(jobs).id).id,
        Status.DELETED: lambda: admin.delete(queued(jobs).id).id,
    }
    job = jobs.get(made[status]())
    assert job.status is status
    return job


REACHABLE = tuple(status for status in Status if status not in (Status.FAILED, Status.WAITING))
"""The states in which a job can be found."""


def one_after_another(jobs: Jobs, clock: FakeClock, number: int, **options: Any) -> list[str]:
    """Queued jobs with a second between them; their ids, oldest first."""
    ids = []
    for _ in range(number):
        ids.append(queued(jobs, **options).id)
        clock.advance(1)
    return ids


def live_worker(jobs: Jobs, id: str = WORKER, **options: Any) -> WorkerInfo:
    """A worker that has just registered."""
    fields: dict[str, Any] = {
        "hostname": "host",
        "pid": 1,
        "queues": ("*",),
        "names": (NAME,),
        "concurrency": 4,
        "heartbeat": 5.0,
        "version": "1",
    }
    worker = WorkerInfo(id=id, **(fields | options))
    jobs.storage.workers.register(worker)
    return worker


def whole_list(read: Callable[..., Page[Any]], **options: Any) -> tuple[list[Any], list[int]]:
    """Everything that a list holds, page by page, and the sizes of the pages."""
    items: list[Any] = []
    sizes: list[int] = []
    cursor = None
    for _ in range(1000):
        page = read(cursor=cursor, **options)
        items += page.items
        sizes.append(len(page))
        cursor = page.next_cursor
        if cursor is None:
            return items, sizes
    raise AssertionError("the list does not end")


def many_rows(jobs: Jobs, number: int, status: str, start: int = 0, **values: Any) -> None:
    """Rows written straight into the table, a second apart, for lists too long to be made by hand."""
    now = jobs.storage.clock.now()
    written = []
    for place in range(start, start + number):
        moment = now + timedelta(seconds=place)
        plain = JobRecord(f"job_{place:026d}", NAME, "default", status, 0, moment, moment, moment, 0, 3, "{}")
        written.append(
            plain._replace(**{name: value(place) if callable(value) else value for name, value in values.items()})
        )
    with unless_refused():
        jobs.storage.inspection.add_jobs(written)


def table_sizes(jobs: Jobs) -> dict[str, int]:
    """How many rows there are of each kind."""
    return dict(jobs.storage.inspection.counts())


def ids_of(rows: Sequence[Any]) -> list[str]:
    """The ids of jobs, in order."""
    return [row.id for row in rows]
