"""Limits in the API: read, changed, removed; permits taken away."""

from __future__ import annotations

from typing import Any

from flask import Response

from webui import hidden_details
from webui.api.answers import answer, body, text
from webui.api.reads import paging
from webui.ui import Ui, visit
from webui.views.job import visible

_VALUES = ("concurrency", "rate", "per")


def _by(given: dict[str, Any]) -> dict[str, Any]:
    return {"actor": visit().actor_name, "reason": text(given, "reason")}


def list_limits(ui: Ui) -> Response:
    """Every limit, by name."""
    return answer(ui.admin.list_limits(**paging()))


def get_limit(ui: Ui, name: str) -> Response:
    """One limit, its partitions and who holds its permits."""
    return answer(ui.admin.limit_details(name, scope=visit().scope))


def set_limit(ui: Ui, name: str) -> Response:
    """Change a limit: what the body does not give stays as it is, and null means no limit; ``create`` makes one."""
    given = body(*_VALUES, "create")
    values = {key: given[key] for key in _VALUES if key in given}
    done = ui.admin.set_limit(name, **values, create=given.get("create", False), **_by(given))
    return answer(done)


def delete_limit(ui: Ui, name: str) -> Response:
    """Remove a limit; whoever waits for its permits goes on."""
    return answer(ui.admin.delete_limit(name, **_by(body())))


def release(ui: Ui, id: str) -> Response:
    """Take the permit away from a job, which may still run; 409 where it holds none."""
    if visit().scope is not None:
        visible(ui, id)
    done = ui.admin.release_permit(id, **_by(body()))
    ui.snapshots.clear()
    return answer(hidden_details.commanded(done))
