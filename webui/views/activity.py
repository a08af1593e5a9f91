"""Workers, locks and the audit trail: what there is to see, and nothing to do."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from flask import Response, request
from markupsafe import Markup

from sloppyjobs import errors
from sloppyjobs.views import AuditEntry, Page, WorkerView
from webui import audit_words, filters, hidden_details, page_context
from webui.page_context import PageContext
from webui.rendering import render
from webui.routes import Route
from webui.ui import Ui, visit

RANGES: Mapping[str, tuple[str, timedelta]] = {
    "1h": ("Last hour", timedelta(hours=1)),
    "24h": ("Last 24 hours", timedelta(hours=24)),
    "7d": ("Last 7 days", timedelta(days=7)),
    "30d": ("Last 30 days", timedelta(days=30)),
}
LIVENESS = {
    "running": ("succeeded", "Live"),
    "quiet": ("paused", "Quiet"),
    "draining": ("paused", "Draining"),
    "stopped": ("cancelled", "Stopped"),
}
"""Icon and word of a worker that responds, or has left in good order."""
AUDIT_FILTERS = ("actor", "action", "target", "range", "from", "to")
PLACES = {
    "job": ("job", "id", "job.view"),
    "archived": ("archived", "id", "archive.view"),
    "limit": ("limit", "name", "limit.view"),
    "workflow": ("workflow", "id", "workflow.view"),
    "batch": ("batch", "id", "batch.view"),
    "queue": ("queue", "name", "queue.view"),
    "schedule": ("schedule", "name", "recurring.view"),
    "cause": ("cause", "cause", "dead.view"),
    "worker": ("worker", "id", "worker.view"),
}
"""Where the page of a target is: endpoint, argument, permission."""


def _paging(ui: Ui) -> dict[str, Any]:
    return {
        "cursor": request.args.get("cursor") or None,
        "page_size": page_context.preferences_of(ui).size,
    }


def used_slots(worker: WorkerView) -> int:
    """Slots in use: what a live worker said with its last heartbeat, or more where it has taken jobs since."""
    held = worker.held.value
    return min(worker.concurrency, max(worker.running, held + worker.stuck)) if worker.live else held


def workers(ui: Ui) -> Response:
    """Worker processes, the latest heartbeat first; for who sees some queues only, those that take from them."""
    page = hidden_details.workers(ui.admin.list_workers(**_paging(ui), queues=visit().scope))
    whole = not (page.next_cursor or page.previous_cursor)
    counts = {"workers": sum(one.live for one in page)} if whole else {}
    return render(
        ui, "workers.html", title="Workers", nav="workers", live=True, counts=counts, page=page, states=LIVENESS,
        used_slots=used_slots, used=sum(used_slots(one) for one in page if one.live),
    )  # fmt: skip


def locks(ui: Ui) -> Response:
    """Who holds what, until when."""
    page = ui.admin.list_locks(**_paging(ui))
    return render(ui, "locks.html", title="Locks", nav="locks", live=True, page=page)


# The audit trail


def audit(ui: Ui) -> Response:
    """Who did what, when and why."""
    given = {name: request.args.get(name, "").strip() for name in AUDIT_FILTERS}
    query, since, wrong = _audit_query(ui, given)
    page: Page[AuditEntry] = Page(())
    try:
        if not wrong:
            page = hidden_details.audit(ui.admin.audit(**query, **_paging(ui)))
    except errors.InvalidOption as error:
        if error.field not in given:
            raise
        wrong[error.field] = filters.sentence(error)
    context = PageContext(ui, visit())
    link = partial(_link, ui, context)
    rows = [(entry, audit_words.entry_text(entry, context.times, link)) for entry in page]
    return render(
        ui, "audit.html", title="Audit", nav="audit", live=True, status=422 if wrong else 200, page=page, rows=rows,
        given=given, wrong=wrong, since=since, narrowed=any(given.values()), actions=audit_words.CHOICES,
        ranges={name: text for name, (text, _) in RANGES.items()},
    )  # fmt: skip


def _audit_query(ui: Ui, given: Mapping[str, str]) -> tuple[dict[str, Any], str | None, dict[str, str]]:
    """The admin's options; the start of a range, which links carry, because a cursor belongs to fixed filters; and what
    is wrong with a field.
    """
    zone = page_context.preferences_of(ui).tz
    start, end, wrong = filters.span(given, zone, "“From”")
    query: dict[str, Any] = {name: given[name] or None for name in ("actor", "action", "target")}
    query |= {"created_from": start, "created_to": end}
    if not given["range"]:
        return query, None, wrong
    if given["range"] not in RANGES:
        return query, None, {**wrong, "range": "Choose one of the ranges in the list."}
    if given["from"]:
        return query, None, {**wrong, "range": "Choose a range or “From”, not both."}
    pinned = request.args.get("since", "")
    since = (filters.moment(pinned, zone) if pinned else None) or datetime.now(UTC) - RANGES[given["range"]][1]
    if end is not None and since > end:
        wrong["to"] = "Choose a time within the range."
    return {**query, "created_from": since}, since.isoformat(), wrong


def _link(ui: Ui, context: PageContext, kind: str, target: str, text: str | None = None) -> Markup:
    """A target, or its text, as a link to its page, where there is one that the viewer may see."""
    short = context.short(target) if kind in ("job", "archived", "workflow", "batch") else target
    name = Markup('<code class="nw" title="{}">{}</code>').format(target, short)
    if text is not None or kind not in ("job", "archived", "workflow", "batch", "cause"):
        name = Markup('<strong class="target" title="{}">{}</strong>').format(target, text or target)
    endpoint, argument, permission = PLACES.get(kind, ("", "", ""))
    if endpoint not in ui.routes or not context.may(permission):
        return name
    return Markup('<a href="{}">{}</a>').format(context.url(endpoint, **{argument: target}), name)


ROUTES = (
    Route("/workers", "workers", workers, "worker.view", query=("cursor",)),
    Route("/locks", "locks", locks, "lock.view", query=("cursor",)),
    Route("/audit", "audit", audit, "audit.view", query=(*AUDIT_FILTERS, "since", "cursor")),
)
