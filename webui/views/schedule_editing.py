"""Schedules made and changed by operators. Their payloads are written here, and never filled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flask import Response, g, request

from sloppyjobs import errors
from sloppyjobs.schedules.occurrences import Recurring
from webui import hidden_details, schedule_forms
from webui.command_response import REASON_LENGTH, actor_and_reason, refuse, respond, run_command
from webui.fields import EMPTY, REFUSED, Form
from webui.rendering import Flash, is_htmx, render
from webui.routes import Route
from webui.ui import Ui
from webui.views import jobs, recurring

SHOWN = 100_000
"""Characters of a payload that are shown again in a form that was refused."""
_UNKNOWN = "No job of this name is defined here."
_IN_CODE = "It is declared in code and changed there; here it can be paused, resumed and triggered."
_MEANWHILE = "Somebody has changed this schedule meanwhile. Look at what it is now, then save again."


def new(ui: Ui, *, form: Form = EMPTY, status: int = 200) -> Response:
    """The form of a new schedule."""
    return _page(ui, None, "New schedule", form, status)


def edit(ui: Ui, name: str, *, form: Form = EMPTY, status: int = 200) -> Response:
    """The form of a schedule; one that is declared in code says so instead."""
    return _page(ui, recurring.visible(ui, name), f"Edit {name}", form, status)


def _page(ui: Ui, schedule: Recurring | None, title: str, form: Form, status: int) -> Response:
    if not form.typed and g.get("sloppyjobs_typed"):
        # Its token has expired.
        form = Form(_typed())
    untouched = schedule_forms.UNTOUCHED if schedule is None else schedule_forms.values_of(schedule)
    typed = form.typed or untouched
    return render(
        ui, "schedule-edit.html", title=title, nav="recurring", status=status, schedule=schedule, form=form,
        untouched=untouched, seen="" if schedule is None else schedule_forms.digest(schedule),
        kinds=schedule_forms.KINDS, misfires=schedule_forms.MISFIRES, labels=schedule_forms.LABELS,
        preview=schedule_forms.preview(typed, schedule), zone=typed.get("timezone", ""), knows_jobs=ui.knows_jobs,
        known=jobs.known(ui) if hidden_details.sees_jobs() else {"names": [], "queues": []},
    )  # fmt: skip


def _typed() -> dict[str, str]:
    """The fields of the form as they are shown again."""
    longest = {"payload": SHOWN}
    fields = (*schedule_forms.LABELS, "paused", "reason", "seen")
    return {name: request.form.get(name, "")[: longest.get(name, REASON_LENGTH)] for name in fields}


def preview_new(ui: Ui) -> Response:
    """The same form, with when it would fire."""
    return _previewed(ui, lambda form, status: new(ui, form=form, status=status))


def preview_edit(ui: Ui, name: str) -> Response:
    """The same form, with when it would fire."""
    return _previewed(ui, lambda form, status: edit(ui, name, form=form, status=status))


def _previewed(ui: Ui, show: Callable[[Form, int], Response]) -> Response:
    typed = _typed()
    wrong = schedule_forms.read_timing(typed, {"timezone": typed["timezone"].strip() or "UTC"})
    # A script asks while somebody types: what is not whole yet is no mistake.
    status = REFUSED if wrong and not is_htmx() else 200
    return ui.admin.snapshot(lambda: show(Form(typed, wrong), status))


def create(ui: Ui) -> Response:
    """Write a new schedule; refused in place where it cannot work."""
    form = request.form
    name, job = form.get("name", "").strip(), form.get("job", "").strip()
    asked, wrong = schedule_forms.read(form)
    if not name:
        wrong["name"] = "Write a name."
    if not job:
        wrong["job"] = "Write the name of a job."
    payload = asked.pop("payload", None)

    def run() -> Flash:
        paused = bool(form.get("paused"))
        schedule_forms.check_queue(ui, job, asked["queue"])
        made = ui.admin.create_recurring(name, job, payload, **asked, paused=paused, **actor_and_reason())
        return Flash("ok", f"{made.name} created.", "It is paused." if paused else "Workers fire it by themselves.")

    try:
        if not wrong:
            flash, status = run_command(run)
            return respond(ui, flash, status, "schedule", recurring.show_one, name=name)
    except errors.JobsError as error:
        wrong = _named(error)
    return _refused(ui, wrong, "schedule_new", new)


def change(ui: Ui, name: str) -> Response:
    """Change a schedule; refused in place where it cannot work."""
    schedule = recurring.visible(ui, name)
    if schedule.declared:
        return respond(ui, Flash("warn", "Nothing was done.", _IN_CODE), 409, "schedule", recurring.show_one, name=name)
    if request.form.get("seen") and request.form["seen"] != schedule_forms.digest(schedule):
        return _refused(ui, {"": _MEANWHILE}, "schedule_edit", edit, name=name)
    asked, wrong = schedule_forms.read(request.form)
    changed = schedule_forms.changes(schedule, request.form, asked)

    def run() -> Flash:
        if not changed:
            return Flash("info", "Nothing was changed.", "The schedule has these values already.")
        if "queue" in changed:
            schedule_forms.check_queue(ui, schedule.job_name, changed["queue"])
        ui.admin.edit_recurring(name, **changed, **actor_and_reason())
        return Flash("ok", f"{name} changed.", "Jobs that it made stay as they are.")

    try:
        if not wrong:
            flash, status = run_command(run)
            return respond(ui, flash, status, "schedule", recurring.show_one, name=name)
    except errors.JobsError as error:
        wrong = _named(error)
    return _refused(ui, wrong, "schedule_edit", edit, name=name)


def _named(error: errors.JobsError) -> dict[str, str]:
    """The field that an error is about, with a sentence; raises what is about none."""
    match error:
        case errors.DuplicateJob():
            return {"name": "This name is taken. Choose another, or edit that schedule."}
        case errors.UnknownSchedule():
            raise error
        case errors.UnknownJob():
            return {"job": _UNKNOWN}
        case errors.InvalidPayload():
            # It names the place in the payload.
            return {"payload": f"{error}."}
        case errors.InvalidSchedule() | errors.InvalidOption():
            return schedule_forms.wrong_field(error)
    raise error


def _refused(ui: Ui, wrong: Mapping[str, str], endpoint: str, show: Callable[..., Response], **values: Any) -> Response:
    return refuse(ui, next(iter(wrong.values())), Form(_typed(), wrong), endpoint, show, **values)


ROUTES = (
    # Not below /recurring/, where every name is a schedule's.
    Route("/new-schedule", "schedule_new", new, "recurring.create"),
    Route("/new-schedule", "schedule_create", create, "recurring.create", "POST"),
    Route("/new-schedule/preview", "schedule_new_preview", preview_new, "recurring.create", "POST", dry=True),
    Route("/recurring/<path:name>/edit", "schedule_edit", edit, "recurring.edit", also=("recurring.view",)),
    Route("/recurring/<path:name>/edit", "schedule_change", change, "recurring.edit", "POST"),
    Route("/recurring/<path:name>/edit/preview", "schedule_edit_preview", preview_edit, "recurring.edit", "POST",
          also=("recurring.view",), dry=True),
)  # fmt: skip
