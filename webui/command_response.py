"""After a command: the page it belongs to, with a message; by redirect, or as a fragment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from flask import Response, g, request, url_for

from sloppyjobs import errors
from webui import refusals
from webui.rendering import Flash, is_htmx, keep, render
from webui.ui import Ui, visit

REASON_LENGTH = 2_000

Show = Callable[..., Response]


class Outcome(NamedTuple):
    """What a command was answered: a message, and the page that it is shown on."""

    flash: Flash
    status: int
    endpoint: str
    values: dict[str, Any]


def outcome() -> Outcome | None:
    """What the command of this request was answered, if it was answered with ``answer``."""
    found: Outcome | None = g.get("sloppyjobs_outcome")
    return found


def who() -> dict[str, Any]:
    """Who commands and why, for the audit trail."""
    reason = request.form.get("reason", "").strip()[:REASON_LENGTH]
    return {"actor": visit().actor_name, "reason": reason or None}


def attempt(command: Callable[[], Flash]) -> tuple[Flash, int]:
    """Run a command; a lost race becomes a message, because the page shows what is true now."""
    try:
        return command(), 200
    except errors.InvalidTransition as error:
        return Flash("warn", refusals.title(error), refusals.reason(error)), 409


def answer(ui: Ui, flash: Flash, status: int, endpoint: str, show: Show, **values: Any) -> Response:
    """The page at ``endpoint``: shown at once to a script, by redirect to everybody else.

    Who may command but not see that page is told what was done, and no more.
    """
    ui.snapshots.forget()
    g.sloppyjobs_outcome = Outcome(flash, status, endpoint, values)
    if visit().lacks(ui.routes[endpoint], values) is not None:
        return render(ui, "done.html", title=flash.title, status=status, done=flash)
    if is_htmx():
        return ui.admin.snapshot(lambda: show(ui, **values, flashes=(flash,), status=status))
    keep(ui, flash)
    return Response(status=303, headers={"Location": url_for(f".{endpoint}", **values)})
