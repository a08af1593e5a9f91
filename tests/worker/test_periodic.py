"""What a worker does beside its jobs."""

from __future__ import annotations

from datetime import UTC, datetime

from sloppyjobs import Jobs, Retention, storage
from sloppyjobs.testing import FakeClock
from sloppyjobs.worker.periodic import FIRST_MAINTENANCE_SECONDS, MAINTENANCE_SECONDS, PeriodicWork


def test_a_worker_that_has_just_started_leaves_old_jobs_for_later(ready_sqlite_url: str) -> None:
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    jobs = Jobs(storage.from_url(ready_sqlite_url, clock=clock))
    jobs.retention = Retention(succeeded=60)
    jobs.declare("greet")
    job = jobs.enqueue("greet")
    [claim] = jobs.claim("w1")
    jobs.complete(claim)
    clock.advance(61)
    work = PeriodicWork(jobs, "worker-1", jobs.storage, lambda: 0, lambda _: 0)
    assert work.maintain() == FIRST_MAINTENANCE_SECONDS
    assert jobs.get(job.id).status == "succeeded"
    assert work.maintain() == MAINTENANCE_SECONDS
    assert jobs.get(job.id).status == "deleted"
    jobs.storage.close()
