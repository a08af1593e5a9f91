"""The first page: what there is, what needs attention, what comes next."""

from __future__ import annotations

from flask import Response, request

from sloppyjobs.states import Status
from webui import charts
from webui.rendering import COUNTED, Flash, counts_of, render
from webui.routes import Route
from webui.ui import Ui, visit

RANGES = {"1h": 60, "6h": 360, "24h": 1_440, "7d": 10_080}
TILES = (
    Status.SCHEDULED,
    Status.QUEUED,
    Status.PROCESSING,
    Status.RETRYING,
    Status.PAUSED,
    Status.SUCCEEDED,
    Status.CANCELLED,
    Status.DEAD,
)


def show(ui: Ui, *, flashes: tuple[Flash, ...] = (), status: int = 200) -> Response:
    """Everything at a glance; for who sees some queues only, these queues."""
    scope = visit().scope
    span = request.args.get("range", "1h")
    span = span if span in RANGES else "1h"
    overview = ui.snapshots.overview(scope)
    stats = ui.admin.stats(minutes=RANGES[span], queues=scope)
    counts = {one.status: one for one in overview.statuses}
    shown = TILES if not counts[Status.WAITING].count else (Status.WAITING, *TILES)
    return render(
        ui,
        "overview.html",
        title="Overview",
        nav="overview",
        live=True,
        status=status,
        flashes=flashes,
        overview=overview,
        tiles=[counts[one] for one in shown],
        stats=stats,
        chart=charts.throughput(stats),
        span=span,
        spans=list(RANGES),
        nothing=not any(one.count for one in overview.statuses),
    )


def counts(ui: Ui) -> Response:
    """The numbers beside the navigation, for the script that keeps them fresh."""
    shown = counts_of(ui.snapshots.overview(visit().scope, age=15.0))
    return render(ui, "counts.html", title="Counts", counts=shown, counted=COUNTED)


ROUTES = (
    Route("/", "overview", show, "overview.view"),
    Route("/counts", "counts", counts, "overview.view"),
)
