"""The example that kills its worker tells the truth."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "survive_kill.py"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_every_job_is_completed_after_the_kill(kind: str, request: pytest.FixtureRequest) -> None:
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
    assert "order 2 was rolled back, and so was its job: None" in shown.stdout
    assert "the worker was killed in the middle of a job: ['processing', 'queued', 'queued']" in shown.stdout
    assert shown.stdout.count("succeeded after") == 3
    assert "book packed" in shown.stdout
