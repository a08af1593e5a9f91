"""``/metrics`` for Prometheus, from a registry of its own: a host's metrics are neither shown nor touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from flask import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sloppyjobs.views import Overview, QueueView
from webui.attention import CODES
from webui.routes import OTHERS, SIGNED_IN, Route
from webui.ui import Ui, visit
from webui.views.frame import nowhere

QUEUES = 500


class _Collected(Collector):
    """One reading, as metrics. Counts of jobs stop at a bound, as everywhere."""

    def __init__(self, overview: Overview, queues: Iterable[QueueView]) -> None:
        self._overview = overview
        self._queues = list(queues)

    def collect(self) -> Iterable[Metric]:
        """Every metric."""
        yield from self._statuses()
        yield from self._of_queues()
        yield _single("sloppyjobs_workers_live", "Workers heard of lately", self._overview.live_workers)
        yield _single("sloppyjobs_workers_stale", "Workers that missed heartbeats", len(self._overview.stale_workers))
        late = len(self._overview.late_schedules)
        yield _single("sloppyjobs_schedules_late", "Schedules that should have fired, 5 at most", late)
        yield _single("sloppyjobs_jobs_due", "Jobs that could run now, counted up to a bound", self._overview.due.value)
        yield self._attention()

    def _attention(self) -> Metric:
        """A series for every code, also at 0, so that an alert can be written before it happens."""
        family = GaugeMetricFamily("sloppyjobs_attention", "Things that need an operator, by kind", labels=["code"])
        numbers = Counter(dict.fromkeys(CODES, 0))
        for one in self._overview.attention:
            numbers[one.code] += 1 + one.more
        for code, number in sorted(numbers.items()):
            family.add_metric([code], number)
        return family

    def _statuses(self) -> Iterable[Metric]:
        jobs = GaugeMetricFamily("sloppyjobs_jobs", "Jobs by status, counted up to a bound", labels=["status"])
        oldest = GaugeMetricFamily("sloppyjobs_oldest_job_seconds", "Age of the oldest job", labels=["status"])
        for one in self._overview.statuses:
            jobs.add_metric([one.status.value], one.count.value)
            if one.oldest_seconds is not None:
                oldest.add_metric([one.status.value], one.oldest_seconds)
        return (jobs, oldest)

    def _of_queues(self) -> Iterable[Metric]:
        readings: dict[str, tuple[str, Callable[[QueueView], float]]] = {
            "depth": ("Queued jobs, counted up to a bound", lambda queue: queue.depth.value),
            "wait_seconds": ("How long the next job has been due", lambda queue: queue.oldest_queued_seconds or 0.0),
            "processing": ("Running jobs", lambda queue: queue.processing.value),
            "workers": ("Live workers that take from it", lambda queue: queue.workers),
            "paused": ("1 while it is paused", lambda queue: int(queue.paused)),
            "settled_per_minute": ("Attempts finished per minute", lambda queue: queue.throughput),
        }
        for name, (help_text, read) in readings.items():
            family = GaugeMetricFamily(f"sloppyjobs_queue_{name}", help_text, labels=["queue"])
            for queue in self._queues:
                family.add_metric([queue.name], read(queue))
            yield family


def _single(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value=value)


def show(ui: Ui) -> Response:
    """The metrics; for a token that sees some queues only, of these."""
    scope = visit().scope
    registry = CollectorRegistry()
    registry.register(_Collected(ui.snapshots.overview(scope), ui.admin.list_queues(page_size=QUEUES, scope=scope)))
    return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


ROUTES = (
    Route("/metrics", "metrics", show, "metrics.view", api=True),
    Route("/metrics", "metrics_nowhere", nowhere, SIGNED_IN, OTHERS, api=True),
)
