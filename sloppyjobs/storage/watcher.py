"""Waiting for commits that may concern workers."""

from __future__ import annotations

import time
from typing import Protocol


class Watcher(Protocol):
    """Waits on a connection of its own. A worker polls as well, so a missed word costs time and nothing else."""

    def wait(self, seconds: float) -> bool:
        """True as soon as there is news, False after so many seconds. Raises when the connection is lost."""
        ...

    def close(self) -> None:
        """Give the connection back."""
        ...


class NoWatcher:
    """For databases and drivers that tell nobody of a commit: the worker's polling has to do."""

    def wait(self, seconds: float) -> bool:
        time.sleep(seconds)
        return False

    def close(self) -> None:
        """There is nothing to close."""
