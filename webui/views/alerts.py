"""Alerts: the rules with their state, what was told to whom and when, and a test."""

from __future__ import annotations

from flask import Response, request, url_for

from webui import page_context
from webui.command_response import actor_and_reason, respond, run_command
from webui.rendering import Flash, render
from webui.routes import Route
from webui.ui import Ui, visit

OUTCOMES = {
    "told": ("succeeded", "Told"),
    "pending": ("queued", "Pending"),
    "retrying": ("retrying", "Retrying"),
    "failed": ("dead", "Not told"),
}
"""Icon and word of what became of an alert."""


def show(ui: Ui, *, flashes: tuple[Flash, ...] = (), status: int = 200) -> Response:
    """Rules, and a page of deliveries, newest first."""
    rule, cursor = request.args.get("rule") or None, request.args.get("cursor") or None
    size = page_context.preferences_of(ui).size
    page = ui.admin.list_alerts(rule, cursor=cursor, page_size=size)
    rules = ui.admin.list_alert_rules()
    return render(
        ui, "alerts.html", title="Alerts", nav="alerts", live=cursor is None, status=status, flashes=flashes,
        page=page, rules=rules, rule=rule, outcomes=OUTCOMES, opened=[one for one in rules if one.open],
    )  # fmt: skip


def test(ui: Ui, name: str) -> Response:
    """Send a test to whom a rule tells."""

    def run() -> Flash:
        sent = ui.admin.test_alert(name, **actor_and_reason())
        link = ("Open its delivery", url_for(".job", id=sent.job_id)) if visit().may("job.view") else None
        return Flash("ok", "Test queued.", f"{sent.target} is told by a worker of the application.", link)

    flash, status = run_command(run)
    return respond(ui, flash, status, "alerts", show)


ROUTES = (
    Route("/alerts", "alerts", show, "alert.view", query=("rule", "cursor")),
    Route("/alerts/<path:name>/test", "alert_test", test, "alert.test", "POST"),
)
