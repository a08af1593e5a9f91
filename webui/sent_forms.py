"""A form that is sent twice is done once.

Every form with POST carries a key that was made for it. Whoever sends it first takes the key and does the command; what
that was answered is kept in the database, for all processes, and whoever sends the same form again (a double click, a
reload, a proxy that repeats) gets that answer and nothing is done. A key belongs to who sent it, where to, and to what
the form said: the same page with other entries is another form. Without a key a form is done each time, as by a script.
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
from webui.command_response import Show, answer, outcome
from webui.rendering import KEY_FIELD, Flash, is_htmx, keep
from webui.routes import Route, changes
from webui.ui import Ui, visit

log = logging.getLogger(__name__)

WAIT_SECONDS = 8.0
"""How long a repeated form waits for the answer of the first."""
LOST_SECONDS = 60.0
"""After so long without an answer, the process that did it is taken to be gone."""
LONGEST = 200_000
"""Characters of a page that are kept to be shown again."""
_STEP_SECONDS = 0.1
_KEY = re.compile(r"[A-Za-z0-9_-]{16,64}")
_MARK = "\ue000token\ue000"
"""Where a page that is kept had its token."""
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


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the first sending was answered: a page with a message, another address, or a page as it was."""

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
        return _once(ui, lambda: inner(ui, **arguments))

    return route._replace(view=view)


def _once(ui: Ui, view: Callable[[], ResponseReturnValue]) -> ResponseReturnValue:
    given = request.form.get(KEY_FIELD, "")
    if not _KEY.fullmatch(given):
        return view()
    key, mine = _digest(given), secrets.token_hex(12)
    deadline = time.monotonic() + WAIT_SECONDS
    sent = ui.admin.claim_form(key, mine)
    while sent.claimed_by != mine:
        if sent.answer is not None:
            return _again(ui, msgspec.json.decode(sent.answer, type=Kept))
        if sent.seconds > LOST_SECONDS:
            return _back(ui, UNKNOWN)
        if time.monotonic() >= deadline:
            return _back(ui, STILL)
        time.sleep(_STEP_SECONDS)
        sent = ui.admin.sent_form(key) or ui.admin.claim_form(key, mine)
    return _first(ui, view, key, mine)


def _digest(given: str) -> str:
    """The key, bound to who sends it, where to, and to what the form says."""
    ours = (KEY_FIELD, security.token_field())
    fields = sorted((name, value) for name, value in request.form.items(multi=True) if name not in ours)
    said = msgspec.json.encode([given, visit().actor_name, request.script_root, request.path, fields])
    return hashlib.sha256(said).hexdigest()


def _first(ui: Ui, view: Callable[[], ResponseReturnValue], key: str, mine: str) -> Response:
    try:
        response = _run(view)
    except BaseException as error:
        _settle(ui, key, mine, _failed(error))
        raise
    _settle(ui, key, mine, _kept(response))
    return response


def _run(view: Callable[[], ResponseReturnValue]) -> Response:
    """The answer, also where the command was refused: who sends it again is refused with the same words."""
    try:
        return current_app.make_response(view())
    except _NOT_DONE:
        raise
    except (errors.JobsError, HTTPException) as error:
        return current_app.make_response(current_app.handle_user_exception(error))


def _failed(error: BaseException) -> Kept | None:
    """What is known of a command that failed; None where nothing was done, and it may be sent again."""
    done = outcome()
    if done is not None:
        # It was done, and only its page could not be shown.
        return Kept(done.status, [done.flash], done.endpoint, done.values)
    maybe_done = isinstance(error, errors.StorageUnavailable) and error.maybe_done
    return None if isinstance(error, _NOT_DONE) and not maybe_done else Kept(503, [UNKNOWN])


def _kept(response: Response) -> Kept:
    status = response.status_code
    done = outcome()
    if done is not None:
        return Kept(done.status, [done.flash], done.endpoint, done.values)
    flashes = list(g.get("sloppyjobs_kept", ()))
    location = response.headers.get("HX-Redirect") or response.headers.get("Location")
    if location:
        return Kept(status, flashes, location=location)
    body = response.get_data(as_text=True)
    if len(body) > LONGEST:
        return Kept(status, [DONE])
    if security.has_secret():
        body = body.replace(security.token(), _MARK)
    return Kept(status, flashes, body=body, fragment=is_htmx())


def _settle(ui: Ui, key: str, mine: str, kept: Kept | None) -> None:
    """Keep the answer, or give the key back where nothing was done. That it cannot be kept harms nobody."""
    try:
        if kept is None:
            ui.admin.release_form(key, mine)
        else:
            ui.admin.finish_form(key, mine, msgspec.json.encode(kept).decode())
    except (errors.JobsError, DatabaseError) as error:
        log.warning("the answer to a form is not kept: %s", type(error).__name__)


def _again(ui: Ui, kept: Kept) -> Response:
    """What the first sending was answered, anew: with the page as it is now."""
    flashes = kept.flashes
    if kept.endpoint in ui.routes:
        show = cast(Show, ui.routes[kept.endpoint].view)
        return answer(ui, flashes[0], kept.status, kept.endpoint, show, **kept.values)
    if kept.location:
        return _go(ui, kept.location, *flashes)
    if kept.body and kept.fragment == is_htmx():
        return Response(kept.body.replace(_MARK, security.token()), kept.status, mimetype="text/html")
    return _back(ui, *(flashes or [DONE]))


def _back(ui: Ui, *flashes: Flash) -> Response:
    return _go(ui, return_address.origin(ui), *flashes)


def _go(ui: Ui, address: str, *flashes: Flash) -> Response:
    for flash in flashes:
        keep(ui, flash)
    if is_htmx():
        return Response(status=200, headers={"HX-Redirect": address})
    return Response(status=303, headers={"Location": address})
