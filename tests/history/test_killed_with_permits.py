"""A worker that is killed with permits in its hands leaves none behind, on every database."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import warm_start

from sloppyjobs import Jobs
from sloppyjobs.testing.history import Log, check

KILLED_WITH_PERMITS = Path(__file__).with_name("killed_with_permits.py")


def test_a_worker_that_is_killed_with_its_permits_leaves_none_behind(jobs: Jobs, log: Log, database_url: str) -> None:
    jobs.limit("api", concurrency=2)
    jobs.enqueue_many([("greet", None, {"resource": "api", "partition": "t"})] * 6)
    killed = warm_start.run([sys.executable, str(KILLED_WITH_PERMITS), database_url], timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert jobs.admin.get_limit("api").held == 2
    worker = jobs.create_worker(concurrency=4, maintenance=False)
    worker.start()
    try:
        assert check(jobs, log, within=60) == []
    finally:
        worker.stop()
    assert jobs.admin.get_limit("api").held == 0
    assert {job.status.value for job in jobs.admin.list_jobs()} == {"succeeded"}
