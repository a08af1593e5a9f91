"""The first page: what there is, what needs attention, what comes next."""

from __future__ import annotations

from flask import Response, request

from sloppyjobs.domain.states import Status
from webui import charts, hidden_details, tiles
from webui.attention import causes, items
from webui.navigation import COUNTED
from webui.rendering import Flash, counts_of, render
from webui.routes import Route
from webui.spans import SPANS, span_named
from webui.ui import Ui, visit
from webui.views import queues

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
COUNTS_AGE = 15.0
"""Seconds between two readings of the numbers beside the navigation."""


def show(ui: Ui, *, flashes: tuple[Flash, ...] = (), status: int = 200) -> Response:
    """Everything at a glance; for who sees some queues only, these queues."""
    span = span_named(request.args.get("range"))
    whole, stats, deploys = ui.snapshots.page(visit().scope, span.minutes)
    overview = hidden_details.overview(whole)
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
        counts=counts_of(overview),
        overview=overview,
        tiles=[tiles.tile(counts[one], stats, overview, span) for one in shown],
        attention=items(overview.attention),
        causes=causes(overview),
        stats=stats,
        chart=charts.throughput(stats, deploys if visit().may("deploy.view") else ()),
        busiest=overview.busiest if visit().may("queue.view") else (),
        rate=queues.rate,
        span=span,
        spans=SPANS,
        nothing=not any(one.count for one in overview.statuses),
    )


def counts(ui: Ui) -> Response:
    """The numbers beside the navigation, for the script that keeps them fresh."""
    wanted = request.args.get("of", " ".join(COUNTED)).split()
    shown = counts_of(ui.snapshots.latest(visit().scope, COUNTS_AGE))
    return render(ui, "counts.html", title="Counts", shown=shown, counted=[name for name in COUNTED if name in wanted])


ROUTES = (
    Route("/", "overview", show, "overview.view", query=("range",)),
    Route("/counts", "counts", counts, "overview.view"),
)
