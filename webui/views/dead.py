"""Dead jobs by cause: retry one, a few first, all of a cause; or delete them."""

from __future__ import annotations

from flask import Response, request

from sloppyjobs.views import CappedCount
from webui.rendering import Flash, render
from webui.routes import Route
from webui.ui import Ui, visit

CAUSES = 50


def show(ui: Ui, *, flashes: tuple[Flash, ...] = (), status: int = 200) -> Response:
    """The causes, most frequent first; for who sees some queues only, those of these queues."""
    groups = ui.admin.dead_groups(limit=CAUSES, queues=visit().scope)
    total = CappedCount(sum(group.count.value for group in groups), any(group.count.capped for group in groups))
    return render(
        ui,
        "dead.html",
        title="Dead jobs",
        nav="dead",
        live=True,
        status=status,
        flashes=flashes,
        groups=groups,
        total=total,
        more=len(groups) == CAUSES,
        canary=_canary(),
    )


def _canary() -> int:
    given = request.values.get("limit", "")
    return min(1_000, int(given)) if given.isascii() and given.isdigit() and 0 < len(given) < 5 and int(given) else 5


ROUTES = (Route("/dead", "dead", show, "dead.view"),)
