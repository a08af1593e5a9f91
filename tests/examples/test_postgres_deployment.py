"""The deployment example: gunicorn, supervised workers and a kill, as real processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import warm_start

EXAMPLE = Path(__file__).parents[2] / "examples" / "postgres_deployment" / "run.py"


@pytest.mark.slow
def test_nothing_is_lost_when_a_worker_is_killed(empty_postgres_url: str) -> None:
    shown = warm_start.run(
        [sys.executable, str(EXAMPLE)],
        env={**os.environ, "DATABASE_URL": empty_postgres_url},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    for line in (
        "-- killed the worker that was packing the piano",
        "-- every order was packed",
        "-- the supervisor started another worker",
        "-- the admin UI answers Overview",
        "-- the workers drained and left with 0",
        "-- gunicorn left with 0",
    ):
        assert line in shown.stdout
    assert "giving back at once" not in shown.stderr
