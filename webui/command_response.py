"""After a command: the page it belongs to, with a message; by redirect, or as a fragment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from flask import Response, g, request, url_for

from sloppyjobs import errors
from webui import refusals
from webui.fields import REFUSED, Form
from webui.rendering import Flash, flash_later, is_htmx, render
from webui.ui import Ui, visit

if TYPE_CHECKING:
    from webui.until import UntilForm

REASON_LENGTH = 2_000

Show = Callable[..., Response]


class Outcome(NamedTuple):
    """The result of a command: a message, and the page that it is shown on."""

    flash: Flash
    status: int
    endpoint: str
    values: dict[str, Any]


def outcome() -> Outcome | None:
    """The result of this request's command, if it was sent by ``respond``."""
    found: Outcome | None = g.get("sloppyjobs_outcome")
    return found


def actor_and_reason() -> dict[str, Any]:
    """The actor and the reason of a command, for the audit trail."""
    reason = request.form.get("reason", "").strip()[:REASON_LENGTH]
    return {"actor": visit().actor_name, "reason": reason or None}


def run_command(command: Callable[[], Flash]) -> tuple[Flash, int]:
    """Run a command; a lost race becomes a message, because the page shows what is true now."""
    try:
        return command(), 200
    except errors.InvalidTransition as error:
        return Flash("warn", refusals.title(error), refusals.reason(error)), 409
    except errors.KeyConflict as error:
        return Flash("warn", refusals.NOT_DONE, f"{error}."), 409


def refuse(ui: Ui, why: str, form: Form | UntilForm, endpoint: str, show: Show, **values: Any) -> Response:
    """The page at ``endpoint`` with a form that cannot be carried out, in which everything stays as it was typed.

    Who may send the form but not see that page is told why, and no more.
    """
    # What was typed may be a secret: the page with it is not kept for those who send the form twice.
    g.sloppyjobs_unstored = True
    if visit().lacks(ui.routes[endpoint], values) is not None:
        flash = Flash("warn", refusals.NOT_DONE, why)
        return render(ui, "done.html", title=flash.title, status=REFUSED, done=flash)
    return ui.admin.snapshot(lambda: show(ui, **values, status=REFUSED, form=form))


def respond(ui: Ui, flash: Flash, status: int, endpoint: str, show: Show, **values: Any) -> Response:
    """The page at ``endpoint``: shown at once to a script, by redirect to everybody else.

    Who may command but not see that page is told what was done, and no more.
    """
    ui.snapshots.clear()
    g.sloppyjobs_outcome = Outcome(flash, status, endpoint, values)
    if visit().lacks(ui.routes[endpoint], values) is not None:
        return render(ui, "done.html", title=flash.title, status=status, done=flash)
    if is_htmx():
        return ui.admin.snapshot(lambda: show(ui, **values, flashes=(flash,), status=status))
    flash_later(ui, flash)
    return Response(status=303, headers={"Location": url_for(f".{endpoint}", **values)})
