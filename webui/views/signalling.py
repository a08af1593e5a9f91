"""The form on a job's page that sends it a signal."""

from __future__ import annotations

from typing import Any

import msgspec
from flask import Response, request

from sloppyjobs import errors
from webui.command_response import actor_and_reason, refuse, respond, run_command
from webui.fields import Form
from webui.filters import sentence
from webui.rendering import Flash
from webui.routes import Route
from webui.ui import Ui, visit
from webui.views import job

FORM = "signal"
SHOWN = 100_000
"""Characters of a value that are shown again."""
_NOT_JSON = 'Write JSON, such as {"by": "ada"}, or null for no value. Nothing was sent.'


def send(ui: Ui, id: str) -> Response:
    """Do it. What cannot be sent is said under its field, in which everything stays as it was typed."""
    if visit().scope is not None:
        job.visible(ui, id)
    name, text = request.form.get("name", "").strip(), request.form.get("value", "")
    try:
        given = _decoded(text)
        flash, status = run_command(lambda: _sent(ui, id, name, given))
    except errors.InvalidOption as error:
        return _refused(ui, id, "name", sentence(error))
    except (errors.InvalidPayload, errors.InvalidStep) as error:
        return _refused(ui, id, "value", f"{error}.")
    return respond(ui, flash, status, "job", job.show, id=id)


def _sent(ui: Ui, id: str, name: str, given: Any) -> Flash:
    if ui.admin.signal(id, name, given, **actor_and_reason()):
        return Flash("ok", f"Signal {name} sent.", "A job that waits for it is queued now; any other keeps it.")
    return Flash("warn", "Nothing was sent.", f"The job has the signal {name} already: the first one wins.")


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text.strip() or "null")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise errors.InvalidPayload(_NOT_JSON.removesuffix(".")) from None


def _refused(ui: Ui, id: str, field: str, why: str) -> Response:
    typed = {
        "name": request.form.get("name", "")[:200],
        "value": request.form.get("value", "")[:SHOWN],
        "reason": request.form.get("reason", "")[:2_000],
    }
    return refuse(ui, why, Form(typed, {field: why}, FORM), "job", job.show, id=id)


ROUTES = (Route("/jobs/<path:id>/signal", "job_signal", send, "job.signal", "POST"),)
