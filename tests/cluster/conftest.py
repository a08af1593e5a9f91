"""The parts of ``make cluster``, and folders for its servers."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent))


@pytest.fixture
def server_folder() -> Iterator[Path]:
    """A folder that the servers' account can enter; the path is short, because sockets live there."""
    folder = Path(tempfile.mkdtemp(prefix="sloppy-cluster-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
