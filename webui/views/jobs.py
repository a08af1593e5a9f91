"""The list of jobs, and the search field."""

from __future__ import annotations

from typing import Any

from flask import Response, redirect, request, url_for

from sloppyjobs import errors
from sloppyjobs.states import Status
from sloppyjobs.views import JobRow, Page
from webui import filters, preferences
from webui.filters import JobFilters
from webui.rendering import Flash, render
from webui.routes import Route
from webui.ui import Ui, visit
from webui.views.job import visible

TABS = (
    Status.SCHEDULED,
    Status.WAITING,
    Status.QUEUED,
    Status.PROCESSING,
    Status.RETRYING,
    Status.PAUSED,
    Status.SUCCEEDED,
    Status.CANCELLED,
    Status.DEAD,
    Status.DELETED,
)
"""In the order of a life. A job is failed for an instant only, so there is no tab for it."""


def show(ui: Ui, *, flashes: tuple[Flash, ...] = (), status: int = 200) -> Response:
    """One page of the list; a query that cannot be answered leaves the filters usable."""
    chosen = preferences.read(request, ui.cookie).sized(request.args.get("size"))
    wanted = filters.parse(request.args, chosen.tz)
    page, trouble, status = _page(ui, wanted, chosen.size, status)
    response = render(
        ui,
        "jobs.html",
        title="Jobs",
        nav="jobs",
        status=status,
        live=not request.args.get("cursor"),
        flashes=flashes,
        page=page,
        trouble=trouble,
        filters=wanted,
        size=chosen.size,
        tabs=_tabs(ui, wanted),
        known=known(ui),
        labels=filters.LABELS,
        ranges=filters.RANGES,
        bulk=_bulk_commands(page),
    )
    if request.args.get("size"):
        path = url_for(".overview")
        preferences.write(response, chosen, cookie=ui.cookie, path=path, secure=request.is_secure)
    return response


def _page(ui: Ui, wanted: JobFilters, size: int, status: int) -> tuple[Page[JobRow], Flash | None, int]:
    try:
        page = ui.admin.list_jobs(
            **wanted.query,
            order=wanted.order,
            cursor=request.args.get("cursor") or None,
            page_size=size,
            scope=visit().scope,
        )
    except errors.InvalidOption as error:
        return Page(()), Flash("bad", "That cannot be asked.", f"{error}."), 400
    except errors.ReadTimeout:
        text = "Narrow the time range or choose a queue; the filters still work."
        return Page(()), Flash("bad", "The query took too long and was stopped.", text), 503
    return page, None, status


def _tabs(ui: Ui, wanted: JobFilters) -> list[tuple[str, str, Any]]:
    overview = None if wanted.narrowed else ui.snapshots.recent(visit().scope)
    tabs: list[tuple[str, str, Any]] = [("", "All", "")]
    for status in TABS:
        count = "" if overview is None else overview.count(status)
        # Nothing can wait for other jobs yet; the tab comes with the first that does.
        if status is not Status.WAITING or wanted.status == status or count:
            tabs.append((status.value, status.value.capitalize(), count))
    return tabs


def _bulk_commands(page: Page[JobRow]) -> list[str]:
    """The commands that at least one row can take, in the order of the state machine's table."""
    possible = {action for row in page for action in row.actions}
    names = {"run_now": "run"}
    found = [names.get(action, action) for action in ("retry", "run_now", "pause", "resume", "cancel", "delete")
             if action in possible]  # fmt: skip
    return [command for command in found if visit().may(f"bulk.{command}")]


def known(ui: Ui) -> dict[str, list[str]]:
    """Names and queues that this application defines and the actor sees, for the filters to suggest."""
    definitions = [one for one in getattr(ui.jobs, "definitions", ()) if visit().sees(one.queue)]
    names = sorted({definition.name for definition in definitions})
    return {"names": names[:200], "queues": sorted({definition.queue for definition in definitions})[:200]}


def find(ui: Ui) -> Any:
    """What was typed into the search field: an id, else a name, else a key."""
    text = request.args.get("q", "").strip()
    if not text:
        return redirect(url_for(".jobs"))
    if text.startswith("job_"):
        try:
            return redirect(url_for(".job", id=visible(ui, text).id))
        except errors.UnknownJob:
            pass
    for option in ("name", "idempotency_key", "correlation_id"):
        if _any(ui, option, text):
            values: dict[str, Any] = {option: text}
            return redirect(url_for(".jobs", **values))
    return redirect(url_for(".jobs", name=text))


def _any(ui: Ui, option: str, text: str) -> bool:
    try:
        given: dict[str, Any] = {option: text}
        return bool(ui.admin.list_jobs(**given, page_size=1, scope=visit().scope))
    except errors.InvalidOption:
        return False


ROUTES = (
    Route("/jobs", "jobs", show, "job.view"),
    Route("/find", "find", find, "job.view"),
)
