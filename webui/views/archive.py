"""The archive: search it, look at one of its jobs, restore one as a new job."""

from __future__ import annotations

from typing import Any

from flask import Response, request, url_for

from sloppyjobs import errors
from sloppyjobs.domain.states import FINISHED, Status
from sloppyjobs.views import ArchivedRow, ArchivedView, Page
from webui import filters, hidden_details, labels, page_context
from webui.command_response import actor_and_reason, respond, run_command
from webui.rendering import Flash, render
from webui.routes import Route
from webui.ui import Ui, visit

FIELDS = ("key", "name", "from", "to")
_FIELD_OF = {"id": "key", "key": "key", "name": "name", "created_from": "from"}
"""Where an option of the search is typed."""
_SEES = ("job.view",)


def show(ui: Ui, *, flashes: tuple[Flash, ...] = (), status: int = 200) -> Response:
    """What was archived, latest enqueued first; narrowed by what was typed."""
    chosen = page_context.preferences_of(ui)
    given = {name: request.args.get(name, "").strip() for name in FIELDS}
    wanted, wrong = _wanted(given, chosen)
    page: Page[ArchivedRow] = Page(())
    try:
        if not wrong:
            cursor = request.args.get("cursor") or None
            page = ui.admin.search_archive(**wanted, cursor=cursor, page_size=chosen.size, scope=visit().scope)
    except errors.InvalidOption as error:
        if error.field not in _FIELD_OF:
            raise
        wrong[_FIELD_OF[error.field]] = filters.sentence(error)
    return render(
        ui, "archive.html", title="Archive", nav="archive", status=422 if wrong else status, flashes=flashes,
        page=page, given=given, wrong=wrong, narrowed=any(given.values()),
    )  # fmt: skip


def _wanted(given: dict[str, str], chosen: page_context.Preferences) -> tuple[dict[str, Any], dict[str, str]]:
    """The admin's options, and what is wrong with a field."""
    start, end, wrong = filters.span(given, chosen.tz, "“Enqueued from”")
    wanted: dict[str, Any] = {"created_from": start, "created_to": end}
    if given["key"]:
        wanted["id" if given["key"].startswith("job_") else "key"] = given["key"]
    if given["name"]:
        wanted["name"] = given["name"]
    return wanted, wrong


def show_one(ui: Ui, id: str, *, flashes: tuple[Flash, ...] = (), status: int = 200) -> Response:
    """One archived job: how it ended, its attempts, events and logs."""
    job = visible(ui, id)
    return render(
        ui, "archived.html", title=f"{job.name}, archived", nav="archive", status=status, flashes=flashes,
        job=job, labels=labels, ended=job.ended_as or job.status.value, restorable=_live_restored(ui, job) is None,
    )  # fmt: skip


def _live_restored(ui: Ui, job: ArchivedView) -> Status | None:
    """The status of the job that it was restored as, while that has not ended: until then there is no second one."""
    if job.restored_as is None:
        return None
    try:
        status = ui.admin.get_job(job.restored_as).status
    except errors.UnknownJob:
        return None
    return None if status in FINISHED else status


def visible(ui: Ui, id: str) -> ArchivedView:
    """The archived job, unless it was in a queue that the actor does not see."""
    job = ui.admin.get_archived(id)
    if not visit().sees(job.queue):
        raise errors.UnknownJob(f"no archived job has the id {id!r}")
    return job


def confirm(ui: Ui, id: str) -> Response:
    """Ask before a job is restored."""
    job = visible(ui, id)
    return render(
        ui, "confirm-restore.html", title=f"Restore {job.name}?", nav="archive", job=job,
        ended=job.ended_as or job.status.value, restored=_live_restored(ui, job),
    )  # fmt: skip


def restore(ui: Ui, id: str) -> Response:
    """Enqueue the job anew. A taken key, or a job that was restored already, is said on the page."""
    if visit().scope is not None:
        visible(ui, id)

    def run() -> Flash:
        try:
            job = ui.admin.restore(id, **actor_and_reason())
        except errors.InvalidTransition as error:
            raise errors.InvalidTransition(str(error).removeprefix(f"job {id} ")) from None
        seen = (f"Open {job.id}", url_for(".job", id=job.id)) if hidden_details.sees_jobs() else None
        return Flash("ok", "Restored as a new job.", "It is queued.", seen)

    flash, status = run_command(run)
    return respond(ui, flash, status, "archived", show_one, id=id)


ROUTES = (
    Route("/archive", "archive", show, "archive.view", also=_SEES, query=(*FIELDS, "cursor")),
    Route("/archive/<path:id>", "archived", show_one, "archive.view", also=_SEES),
    Route("/archive/<path:id>/restore", "archived_confirm", confirm, "archive.restore", also=("archive.view", *_SEES)),
    Route("/archive/<path:id>/restore", "archived_restore", restore, "archive.restore", "POST"),
)
