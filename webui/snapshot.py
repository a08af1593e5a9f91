"""A short-lived copy of the overview, so that its cost does not grow with the number of viewers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sloppyjobs.views import Overview

if TYPE_CHECKING:
    from sloppyjobs.admin import Admin

FRESH = 1.5
"""Seconds for which an overview is shown again."""
RECENT = 60.0
"""Seconds for which its counts are good enough for the navigation."""


class Snapshots:
    """The latest overview of one blueprint, in this process."""

    def __init__(self, admin: Callable[[], Admin], clock: Callable[[], float] = time.monotonic) -> None:
        self._admin = admin
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: tuple[float, Overview] | None = None

    def overview(self, age: float = FRESH) -> Overview:
        """The overview, not older than ``age`` seconds; one caller reads it while the others wait."""
        with self._lock:
            if self._kept is None or self._clock() - self._kept[0] > age:
                self._kept = (self._clock(), self._admin().overview())
            return self._kept[1]

    def recent(self) -> Overview | None:
        """The overview that somebody has read lately, if there is one; asks nothing."""
        kept = self._kept
        return None if kept is None or self._clock() - kept[0] > RECENT else kept[1]

    def forget(self) -> None:
        """After a command: what was kept is not true any more."""
        self._kept = None
