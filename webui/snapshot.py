"""A short-lived copy of the overview, so that its cost does not grow with the number of viewers."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from sloppyjobs.views import Overview

if TYPE_CHECKING:
    from sloppyjobs.admin import Admin

FRESH = 1.5
"""Seconds for which an overview is shown again."""
RECENT = 60.0
"""Seconds for which its counts are good enough for the navigation."""
SCOPES = 64
"""Sets of visible queues of which an overview is kept."""

Scope = tuple[str, ...] | None


class Snapshots:
    """The latest overviews of one blueprint, in this process: one for each set of queues that somebody sees."""

    def __init__(self, admin: Callable[[], Admin], clock: Callable[[], float] = time.monotonic) -> None:
        self._admin = admin
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[Scope, tuple[float, Overview]] = OrderedDict()

    def overview(self, scope: Scope, age: float = FRESH) -> Overview:
        """The overview of these queues, not older than ``age`` seconds; one caller reads it while the others wait."""
        with self._lock:
            kept = self._kept.get(scope)
            if kept is None or self._clock() - kept[0] > age:
                kept = self._kept[scope] = (self._clock(), self._admin().overview(queues=scope))
            self._kept.move_to_end(scope)
            while len(self._kept) > SCOPES:
                self._kept.popitem(last=False)
            return kept[1]

    def recent(self, scope: Scope) -> Overview | None:
        """The overview of these queues that somebody has read lately, if there is one; asks nothing."""
        kept = self._kept.get(scope)
        return None if kept is None or self._clock() - kept[0] > RECENT else kept[1]

    def forget(self) -> None:
        """After a command: what was kept is not true any more."""
        with self._lock:
            self._kept.clear()
