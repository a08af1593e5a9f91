"""The first page: what there is, what needs attention, what comes next."""

from __future__ import annotations

from typing import NamedTuple

from flask import Response, request

from sloppyjobs.states import Status
from sloppyjobs.views import CappedCount, StatsBucket, StatusCount
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
    minutes = RANGES[span]
    stats = ui.admin.stats(minutes=minutes, queues=scope)
    before = ui.admin.stats(minutes=minutes, queues=scope, ago=minutes)
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
        tiles=[tile(counts[one], stats.total, before.total, overview.slots) for one in shown],
        stats=stats,
        chart=charts.throughput(stats),
        span=span,
        spans=list(RANGES),
        nothing=not any(one.count for one in overview.statuses),
    )


class Tile(NamedTuple):
    """A status with its count, how that changed, and since when the oldest waits."""

    status: Status
    jobs: CappedCount
    change: str
    compared: str = ""
    """Against the span before; empty for the states in which jobs do not end."""
    oldest_seconds: float | None = None


def tile(one: StatusCount, now: StatsBucket, before: StatsBucket, slots: int) -> Tile:
    """For an end of jobs, how many came in the span and how many more than in the one before; else the new ones."""
    if one.status is Status.PROCESSING:
        return Tile(one.status, one.count, f"of {slots:,} slots", oldest_seconds=one.oldest_seconds)
    if one.fresh is not None:
        change = f"{one.fresh} new in 1 h" if one.fresh else "none new in 1 h"
        return Tile(one.status, one.count, change, oldest_seconds=one.oldest_seconds)
    came, earlier = getattr(now, one.status.value), getattr(before, one.status.value)
    return Tile(one.status, one.count, f"{came:,}" if came else "none", _compared(came - earlier))


def _compared(difference: int) -> str:
    return f"{difference:+,} vs before" if difference else "as before"


def counts(ui: Ui) -> Response:
    """The numbers beside the navigation, for the script that keeps them fresh."""
    shown = counts_of(ui.snapshots.overview(visit().scope, age=15.0))
    return render(ui, "counts.html", title="Counts", counts=shown, counted=COUNTED)


ROUTES = (
    Route("/", "overview", show, "overview.view"),
    Route("/counts", "counts", counts, "overview.view"),
)
