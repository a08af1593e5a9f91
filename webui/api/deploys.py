"""Deploys in the API: listed, and marked."""

from __future__ import annotations

from flask import Response

from sloppyjobs import errors
from webui.api.answers import answer, body, text
from webui.api.reads import paging
from webui.ui import Ui, visit


def list_deploys(ui: Ui) -> Response:
    """Deploys, latest first."""
    return answer(ui.admin.list_deploys(**paging()))


def mark_deploy(ui: Ui) -> Response:
    """Mark that a version is deployed now; ``existing`` says that the latest deploy has it already."""
    given = body("version", "note")
    if "version" not in given:
        raise errors.InvalidOption('version is missing: {"version": "119", "note": "new templates"}', field="version")
    by = {"actor": visit().actor_name, "reason": text(given, "reason")}
    made = ui.admin.mark_deploy(given["version"], given.get("note"), **by)
    ui.snapshots.clear()
    return answer(made)
