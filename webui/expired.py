"""A form whose token has expired is shown again, with what was typed. Nothing is changed, and nothing is lost.

A script gets a message and a fresh token for the page as it is. Everybody else gets the page that asks
before the command, where there is one, else a page with the entries and a button that sends them.
"""

from __future__ import annotations

from typing import Any

from flask import Response, current_app, g, request
from flask.typing import ResponseReturnValue

from webui import gate, return_address, security
from webui.page_context import KEY_FIELD, PageContext
from webui.policy import COMMANDS
from webui.rendering import Flash, flash_later, is_htmx, render
from webui.routes import Route
from webui.ui import Ui, visit_or_none

STATUS = 400
TOKEN_HEADER = "SJ-Token"  # noqa: S105 - the name of a header
"""Carries the fresh token to the script, which puts it into the forms of the page."""
EXPIRED = Flash("bad", "The form has expired.", "Your entries are kept: send it again. Nothing was changed.")
SHOWN = 12
"""Entries that are listed; all of them are sent again."""
_VERBS = (*COMMANDS, "trigger")


def form_again(ui: Ui) -> ResponseReturnValue:
    """The form again. Raises what refuses the request for another reason, such as a missing permission."""
    if visit_or_none() is None:
        # A host's protection has looked at the token before we could ask who it is.
        try:
            refused = gate.admit(ui)
        except security.FormExpired:
            refused = None
        if refused is not None:
            return refused
    if is_htmx():
        return _in_place(ui)
    g.sloppyjobs_typed = True
    flash_later(ui, EXPIRED)
    response = current_app.make_response(_page(ui))
    response.status_code = STATUS
    return response


def _in_place(ui: Ui) -> Response:
    context = PageContext(ui, visit_or_none())
    text = ui.templates.get_template("sloppyjobs/flash-oob.html").render(context=context, flashes=(EXPIRED,))
    headers = {"HX-Reswap": "none", TOKEN_HEADER: security.token()}
    return Response(text, STATUS, headers, mimetype="text/html")


def _page(ui: Ui) -> ResponseReturnValue:
    confirmation = _confirmation(ui)
    if confirmation is not None:
        route, values = confirmation
        return ui.admin.snapshot(lambda: route.view(ui, **values))
    route, values = ui.current_route(), dict(request.view_args or {})
    ours = (KEY_FIELD, security.token_field(), return_address.FIELD, "reason")
    fields = [(name, value) for name, value in request.form.items(multi=True) if name not in ours]
    entries = [(name.replace("_", " ").capitalize(), value) for name, value in fields if value and name != "from"]
    return render(
        ui, "resend.html", title="Send the form again", words=_words(route, values), fields=fields,
        entries=entries[:SHOWN], action=PageContext(ui, visit_or_none()).url(route.endpoint, **values),
        back=return_address.origin(ui), reasoned="reason" in request.form,
    )  # fmt: skip


def _confirmation(ui: Ui) -> tuple[Route, dict[str, Any]] | None:
    """The page that asks before this command: at the same address, or the preview of a bulk command."""
    sent = ui.current_route()
    preview = ui.routes.get(sent.endpoint.replace("_act", "_preview"))
    if preview is not None and preview.dry:
        return preview, dict(request.view_args or {})
    found = return_address.page_of(ui, request.script_root + request.path)
    return found if found is not None and found[0].rule == sent.rule else None


def _words(route: Route, values: dict[str, Any]) -> str:
    command = str(values.get("command") or route.endpoint.rpartition("_")[2])
    about = str(values.get("name") or values.get("id") or "")
    return f"{command.capitalize()} {about}" if about and command in _VERBS else "Send the form again"
