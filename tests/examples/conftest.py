"""Examples are run as a reader would run them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import warm_start

sys.path.insert(0, str(Path(__file__).parent))

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(params=["sqlite", "postgres"])
def shown_by(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Runs an example on an empty database of each kind; what it printed."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "empty_postgres_url")

    def run(name: str) -> str:
        shown = warm_start.run(
            [sys.executable, str(EXAMPLES / name)],
            env={**os.environ, "DATABASE_URL": url},
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
        assert shown.returncode == 0, shown.stderr
        return shown.stdout

    return run
