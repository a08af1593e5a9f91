"""Workflows whose workers are killed: no job of the graph starts early, and none waits for ever."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sloppyjobs import Jobs
from sloppyjobs.testing import history

KILLED = Path(__file__).with_name("killed_in_graph.py")
DATABASES = {"sqlite": "ready_sqlite_url", "postgres": "postgres_url", "mariadb": "new_mariadb_url"}


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest) -> str:
    """On every kind of database."""
    url: str = request.getfixturevalue(DATABASES[request.param])
    return url


@pytest.mark.slow
@pytest.mark.parametrize("point", ["handler", "decided", "released"])
def test_a_workflow_outlives_a_worker_that_is_killed(
    jobs: Jobs, start: Callable[..., Any], eventually: Callable[..., Any], database_url: str, point: str
) -> None:
    jobs.define("work", lambda _ctx, _payload: None)
    with jobs.workflow("graph") as flow:
        first = flow.add("work", 1)
        sides = [flow.add("work", side, after=first) for side in range(6)]
        flow.add("work", 9, after=sides)
        flow.add("work", 10, after=sides, on="failure", any=True)
    killed = subprocess.Popen([sys.executable, str(KILLED), database_url, point])
    assert killed.wait(60) == -9
    assert jobs.admin.get_workflow(flow.id).counts == {"processing": 1, "waiting": 8}
    start(poll_interval=0.1)
    eventually(lambda: jobs.admin.get_workflow(flow.id).status == "succeeded")
    history.assert_sound(jobs, within=60)
    assert jobs.admin.get_workflow(flow.id).counts == {"succeeded": 8, "cancelled": 1}
