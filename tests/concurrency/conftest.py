"""Crowds of processes for the tests of races."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

Crowd = Callable[..., list[Any]]


@pytest.fixture
def crowd(request: pytest.FixtureRequest) -> Crowd:
    """Runs a function of the test's own file in processes that begin together; returns what they returned."""

    def run(name: str, url: str, size: int = 8) -> list[Any]:
        command = [sys.executable, str(request.path), name, url, str(size)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
        assert ran.returncode == 0, ran.stderr
        results: list[Any] = json.loads(ran.stdout)
        return results

    return run
