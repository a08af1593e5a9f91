"""After a command: the page it belongs to, with a message; by redirect, or as a fragment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Response, request, url_for

from sloppyjobs import errors
from webui.rendering import Flash, is_htmx, keep
from webui.ui import Ui, visit

REASON_LENGTH = 2_000

Show = Callable[..., Response]


def who() -> dict[str, Any]:
    """Who commands and why, for the audit trail."""
    reason = request.form.get("reason", "").strip()[:REASON_LENGTH]
    return {"actor": visit().actor_name, "reason": reason or None}


def attempt(command: Callable[[], Flash]) -> tuple[Flash, int]:
    """Run a command; a lost race becomes a message, because the page shows what is true now."""
    try:
        return command(), 200
    except errors.InvalidTransition as error:
        return Flash("warn", "Somebody was faster. Nothing was changed.", f"{error}."), 409


def answer(ui: Ui, flash: Flash, status: int, endpoint: str, show: Show, **values: Any) -> Response:
    """The page at ``endpoint``: shown at once to a script, by redirect to everybody else."""
    ui.snapshots.forget()
    if is_htmx():
        return ui.admin.together(lambda: show(ui, **values, flashes=(flash,), status=status))
    keep(ui, flash)
    return Response(status=303, headers={"Location": url_for(f".{endpoint}", **values)})
