"""Schedules: when they fire, what they fired, pause, resume, trigger and delete."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from flask import Response, request, url_for
from werkzeug.exceptions import NotFound

from sloppyjobs import errors
from sloppyjobs.schedules.occurrences import Recurring
from sloppyjobs.storage.ports.schedules import PassedOver
from sloppyjobs.views import JobRow, Occurrence, Page
from webui import hidden_details, page_context, schedule_lines
from webui.command_response import actor_and_reason, respond, run_command
from webui.page_context import PageContext
from webui.rendering import Flash, render
from webui.routes import Route
from webui.ui import Ui, visit

FIRES = 8
HISTORY = 30
_VERBS = "any(pause, resume, trigger, delete)"


def show(ui: Ui, *, flashes: tuple[Flash, ...] = (), status: int = 200) -> Response:
    """Every schedule, by name."""
    chosen = page_context.preferences_of(ui)
    cursor = request.args.get("cursor") or None
    page = ui.admin.list_recurring(cursor=cursor, page_size=chosen.size, queues=visit().scope)
    context = PageContext(ui, visit())
    lines = [schedule_lines.schedule_line(one, ran, context.times) for one, ran in _with_runs(ui, page.items)]
    return render(
        ui, "recurring.html", title="Recurring", nav="recurring", live=True, status=status, flashes=flashes,
        page=page, lines=lines, late=[one for one in lines if one.late], summary=schedule_lines.summary(page, lines),
    )  # fmt: skip


def show_one(ui: Ui, name: str, *, flashes: tuple[Flash, ...] = (), status: int = 200) -> Response:
    """One schedule: next fires in its zone and in UTC, and the jobs it has made."""
    schedule = hidden_details.schedule(visible(ui, name))
    history = _history(ui, name, request.args.get("cursor") or None, HISTORY)
    following = _history(ui, name, history.next_cursor, 1) if history.next_cursor and schedule.missed else None
    [(_, ran)] = _with_runs(ui, [schedule])
    times = PageContext(ui, visit()).times
    return render(
        ui, "schedule.html", title=f"{name} schedule", nav="recurring", live=True, status=status, flashes=flashes,
        schedule=schedule, line=schedule_lines.schedule_line(schedule, ran, times),
        fires=schedule.upcoming(FIRES, times.now), page=history, entries=entries(history, schedule.missed, following),
        reasons=schedule_lines.reasons(schedule),
    )  # fmt: skip


def _with_runs(ui: Ui, schedules: Sequence[Recurring]) -> list[tuple[Recurring, tuple[Occurrence, ...]]]:
    """Schedules with their last jobs, latest first; without these for who may not see jobs."""
    if not hidden_details.sees_jobs():
        return [(one, ()) for one in schedules]
    found = ui.admin.last_occurrences(schedules, queues=visit().scope)
    return [(one, found[one.name]) for one in schedules]


class Entry(NamedTuple):
    """One line of a schedule's history: a job that it made, or occurrences of which it made none."""

    at: datetime
    job: JobRow | None = None
    passed: PassedOver | None = None


def _history(ui: Ui, name: str, cursor: str | None, size: int) -> Page[JobRow]:
    if not hidden_details.sees_jobs():
        return Page(())
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


def visible(ui: Ui, name: str) -> Recurring:
    """The schedule of that name; ``UnknownSchedule`` where its jobs go to a queue that the actor does not see."""
    schedule = ui.admin.get_recurring(name)
    if not visit().sees(schedule.queue):
        raise errors.UnknownSchedule(f"no schedule has the name {name!r}")
    return schedule


def confirm(ui: Ui, name: str, command: str) -> Response:
    """Ask before a schedule is triggered or deleted."""
    if command not in ("trigger", "delete"):
        raise NotFound
    return render(ui, "confirm-schedule.html", title=f"{command.capitalize()} a schedule", nav="recurring",
                  schedule=visible(ui, name), command=command, origin=request.values.get("from", ""))  # fmt: skip


def act(ui: Ui, name: str, command: str) -> Response:
    """Do it."""
    if visit().scope is not None:
        visible(ui, name)

    def run() -> Flash:
        admin, by = ui.admin, actor_and_reason()
        if command == "trigger":
            job = admin.trigger_recurring(name, **by)
            link = (f"Triggered: {job.id}", url_for(".job", id=job.id)) if hidden_details.sees_jobs() else None
            return Flash("ok", f"{name} triggered.", "Its next fire has not changed.", link)
        if command == "delete":
            admin.delete_recurring(name, **by)
            return Flash("ok", f"{name} deleted.", "Its jobs stay.")
        if command == "pause":
            admin.pause_recurring(name, **by)
            return Flash("info", f"{name} paused.", "Its jobs that are queued or running will finish.")
        admin.resume_recurring(name, **by)
        return Flash("ok", f"{name} resumed.", "It fires from its next occurrence on.")

    flash, status = run_command(run)
    if request.form.get("from") == "schedule" and command != "delete":
        return respond(ui, flash, status, "schedule", show_one, name=name)
    return respond(ui, flash, status, "recurring", show)


ROUTES = (
    Route("/recurring", "recurring", show, "recurring.view", query=("cursor",)),
    Route("/recurring/<path:name>", "schedule", show_one, "recurring.view", query=("cursor",)),
    Route(
        f"/recurring/<path:name>/<{_VERBS}:command>",
        "schedule_confirm",
        confirm,
        "recurring.{command}",
        query=("from",),
    ),
    Route(f"/recurring/<path:name>/<{_VERBS}:command>", "schedule_act", act, "recurring.{command}", "POST"),
)
