"""Schedules: when they fire, what they fired, pause, resume, trigger and delete."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from flask import Response, request
from werkzeug.exceptions import NotFound

from sloppyjobs import errors
from sloppyjobs.occurrences import MANUAL, Recurring
from webui import preferences
from webui.acting import answer, attempt, who
from webui.rendering import Flash, render
from webui.routes import Route
from webui.ui import Ui, visit

FIRES = 8
HISTORY = 30
_VERBS = "any(pause, resume, trigger, delete)"


def show(ui: Ui, *, flashes: tuple[Flash, ...] = (), status: int = 200) -> Response:
    """Every schedule, by name."""
    chosen = preferences.read(request, ui.cookie)
    cursor = request.args.get("cursor") or None
    page = ui.admin.list_recurring(cursor=cursor, page_size=chosen.size, queues=visit().scope)
    return render(
        ui, "recurring.html", title="Recurring", nav="recurring", live=True, status=status, flashes=flashes,
        page=page,
    )  # fmt: skip


def show_one(ui: Ui, name: str, *, flashes: tuple[Flash, ...] = (), status: int = 200) -> Response:
    """One schedule: next fires in its zone and in UTC, and the jobs it has made."""
    schedule = _visible(ui, name)
    history = ui.admin.list_jobs(schedule=name, page_size=HISTORY, scope=visit().scope,
                                 cursor=request.args.get("cursor") or None)  # fmt: skip
    return render(
        ui, "schedule.html", title=name, nav="recurring", live=True, status=status, flashes=flashes,
        schedule=schedule, zone=_zone(schedule), fires=schedule.upcoming(FIRES), page=history, manual=MANUAL,
    )  # fmt: skip


def _zone(schedule: Recurring) -> ZoneInfo:
    return ZoneInfo(schedule.timezone if preferences.known_zone(schedule.timezone) else "UTC")


def _visible(ui: Ui, name: str) -> Recurring:
    schedule = ui.admin.get_recurring(name)
    if not visit().sees(schedule.queue):
        raise errors.UnknownSchedule(f"no schedule has the name {name!r}")
    return schedule


def confirm(ui: Ui, name: str, command: str) -> Response:
    """Ask before a schedule is triggered or deleted."""
    if command not in ("trigger", "delete"):
        raise NotFound
    return render(ui, "confirm-schedule.html", title=f"{command.capitalize()} a schedule", nav="recurring",
                  schedule=_visible(ui, name), command=command, origin=request.args.get("from", ""))  # fmt: skip


def act(ui: Ui, name: str, command: str) -> Response:
    """Do it."""
    if visit().scope is not None:
        _visible(ui, name)

    def run() -> Flash:
        admin, by = ui.admin, who()
        if command == "trigger":
            job = admin.trigger_recurring(name, **by)
            return Flash("ok", f"{name} was triggered.", f"Its job is {job.id}; when it fires next has not changed.")
        if command == "delete":
            admin.delete_recurring(name, **by)
            return Flash("ok", f"{name} was deleted.", "Jobs that it has made go on.")
        if command == "pause":
            admin.pause_recurring(name, **by)
            return Flash("info", f"{name} is paused.", "Jobs that it has made go on.")
        admin.resume_recurring(name, **by)
        return Flash("ok", f"{name} fires again, from its next occurrence on.")

    flash, status = attempt(run)
    if request.form.get("from") == "schedule" and command != "delete":
        return answer(ui, flash, status, "schedule", show_one, name=name)
    return answer(ui, flash, status, "recurring", show)


ROUTES = (
    Route("/recurring", "recurring", show, "recurring.view"),
    Route("/recurring/<path:name>", "schedule", show_one, "recurring.view"),
    Route(f"/recurring/<path:name>/<{_VERBS}:command>", "schedule_confirm", confirm, "recurring.{command}"),
    Route(f"/recurring/<path:name>/<{_VERBS}:command>", "schedule_act", act, "recurring.{command}", "POST"),
)
