"""A form that is sent twice is done once.

Every form with POST carries an idempotency key. The first request claims the key and runs the command; its response is
stored in the database, for all processes. Whoever sends the same form again (a double click, a reload, a proxy that
repeats) gets that response, and nothing is done. The key is bound to the actor, the address and the fields: the same
page with other entries is another form. Without a key a form is run each time, as for a script.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import re
import secrets
import time
from collections.abc import Callable
from typing import Any, cast

import msgspec
from flask import Response, current_app, g, request
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException

from sloppyjobs import errors
from sloppyjobs.storage.ports import DatabaseError
from webui import return_address, security
from webui.command_response import Show, outcome, respond
from webui.page_context import KEY_FIELD
from webui.rendering import Flash, flash_later, is_htmx
from webui.routes import Route, changes
from webui.ui import Ui, visit

log = logging.getLogger(__name__)

WAIT_SECONDS = 8.0
"""How long a repeated form waits for the response to the first."""
LOST_SECONDS = 60.0
"""After so long without a response, the process that ran the command is taken to have died."""
LONGEST = 200_000
"""Characters of a page that are stored."""
_STEP_SECONDS = 0.1
_KEY = re.compile(r"[A-Za-z0-9_-]{16,64}")
_PLACEHOLDER = "\ue000token\ue000"
"""Where a stored page had its token."""
_NOT_DONE = (
    errors.StorageUnavailable,
    errors.ReadTimeout,
    errors.SchemaMissing,
    errors.SchemaVersionMismatch,
    DatabaseError,
)

STILL = Flash("info", "This was sent already and is still being done.", "Reload the page to see what has become of it.")
DONE = Flash("info", "This was sent already, and it is done.", "The page shows the present state.")
UNKNOWN = Flash(
    "warn",
    "It is not known whether this was done.",
    "It was sent, but the server stopped before it answered. The page shows the present state: look before you repeat.",
)


class StoredResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    """The response to the first request: a page with a message, a redirect, or a page as it was."""

    status: int
    flashes: list[Flash] = []
    endpoint: str = ""
    values: dict[str, Any] = {}
    location: str = ""
    body: str = ""
    fragment: bool = False


def guard(route: Route) -> Route:
    """The same route; a form that is sent to it twice is done once."""
    if route.method != "POST" or route.api or route.dry or not changes(route.action):
        return route
    inner = route.view

    @functools.wraps(inner)
    def view(ui: Ui, **arguments: Any) -> ResponseReturnValue:
        return _run_once(ui, lambda: inner(ui, **arguments))

    return route._replace(view=view)


def _run_once(ui: Ui, view: Callable[[], ResponseReturnValue]) -> ResponseReturnValue:
    given = request.form.get(KEY_FIELD, "")
    if not _KEY.fullmatch(given):
        return view()
    key, claimant = _digest(given), secrets.token_hex(12)
    deadline = time.monotonic() + WAIT_SECONDS
    sent = ui.admin.claim_form(key, claimant)
    while sent.claimed_by != claimant:
        if sent.answer is not None:
            return _repeat(ui, msgspec.json.decode(sent.answer, type=StoredResponse))
        if sent.seconds > LOST_SECONDS:
            return _redirect_back(ui, UNKNOWN)
        if time.monotonic() >= deadline:
            return _redirect_back(ui, STILL)
        time.sleep(_STEP_SECONDS)
        sent = ui.admin.sent_form(key) or ui.admin.claim_form(key, claimant)
    return _run_first(ui, view, key, claimant)


def _digest(given: str) -> str:
    """The key, bound to the actor, the address and the fields."""
    ours = (KEY_FIELD, security.token_field())
    fields = sorted((name, value) for name, value in request.form.items(multi=True) if name not in ours)
    content = msgspec.json.encode([given, visit().actor_name, request.script_root, request.path, fields])
    return hashlib.sha256(content).hexdigest()


def _run_first(ui: Ui, view: Callable[[], ResponseReturnValue], key: str, claimant: str) -> Response:
    try:
        response = _run_view(view)
    except BaseException as error:
        _settle(ui, key, claimant, _failed(error))
        raise
    _settle(ui, key, claimant, _stored(response))
    return response


def _run_view(view: Callable[[], ResponseReturnValue]) -> Response:
    """The response, also where the command was refused: who sends it again is refused with the same words."""
    try:
        return current_app.make_response(view())
    except _NOT_DONE:
        raise
    except (errors.JobsError, HTTPException) as error:
        return current_app.make_response(current_app.handle_user_exception(error))


def _failed(error: BaseException) -> StoredResponse | None:
    """What is known of a command that failed; None where nothing was done, and it may be sent again."""
    done = outcome()
    if done is not None:
        # It was done, and only its page could not be shown.
        return StoredResponse(done.status, [done.flash], done.endpoint, done.values)
    maybe_done = isinstance(error, errors.StorageUnavailable) and error.maybe_done
    return None if isinstance(error, _NOT_DONE) and not maybe_done else StoredResponse(503, [UNKNOWN])


def _stored(response: Response) -> StoredResponse | None:
    """What is stored of a response; None where the page holds what must not be, and the form may be sent again."""
    if g.get("sloppyjobs_unstored"):
        return None
    status = response.status_code
    done = outcome()
    if done is not None:
        return StoredResponse(done.status, [done.flash], done.endpoint, done.values)
    flashes = list(g.get("sloppyjobs_kept", ()))
    location = response.headers.get("HX-Redirect") or response.headers.get("Location")
    if location:
        return StoredResponse(status, flashes, location=location)
    body = response.get_data(as_text=True)
    if len(body) > LONGEST:
        return StoredResponse(status, [DONE])
    if security.has_secret():
        body = body.replace(security.token(), _PLACEHOLDER)
    return StoredResponse(status, flashes, body=body, fragment=is_htmx())


def _settle(ui: Ui, key: str, claimant: str, stored: StoredResponse | None) -> None:
    """Store the response, or release the key where nothing was done. A failure to store it is only logged."""
    try:
        if stored is None:
            ui.admin.release_form(key, claimant)
        else:
            ui.admin.finish_form(key, claimant, msgspec.json.encode(stored).decode())
    except (errors.JobsError, DatabaseError) as error:
        log.warning("the answer to a form is not kept: %s", type(error).__name__)


def _repeat(ui: Ui, stored: StoredResponse) -> Response:
    """The response to the first request, with the page as it is now."""
    flashes = stored.flashes
    if stored.endpoint in ui.routes:
        show = cast(Show, ui.routes[stored.endpoint].view)
        return respond(ui, flashes[0], stored.status, stored.endpoint, show, **stored.values)
    if stored.location:
        return _redirect(ui, stored.location, *flashes)
    if stored.body and stored.fragment == is_htmx():
        return Response(stored.body.replace(_PLACEHOLDER, security.token()), stored.status, mimetype="text/html")
    return _redirect_back(ui, *(flashes or [DONE]))


def _redirect_back(ui: Ui, *flashes: Flash) -> Response:
    return _redirect(ui, return_address.origin(ui), *flashes)


def _redirect(ui: Ui, address: str, *flashes: Flash) -> Response:
    for flash in flashes:
        flash_later(ui, flash)
    if is_htmx():
        return Response(status=200, headers={"HX-Redirect": address})
    return Response(status=303, headers={"Location": address})
