"""Queues: what lies in them, who works on them, pause and resume."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from flask import Response, request

from sloppyjobs import errors
from sloppyjobs.views import QueueView
from webui import charts, filters, preferences
from webui.acting import answer, attempt, who
from webui.rendering import Flash, Look, render
from webui.routes import Route
from webui.ui import Ui, visit, visit_or_none

PAUSES = {
    "": "I resume it",
    "15": "in 15 minutes",
    "60": "in 1 hour",
    "240": "in 4 hours",
    "1440": "in 24 hours",
}


def show(ui: Ui, *, flashes: tuple[Flash, ...] = (), status: int = 200) -> Response:
    """Every queue ever seen."""
    chosen = preferences.read(request, ui.cookie)
    page = ui.admin.list_queues(cursor=request.args.get("cursor") or None, page_size=chosen.size, scope=visit().scope)
    return render(
        ui, "queues.html", title="Queues", nav="queues", live=True, status=status, flashes=flashes, page=page,
        deepest=max((queue.depth.value for queue in page), default=0), pauses=PAUSES,
    )  # fmt: skip


def show_one(ui: Ui, name: str, *, flashes: tuple[Flash, ...] = (), status: int = 200) -> Response:
    """One queue, with what it did lately."""
    queue = _visible(ui, name)
    stats = ui.admin.stats(minutes=60, queue=name)
    page = ui.admin.list_jobs(queue=name, page_size=10, scope=visit().scope)
    return render(
        ui, "queue.html", title=name, nav="queues", live=True, status=status, flashes=flashes, queue=queue,
        stats=stats, chart=charts.throughput(stats), page=page, pauses=PAUSES,
    )  # fmt: skip


def _visible(ui: Ui, name: str) -> QueueView:
    _check_visible(name)
    return ui.admin.get_queue(name)


def _check_visible(name: str) -> None:
    if not visit().sees(name):
        raise errors.UnknownQueue(f"no queue is called {name!r}")


def pause(ui: Ui, name: str) -> Response:
    """Let nothing of this queue start, until a time or a resume."""
    _check_visible(name)

    def run() -> Flash:
        until = _until(ui)
        ui.admin.pause_queue(name, until=until, **who())
        ends = "until somebody resumes it" if until is None else f"until {Look(ui, visit_or_none()).times.full(until)}"
        return Flash("info", f"{name} is paused {ends}.", "Jobs that run already go on.")

    return _answered(ui, name, *attempt(run))


def resume(ui: Ui, name: str) -> Response:
    """Let the queue's jobs start again."""
    _check_visible(name)

    def run() -> Flash:
        ui.admin.resume_queue(name, **who())
        return Flash("ok", f"{name} goes on.")

    return _answered(ui, name, *attempt(run))


def _answered(ui: Ui, name: str, flash: Flash, status: int) -> Response:
    if request.form.get("from") == "queue":
        return answer(ui, flash, status, "queue", show_one, name=name)
    return answer(ui, flash, status, "queues", show)


def _until(ui: Ui) -> datetime | None:
    minutes, moment = request.form.get("until", ""), request.form.get("until_at", "")
    if moment:
        found = filters.moment(moment, preferences.read(request, ui.cookie).tz)
        if found is None or found <= datetime.now(UTC):
            raise errors.InvalidOption(f"until={moment!r} is not a time in the future")
        return found
    if minutes in PAUSES and minutes:
        return datetime.now(UTC) + timedelta(minutes=int(minutes))
    return None


ROUTES = (
    Route("/queues", "queues", show, "queue.view"),
    Route("/queues/<path:name>", "queue", show_one, "queue.view"),
    Route("/queues/<path:name>/pause", "queue_pause", pause, "queue.pause", "POST"),
    Route("/queues/<path:name>/resume", "queue_resume", resume, "queue.resume", "POST"),
)
