"""A worker's metrics for Prometheus, in a registry of their own: that of the application is not touched."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sloppyjobs.views import QueueView
from sloppyjobs.worker.threads import Outage

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
CACHE_SECONDS = 5.0
"""How long the queues that were read are cached, so that many scrapes cost the database one query."""


class LoopStatus(NamedTuple):
    """What a worker's loop is doing."""

    turns: int
    since_turn: float
    running: int
    concurrency: int
    draining: bool
    stuck: int = 0
    """Slots that are held by handlers whose attempt has ended."""
    full: tuple[str, ...] = ()
    """The isolations in which no slot is left because of that."""


class WorkerMetrics:
    """Durations and outcomes as they happen; queues and the loop as they are when scraped."""

    def __init__(self, loop_status: Callable[[], LoopStatus], queues: Callable[[], Iterable[QueueView]]) -> None:
        self.registry = CollectorRegistry()
        self._durations = Histogram(
            "sloppyjobs_job_duration_seconds",
            "How long handlers ran, by the job's name",
            ["name"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._outcomes = Counter(
            "sloppyjobs_attempts_settled",
            "Attempts settled, by the job's name and what became of it",
            ["name", "outcome"],
            registry=self.registry,
        )
        self.registry.register(_Loop(loop_status))
        self.registry.register(_Queues(queues))

    def settled(self, name: str, outcome: str, seconds: float | None) -> None:
        """An attempt was settled after its handler had run so long; None where it had not begun."""
        self._outcomes.labels(name, outcome).inc()
        if seconds is not None:
            self._durations.labels(name).observe(seconds)


class _Loop(Collector):
    """The worker's loop when it is scraped."""

    def __init__(self, loop_status: Callable[[], LoopStatus]) -> None:
        self._loop_status = loop_status

    def collect(self) -> Iterable[Metric]:
        """Every metric."""
        status = self._loop_status()
        yield CounterMetricFamily("sloppyjobs_worker_turns", "Turns of the worker's loop", value=status.turns)
        readings = {
            "running": ("Handlers that run at this moment", status.running),
            "concurrency": ("Handlers that can run at once", status.concurrency),
            "stuck": ("Slots held by handlers that go on after their attempt has ended", status.stuck),
            "last_turn_seconds": ("How long ago the loop last turned", status.since_turn),
            "draining": ("1 while the worker is on its way out", int(status.draining)),
        }
        for name, (text, value) in readings.items():
            yield GaugeMetricFamily(f"sloppyjobs_worker_{name}", text, value=value)


class _Queues(Collector):
    """What waits in the queues. There are no samples while the database cannot be read."""

    def __init__(self, read: Callable[[], Iterable[QueueView]]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._cached: list[QueueView] = []
        self._cached_at: float | None = None
        self._outage = Outage("reading the queues for the metrics")

    def collect(self) -> Iterable[Metric]:
        """Depth and age of every queue, under the names of the admin pages' metrics."""
        depth = GaugeMetricFamily("sloppyjobs_queue_depth", "Queued jobs, counted up to 10,000", labels=["queue"])
        wait = GaugeMetricFamily(
            "sloppyjobs_queue_wait_seconds", "How long the oldest queued job has been due", labels=["queue"]
        )
        for queue in self._queues():
            depth.add_metric([queue.name], queue.depth.value)
            wait.add_metric([queue.name], queue.oldest_queued_seconds or 0.0)
        return (depth, wait)

    def _queues(self) -> list[QueueView]:
        with self._lock:
            now = time.monotonic()
            if self._cached_at is None or now - self._cached_at > CACHE_SECONDS:
                try:
                    self._cached = list(self._read())
                except Exception as error:
                    self._outage.failed(error)
                    self._cached = []
                else:
                    self._outage.succeeded()
                self._cached_at = now
            return self._cached
