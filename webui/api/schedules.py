"""Schedules made and changed in the API; reads and the other commands stand beside."""

from __future__ import annotations

from typing import Any

from flask import Response

from sloppyjobs import errors
from sloppyjobs.schedules.settings import ScheduleChanges, ScheduleSettings
from webui import hidden_details
from webui.api.answers import answer, body, text
from webui.api.reads import get_recurring
from webui.schedule_forms import check_queue
from webui.ui import Ui, visit


def _by(given: dict[str, Any]) -> dict[str, Any]:
    return {"actor": visit().actor_name, "reason": text(given, "reason")}


def _undefined(ui: Ui) -> errors.InvalidOption:
    words = "must be a job that is defined here"
    if not ui.knows_jobs:
        words += "; this process knows none, start it with SLOPPYJOBS_APP=module:jobs"
    return errors.InvalidOption(f"job_name {words}", field="job_name", reason=words)


def create(ui: Ui) -> Response:
    """Write a new schedule of one of ``cron``, ``every`` and ``at``; 409 where its name is taken."""
    given = body("name", "job_name", "payload", *ScheduleSettings.__annotations__)
    settings = {key: value for key, value in given.items() if key != "reason"}
    name, job_name = settings.pop("name", None), settings.pop("job_name", None)
    payload = settings.pop("payload", None)
    check_queue(ui, job_name, settings.get("queue"))
    try:
        made = ui.admin.create_recurring(name, job_name, payload, **settings, **_by(given))
    except errors.UnknownJob:
        raise _undefined(ui) from None
    ui.snapshots.clear()
    return answer(hidden_details.schedule(made))


def edit(ui: Ui, name: str) -> Response:
    """Change a schedule; what the body does not give stays as it is. 409 for one that is declared in code."""
    if visit().scope is not None:
        get_recurring(ui, name)
    given = body(*ScheduleChanges.__annotations__)
    changes = {key: value for key, value in given.items() if key != "reason"}
    if "queue" in changes:
        check_queue(ui, ui.admin.get_recurring(name).job_name, changes["queue"])
    try:
        done = ui.admin.edit_recurring(name, **changes, **_by(given))
    except errors.UnknownSchedule:
        raise
    except errors.UnknownJob:
        raise _undefined(ui) from None
    ui.snapshots.clear()
    return answer(hidden_details.schedule(done))
