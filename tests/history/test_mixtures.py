"""Keys, dependencies, batches, limits, steps and tags at once, while workers are killed and jobs are cancelled."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import warm_start
from mixture import LIMITS, Producer, define

from sloppyjobs import Jobs
from sloppyjobs.storage import SqlStore
from sloppyjobs.testing.history import check

MIXTURE = Path(__file__).with_name("mixture.py")
ROUNDS = 24
DATABASES = {"sqlite": "ready_sqlite_url", "postgres": "postgres_url", "mariadb": "new_mariadb_url"}


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest) -> str:
    """On every database."""
    url: str = request.getfixturevalue(DATABASES[request.param])
    return url


def _start(database_url: str) -> warm_start.Popen:
    return warm_start.Popen([sys.executable, str(MIXTURE), database_url])


def _meddle(jobs: Jobs, place: int) -> None:
    """What an operator does: some of the dead are retried, some that wait are cancelled."""
    status = ("dead", "waiting", "queued")[place % 3]
    action = "retry" if status == "dead" else "cancel"
    jobs.admin.bulk(action, {"status": status}, limit=3, actor="ada")


@pytest.mark.timeout(240)
def test_nothing_is_lost_and_nothing_is_stuck_whatever_jobs_ask_for(
    make_storage: Callable[..., SqlStore], database_url: str
) -> None:
    jobs = define(Jobs(make_storage()))
    for name, limit in LIMITS.items():
        jobs.limit(name, **limit)
    producer = Producer(jobs, seed=7)
    workers = [_start(database_url) for _ in range(2)]
    try:
        for place in range(ROUNDS):
            producer.write()
            _meddle(jobs, place)
            if place % 8 == 7:
                workers[0].kill()
                workers[0].wait()
                workers = [*workers[1:], _start(database_url)]
        assert check(jobs, within=120) == []
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
