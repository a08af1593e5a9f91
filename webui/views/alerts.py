"""Alerts: the rules with their state, what was sent to whom and when, a test, and mutes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from flask import Response, request, url_for

from sloppyjobs.views import AlertRuleView, AlertView
from webui import page_context, until
from webui.command_response import actor_and_reason, refuse, respond, run_command
from webui.page_context import PageContext
from webui.rendering import Flash, render
from webui.routes import Route
from webui.ui import Ui, visit, visit_or_none

OUTCOMES = {
    "told": ("succeeded", "Sent"),
    "pending": ("queued", "Pending"),
    "retrying": ("retrying", "Retrying"),
    "failed": ("dead", "Not sent"),
    "muted": ("paused", "Muted"),
}
"""Icon and word of what became of an alert."""
BECAME = {
    "told": "sent to {}",
    "pending": "not sent to {} yet",
    "retrying": "not sent to {} yet, will be tried again",
    "failed": "could not be sent to {}",
    "muted": "muted, not sent to {}",
}
"""The same in a sentence, with whom it is for."""
NEWEST = 10
"""Alerts that stand above the list as open, at most."""
WORKERS_AGE = 15.0
"""Seconds for which the number of live workers is good enough."""
SPANS = {
    "60": "For 1 hour",
    "240": "For 4 hours",
    "1440": "For 24 hours",
    "10080": "For 7 days",
    "": "Until unmuted manually",
}


def show(
    ui: Ui, *, flashes: tuple[Flash, ...] = (), status: int = 200, form: until.UntilForm | None = None
) -> Response:
    """Rules, and a page of deliveries, newest first."""
    rule, cursor = request.args.get("rule") or None, request.args.get("cursor") or None
    size = page_context.preferences_of(ui).size
    page = ui.admin.list_alerts(rule, cursor=cursor, page_size=size)
    rules = ui.admin.list_alert_rules()
    return render(
        ui, "alerts.html", title="Alerts", nav="alerts", live=cursor is None, status=status, flashes=flashes,
        page=page, rules=rules, rule=rule, outcomes=OUTCOMES, opened=[one for one in rules if one.open],
        muted=[one for one in rules if one.muted], spans=SPANS, form=form, became=BECAME,
        newest=[] if rule or cursor else _newest(rules, page, ui.admin.now()), undeclared=_undeclared(ui, rules),
    )  # fmt: skip


def _undeclared(ui: Ui, rules: Sequence[AlertRuleView]) -> str:
    """How a rule is that nobody has declared lately: workers do, and that none is running says nothing of the code."""
    watched = any(rule.declared for rule in rules) or ui.snapshots.latest(visit().scope, WORKERS_AGE).live_workers
    return "No longer declared in code" if watched else "Not watched: no worker is running"


def _newest(rules: Sequence[AlertRuleView], alerts: Iterable[AlertView], now: datetime) -> list[AlertView]:
    """What the rules that are open have found in their present windows, as far as it is among these, newest first."""
    since = {rule.name: now - timedelta(seconds=rule.window) for rule in rules if rule.open}
    found: dict[tuple[str, str], AlertView] = {}
    for one in alerts:
        if one.rule in since and one.created_at >= since[one.rule] and not one.test:
            found.setdefault((one.rule, one.cause), one)
    return list(found.values())[:NEWEST]


def test(ui: Ui, name: str) -> Response:
    """Send a test to the target of a rule."""

    def run() -> Flash:
        sent = ui.admin.test_alert(name, **actor_and_reason())
        link = ("Open its delivery", url_for(".job", id=sent.job_id)) if visit().may("job.view") else None
        return Flash("ok", "Test queued.", f"A worker of the application sends it to {sent.target}.", link)

    flash, status = run_command(run)
    return respond(ui, flash, status, "alerts", show)


def mute(ui: Ui, name: str) -> Response:
    """Send nothing for a rule, until a time or an unmute; refused in place where the time makes no sense."""
    try:
        end = until.chosen(ui, SPANS)
    except until.Refused as refused:
        return refuse(ui, refused.error, refused.form(name), "alerts", show)

    def run() -> Flash:
        ui.admin.mute_alert(name, end, **actor_and_reason())
        ends = "until it is unmuted" if end is None else f"until {PageContext(ui, visit_or_none()).times.full(end)}"
        return Flash("info", f"{name} muted {ends}.", "What it finds is listed, but not sent to anybody.")

    flash, status = run_command(run)
    return respond(ui, flash, status, "alerts", show)


def unmute(ui: Ui, name: str) -> Response:
    """Send the alerts of a rule again."""

    def run() -> Flash:
        ui.admin.unmute_alert(name, **actor_and_reason())
        return Flash("ok", f"{name} unmuted.")

    flash, status = run_command(run)
    return respond(ui, flash, status, "alerts", show)


ROUTES = (
    Route("/alerts", "alerts", show, "alert.view", query=("rule", "cursor")),
    Route("/alerts/<path:name>/test", "alert_test", test, "alert.test", "POST"),
    Route("/alerts/<path:name>/mute", "alert_mute", mute, "alert.mute", "POST"),
    Route("/alerts/<path:name>/unmute", "alert_unmute", unmute, "alert.unmute", "POST"),
)
