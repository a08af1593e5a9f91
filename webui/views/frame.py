"""What belongs to no page: static files, preferences, probes, and addresses that lead nowhere."""

from __future__ import annotations

import logging

from flask import Response, current_app, request, url_for
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from sloppyjobs.errors import JobsError
from sloppyjobs.storage.ports import DatabaseError
from webui import page_context, return_address
from webui.rendering import Flash, flash_later, is_htmx
from webui.routes import ANY, OTHERS, PUBLIC, SIGNED_IN, Route
from webui.ui import Ui

log = logging.getLogger(__name__)


def asset(ui: Ui, file: str) -> ResponseReturnValue:
    """A static file."""
    found = ui.assets.response(file)
    if found is None:
        raise NotFound
    return found


def choose(ui: Ui) -> Response:
    """Keep a viewer's preferences, and go back to the page as it was, with its filters."""
    form = request.form
    zone = form.get("tz")
    chosen = page_context.preferences_of(ui).chosen(zone, form.get("theme"), form.get("live"))
    if is_htmx():
        # To show the answer to a form anew, the browser would have to send the form again.
        answered = return_address.shows_an_answer(ui)
        headers = {"HX-Redirect": return_address.origin(ui)} if answered else {"HX-Refresh": "true"}
        response = Response(status=204, headers=headers)
    else:
        response = Response(status=303, headers={"Location": return_address.origin(ui)})
    if zone and not page_context.known_zone(zone):
        flash_later(ui, Flash("warn", "There is no such time zone.", "Use a name such as Europe/Paris or UTC."))
    page_context.write_preferences(
        response, chosen, cookie=ui.cookie, path=url_for(".overview"), secure=request.is_secure
    )
    return response


def alive(_ui: Ui) -> Response:
    """Whether the process answers."""
    return Response("ok\n", mimetype="text/plain")


def ready(ui: Ui) -> Response:
    """Whether the database answers and has its tables. Says no more than that, because anybody may ask."""
    try:
        ui.admin.list_locks(page_size=1)
    except (JobsError, DatabaseError) as error:
        log.warning("not ready: %s", type(error).__name__)
        return Response("not ready\n", 503, mimetype="text/plain")
    return Response("ready\n", mimetype="text/plain")


def nowhere(ui: Ui, anything: str = "") -> Response:
    """An address under the blueprint's prefix that is none, or that takes other methods."""
    allowed = [method for method in ("GET", "POST") if _leads_somewhere(ui, method)]
    raise MethodNotAllowed(allowed) if allowed else NotFound(anything)


def _leads_somewhere(ui: Ui, method: str) -> bool:
    addresses = current_app.create_url_adapter(request)
    assert addresses is not None
    try:
        endpoint, _ = addresses.match(method=method)
    except HTTPException:
        return False
    route = ui.routes.get(endpoint.rpartition(".")[2])
    return route is not None and not route.leads_nowhere


ROUTES = (
    Route("/assets/<path:file>", "asset", asset, PUBLIC),
    Route("/preferences", "preferences", choose, SIGNED_IN, "POST"),
    Route("/healthz", "healthz", alive, PUBLIC),
    Route("/readyz", "readyz", ready, PUBLIC),
)
NOWHERE = (
    Route("/<path:anything>", "nowhere", nowhere, SIGNED_IN, ANY),
    Route("/", "nowhere_root", nowhere, SIGNED_IN, OTHERS),
)
