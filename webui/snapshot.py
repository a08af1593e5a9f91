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

CACHE_SECONDS = 1.5
"""Seconds for which an overview is cached."""
DEFAULT_MINUTES = 60
"""Minutes over which an overview counts what is new, unless a page says otherwise."""
RECENT_SECONDS = 60.0
"""Seconds for which its counts are good enough for the navigation."""
CACHE_SIZE = 128
"""Overviews that are cached: of sets of visible queues, each over a span of time."""

Scope = tuple[str, ...] | None


class Snapshot(NamedTuple):
    """One reading: the overview and, where a page has asked for it, what happened over the same span."""

    at: float
    overview: Overview
    stats: Stats | None = None


class Snapshots:
    """The latest overviews of one blueprint, in this process: one for each set of queues and span that is viewed."""

    def __init__(self, admin: Callable[[], Admin], clock: Callable[[], float] = time.monotonic) -> None:
        self._admin = admin
        self._clock = clock
        self._lock = threading.Lock()
        self._cached: OrderedDict[tuple[Scope, int], Snapshot] = OrderedDict()
        self._latest: OrderedDict[Scope, Snapshot] = OrderedDict()

    def overview(self, scope: Scope, age: float = CACHE_SECONDS) -> Overview:
        """The overview of these queues, not older than ``age`` seconds; one caller reads it while the others wait."""
        with self._lock:
            cached = self._cached.get((scope, DEFAULT_MINUTES))
            if cached is None or self._old(cached, age):
                cached = self._store(scope, Snapshot(self._clock(), self._admin().overview(queues=scope)))
            return cached.overview

    def page(self, scope: Scope, minutes: int) -> tuple[Overview, Stats]:
        """The overview with the counters of the last ``minutes``, which were read at the same time."""
        with self._lock:
            cached = self._cached.get((scope, minutes))
            if cached is None or cached.stats is None or self._old(cached, CACHE_SECONDS):
                admin, at = self._admin(), self._clock()
                overview = admin.overview(queues=scope, minutes=minutes)
                stats = admin.stats(minutes=minutes, queues=scope, compare=True)
                self._store(scope, Snapshot(at, overview, stats))
                return overview, stats
            return cached.overview, cached.stats

    def latest(self, scope: Scope, age: float) -> Overview:
        """The overview that was read last, over whatever span; read now where it is older than ``age`` seconds."""
        cached = self._latest.get(scope)
        return self.overview(scope, age) if cached is None or self._old(cached, age) else cached.overview

    def recent(self, scope: Scope) -> Overview | None:
        """The overview of these queues that somebody has read lately, if there is one; asks nothing."""
        cached = self._latest.get(scope)
        return None if cached is None or self._old(cached, RECENT_SECONDS) else cached.overview

    def clear(self) -> None:
        """After a command: what is cached is out of date."""
        with self._lock:
            self._cached.clear()
            self._latest.clear()

    def _old(self, cached: Snapshot, age: float) -> bool:
        return self._clock() - cached.at > age

    def _store(self, scope: Scope, snapshot: Snapshot) -> Snapshot:
        self._cached[scope, snapshot.overview.minutes] = self._latest[scope] = snapshot
        self._cached.move_to_end((scope, snapshot.overview.minutes))
        self._latest.move_to_end(scope)
        for cached in (self._cached, self._latest):
            while len(cached) > CACHE_SIZE:
                cached.popitem(last=False)
        return snapshot
