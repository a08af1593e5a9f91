"""The form on a job's page that changes its payload, without showing it."""

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

FIELD = "patch"
SHOWN = 100_000
"""Characters of a patch that are shown again."""


def patch(ui: Ui, id: str) -> Response:
    """Do it. What cannot be done is said under the field, in which everything stays as it was typed."""
    if visit().scope is not None:
        job.visible(ui, id)
    text = request.form.get(FIELD, "")
    try:
        given = _decoded(text)
        flash, status = run_command(lambda: _patched(ui, id, given))
    except errors.InvalidOption as error:
        return _refused(ui, id, text, sentence(error))
    except errors.InvalidPayload as error:
        # It names the place in the payload.
        return _refused(ui, id, text, f"{error}.")
    return respond(ui, flash, status, "job", job.show, id=id)


def _patched(ui: Ui, id: str, given: Any) -> Flash:
    ui.admin.patch_payload(id, given, **actor_and_reason())
    return Flash("ok", "Payload changed.", "The audit trail has the keys, and no value.")


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        words = 'write a JSON object with the keys that change, such as {"amount": 5}'
        raise errors.InvalidOption(words, field=FIELD, reason=words) from None


def _refused(ui: Ui, id: str, text: str, why: str) -> Response:
    typed = {FIELD: text[:SHOWN], "reason": request.form.get("reason", "")[:2_000]}
    return refuse(ui, why, Form(typed, {FIELD: why}, FIELD), "job", job.show, id=id)


ROUTES = (Route("/jobs/<path:id>/patch", "job_patch", patch, "job.patch", "POST"),)
