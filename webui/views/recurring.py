"""Schedules: when they fire, what they fired, pause, resume, trigger and delete."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from flask import Response, request
from werkzeug.exceptions import NotFound

from sloppyjobs import errors
from sloppyjobs.occurrences import Recurring
from sloppyjobs.storage.schedule_rows import PassedOver
from sloppyjobs.views import JobRow, Page
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
    history = _history(ui, name, request.args.get("cursor") or None, HISTORY)
    following = _history(ui, name, history.next_cursor, 1) if history.next_cursor and schedule.missed else None
    return render(
        ui, "schedule.html", title=name, nav="recurring", live=True, status=status, flashes=flashes,
        schedule=schedule, zone=_zone(schedule), fires=schedule.upcoming(FIRES), page=history,
        entries=entries(history, schedule.missed, following),
    )  # fmt: skip


class Entry(NamedTuple):
    """One line of a schedule's history: a job that it made, or occurrences of which it made none."""

    at: datetime
    job: JobRow | None = None
    passed: PassedOver | None = None


def _history(ui: Ui, name: str, cursor: str | None, size: int) -> Page[JobRow]:
    return ui.admin.list_jobs(schedule=name, page_size=size, scope=visit().scope, cursor=cursor)


def entries(page: Page[JobRow], missed: Sequence[PassedOver], following: Page[JobRow] | None) -> list[Entry]:
    """The jobs of a page and what was passed over since the job that the next page begins with, latest first."""
    found = [Entry(job.occurrence_at or job.created_at, job) for job in page]
    newest = found[0].at if found and page.previous_cursor else None
    oldest = following[0].occurrence_at if following else None
    between = [
        Entry(one.last, passed=one)
        for one in missed
        if (newest is None or one.last <= newest) and (oldest is None or one.last > oldest)
    ]
    return sorted([*found, *between], key=lambda entry: entry.at, reverse=True)


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
