"""The smallest example does what it prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "minimal.py"


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_every_job_runs_and_the_failed_one_again(kind: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("sqlite_url" if kind == "sqlite" else "empty_postgres_url")
    shown = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        env={**os.environ, "DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines() == [
        "3 jobs are queued",
        "Hello, Ada! (succeeded at attempt 1)",
        "Hello, Grace! (succeeded at attempt 2)",
        "Hello, Edsger! (succeeded at attempt 1)",
    ]
