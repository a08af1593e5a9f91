"""Workers that every test stops again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sloppyjobs import Jobs, Worker
from sloppyjobs.storage import SqlStore


@pytest.fixture
def jobs(make_storage: Callable[..., SqlStore]) -> Jobs:
    """Jobs under the database's own clock."""
    return Jobs(make_storage())


@pytest.fixture
def start(jobs: Jobs) -> Iterator[Callable[..., Worker]]:
    """Starts workers with short times.

    A pool of processes starts as many as may run at once, and each imports everything: for handlers in processes, give
    a small ``concurrency``.
    """
    started: list[Worker] = []

    def start_worker(**settings: Any) -> Worker:
        chosen = {"poll_interval": 0.2, "lease": 60, "heartbeat": 0.5, "recurring": False, "maintenance": False}
        worker = jobs.create_worker(**{**chosen, **settings})
        worker.start()
        started.append(worker)
        return worker

    yield start_worker
    for worker in started:
        worker.stop(timeout=0)
