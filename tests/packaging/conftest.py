"""The archives of a release, built once; and the modules that run the tutorial, by name."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
sys.path[:0] = [str(TESTS / folder) for folder in ("packaging", "docs", "web")]


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder with the source archive and with the wheel that was built from it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "archives"
    # The processes of a test run share it; whoever comes first builds.
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            draft = folder.with_suffix(".draft")
            command = [sys.executable, "-m", "build", "--outdir", str(draft), str(ROOT)]
            built = subprocess.run(command, cwd=base, capture_output=True, text=True, check=False)
            assert built.returncode == 0, built.stdout + built.stderr
            draft.rename(folder)
    return folder
