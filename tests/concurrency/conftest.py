"""Crowds of processes for the tests of races."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import warm_start

from sloppyjobs import Jobs
from sloppyjobs.testing import history

Crowd = Callable[..., list[Any]]


@pytest.fixture
def crowd(request: pytest.FixtureRequest) -> Crowd:
    """Runs a function of the test's own file in processes that begin together; returns what they returned."""

    def run(name: str, url: str, size: int = 8) -> list[Any]:
        command = [sys.executable, str(request.path), name, url, str(size)]
        ran = warm_start.run(command, capture_output=True, text=True, timeout=250, check=False)
        assert ran.returncode == 0, ran.stderr
        results: list[Any] = json.loads(ran.stdout)
        return results

    return run


@pytest.fixture(autouse=True)
def sound(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever the processes did to each other: the tables keep every promise when the test ends."""
    if "database_url" not in request.fixturenames:
        yield
        return
    url = request.getfixturevalue("database_url")
    yield
    jobs = Jobs(url)
    history.assert_sound(jobs)
    jobs.storage.close()
