"""A short-lived copy of the overview, so that its cost does not grow with the number of viewers."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from sloppyjobs.views import Overview, Stats

if TYPE_CHECKING:
    from sloppyjobs.admin import Admin

FRESH = 1.5
"""Seconds for which an overview is shown again."""
HOUR = 60
"""Minutes over which an overview counts what is new, unless a page says otherwise."""
RECENT = 60.0
"""Seconds for which its counts are good enough for the navigation."""
KEPT = 128
"""Overviews that are kept: of sets of visible queues, each over a span of time."""

Scope = tuple[str, ...] | None


class Snapshot(NamedTuple):
    """One reading: the overview and, where a page has asked for it, what happened over the same span."""

    at: float
    overview: Overview
    stats: Stats | None = None


class Snapshots:
    """The latest overviews of one blueprint, in this process: one for each set of queues and span that is looked at."""

    def __init__(self, admin: Callable[[], Admin], clock: Callable[[], float] = time.monotonic) -> None:
        self._admin = admin
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Scope, int], Snapshot] = OrderedDict()
        self._latest: OrderedDict[Scope, Snapshot] = OrderedDict()

    def overview(self, scope: Scope, age: float = FRESH) -> Overview:
        """The overview of these queues, not older than ``age`` seconds; one caller reads it while the others wait."""
        with self._lock:
            kept = self._kept.get((scope, HOUR))
            if kept is None or self._old(kept, age):
                kept = self._keep(scope, Snapshot(self._clock(), self._admin().overview(queues=scope)))
            return kept.overview

    def page(self, scope: Scope, minutes: int) -> tuple[Overview, Stats]:
        """The overview with the counters of the last ``minutes``, which were read together."""
        with self._lock:
            kept = self._kept.get((scope, minutes))
            if kept is None or kept.stats is None or self._old(kept, FRESH):
                admin, at = self._admin(), self._clock()
                overview = admin.overview(queues=scope, minutes=minutes)
                stats = admin.stats(minutes=minutes, queues=scope, compare=True)
                self._keep(scope, Snapshot(at, overview, stats))
                return overview, stats
            return kept.overview, kept.stats

    def latest(self, scope: Scope, age: float) -> Overview:
        """The overview that was read last, over whatever span; read now where it is older than ``age`` seconds."""
        kept = self._latest.get(scope)
        return self.overview(scope, age) if kept is None or self._old(kept, age) else kept.overview

    def recent(self, scope: Scope) -> Overview | None:
        """The overview of these queues that somebody has read lately, if there is one; asks nothing."""
        kept = self._latest.get(scope)
        return None if kept is None or self._old(kept, RECENT) else kept.overview

    def forget(self) -> None:
        """After a command: what was kept is not true any more."""
        with self._lock:
            self._kept.clear()
            self._latest.clear()

    def _old(self, kept: Snapshot, age: float) -> bool:
        return self._clock() - kept.at > age

    def _keep(self, scope: Scope, snapshot: Snapshot) -> Snapshot:
        self._kept[scope, snapshot.overview.minutes] = self._latest[scope] = snapshot
        self._kept.move_to_end((scope, snapshot.overview.minutes))
        self._latest.move_to_end(scope)
        for kept in (self._kept, self._latest):
            while len(kept) > KEPT:
                kept.popitem(last=False)
        return snapshot
