"""Dead jobs by cause: how many, since when, what the last canary came to."""

from __future__ import annotations

from flask import Response

from sloppyjobs.views import CappedCount
from webui.numbers import Refused
from webui.rendering import Flash, render
from webui.routes import Route
from webui.ui import RECENT_SECONDS, Ui, visit

CAUSES = 50
FEW = 5
"""Jobs of a canary, unless something else is asked for."""
MOST_CANARIES = 1_000
TONES = {
    "died": ("x", "bad"),
    "succeeded": ("succeeded", "ok"),
    "running": ("processing", "mut"),
    "other": ("info", "mut"),
}
"""The icon of a canary's outcome, and its colour."""


def show(ui: Ui, *, flashes: tuple[Flash, ...] = (), status: int = 200, refused: Refused | None = None) -> Response:
    """The causes, most frequent first; for who sees some queues only, those of these queues."""
    groups = ui.admin.dead_groups(limit=CAUSES, queues=visit().scope)
    total = CappedCount(sum(group.count.value for group in groups), any(group.count.capped for group in groups))
    if total.capped:
        # The overview counts further than the causes, and its number stands on other pages.
        total = max(total, ui.snapshots.latest(visit().scope, RECENT_SECONDS).count("dead"))
    return render(
        ui,
        "dead.html",
        title="Dead jobs",
        nav="dead",
        live=True,
        status=status,
        flashes=flashes,
        counts={} if len(groups) == CAUSES else {"dead": total},
        groups=groups,
        total=total,
        more=len(groups) == CAUSES,
        refused=refused,
        few=FEW,
        tones=TONES,
        most=MOST_CANARIES,
    )


ROUTES = (Route("/dead", "dead", show, "dead.view", also=("job.view",)),)
