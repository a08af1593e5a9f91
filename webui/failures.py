"""Error pages of the blueprint. They say what is wrong and what to do next, and never show a raw error."""

from __future__ import annotations

from typing import NamedTuple

from flask import Blueprint, Flask, Response, request, url_for
from flask.typing import ResponseReturnValue
from flask_wtf.csrf import CSRFError
from werkzeug.exceptions import (
    Forbidden,
    HTTPException,
    InternalServerError,
    MethodNotAllowed,
    NotFound,
    RequestEntityTooLarge,
    SecurityError,
    default_exceptions,
)

from sloppyjobs import errors
from sloppyjobs.admin.queues import PAST
from sloppyjobs.storage.ports import DatabaseError
from webui import expired, refusals, return_address
from webui.gate import Denied, NoPolicy, Unauthenticated
from webui.rendering import render
from webui.security import CHALLENGE, SAFE, BearerMissing, ForeignOrigin, FormExpired, SecretKeyMissing, has_secret
from webui.ui import Ui

TOO_MANY = 429


class Explained(NamedTuple):
    """An error as it is told to people and to programs."""

    status: int
    code: str
    title: str
    text: str
    icon: str = "warn"
    command: str = ""
    retry: bool = False


TOO_LONG = Explained(
    503,
    errors.ReadTimeout.code,
    "That took too long",
    "The query was stopped because it took too long. Choose a shorter time range or one queue.",
    "scheduled",
    retry=True,
)


LOST_PLACE = "The address is damaged, or its cursor belongs to other filters. Open the list from its start."
"""What is said of a cursor that leads nowhere."""


def explain(error: BaseException) -> Explained:  # noqa: PLR0912 - one case per error
    """What an error means."""
    match error:
        case Denied():
            return _denied(error)
        case NoPolicy():
            return _no_policy(error)
        case errors.UnknownSchedule():
            return Explained(
                404, error.code, "404: no such schedule", "It may have been deleted, or its name has changed.", "search"
            )
        case errors.UnknownLimit():
            return Explained(404, error.code, "404: no such limit", "No limit has this name.", "limits")
        case errors.UnknownBatch():
            text = "Batches are removed 90 days after their end; or you are not allowed to see its queues."
            return Explained(404, error.code, "404: no such batch", text, "search")
        case errors.UnknownQueue():
            text = "No job has used it yet, or you are not allowed to see it."
            return Explained(404, error.code, "404: no such queue", text, "search")
        case errors.UnknownWorker():
            text = "Workers are forgotten a day after their last heartbeat; or you are not allowed to see its queues."
            return Explained(404, error.code, "404: no such worker", text, "search")
        case errors.UnknownAlert():
            text = "No worker has declared it: rules stand in the application's code."
            return Explained(404, error.code, "404: no such rule", text, "search")
        case errors.UnknownJobType():
            text = "Nothing of this name is defined here or was run lately, or it is in a queue that you do not see."
            return Explained(404, error.code, "404: no such job type", text, "search")
        case errors.UnknownCause():
            text = "No job has died of it in the last 90 days, or it is in a queue that you do not see."
            return Explained(404, error.code, "404: no such cause", text, "search")
        case errors.UnknownWorkflow():
            text = "Its jobs may have been removed for their age, or you may not see their queues."
            return Explained(404, error.code, "404: no such workflow", text, "search")
        case errors.UnknownJob():
            text = "It may have been removed for its age, or you may not see its queue."
            return Explained(404, error.code, "404: no such job", text, "search")
        case errors.DuplicateJob() | errors.KeyConflict() | errors.PermitNotHeld():
            return Explained(409, error.code, refusals.NOT_DONE, _sentence(error))
        case errors.InvalidTransition():
            return Explained(409, error.code, refusals.title(error), refusals.reason(error))
        case errors.SchemaMissing():
            command = 'sloppyjobs --database "$SLOPPYJOBS_DATABASE_URL" init'
            text = "The database answers, but has no tables of sloppyjobs yet. Create them once:"
            return Explained(503, error.code, "The tables are missing", text, "database", command)
        case errors.SchemaVersionMismatch():
            return Explained(503, error.code, "The tables have another version", _sentence(error), "database")
        case errors.ReadTimeout():
            return TOO_LONG
        case errors.StorageUnavailable():
            return _database(error)
        case errors.InvalidOption(field="cursor"):
            return Explained(400, error.code, "400: no such page of the list", LOST_PLACE)
        case errors.InvalidOption():
            return Explained(400, error.code, "This request has a wrong value", _option(error))
        case DatabaseError():
            return _database(error)
        case errors.JobsError():
            return Explained(400, error.code, "Refused", _sentence(error))
        case ForeignOrigin():
            text = "The request came from a page of another site. Nothing was done."
            return Explained(403, "FOREIGN_ORIGIN", "403: sent by another site", text, "locks")
        case FormExpired() | CSRFError():
            text = "Nothing was done. Reload the page and send it again."
            return Explained(400, "FORM_EXPIRED", "The form has expired", text, "locks")
        case SecretKeyMissing():
            text = "Forms need the application's SECRET_KEY, and none is set. Set one:"
            command = 'app.config["SECRET_KEY"] = …'
            return Explained(500, "SECRET_KEY_MISSING", "No SECRET_KEY", text, "locks", command)
        case BearerMissing() | Unauthenticated():
            return _unauthenticated(error)
        case HTTPException():
            return _http(error)
        case _:
            return _http(InternalServerError())


def _sentence(error: Exception) -> str:
    """What the core says, as a sentence."""
    text = str(error)
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _option(error: errors.InvalidOption) -> str:
    """Which option is wrong and what it takes; what was given is on the page, or in the address."""
    if error.field is None or error.reason is None:
        return _sentence(error)
    if error.field == "until" and error.reason == PAST:
        return "Choose a time in the future."
    name = error.field.replace("_", " ").capitalize()
    joined = " " if error.reason.startswith(("must", "is ", "has ")) else ": "
    return f"{name}{joined}{error.reason.rstrip('.')}."


def _http(error: HTTPException) -> Explained:
    match error:
        case NotFound():
            return Explained(
                404, "NOT_FOUND", "404: no such page", "Check the address, or start from the overview.", "search"
            )
        case MethodNotAllowed():
            return Explained(
                405,
                "METHOD_NOT_ALLOWED",
                "405: method not allowed",
                "This address does not answer this kind of request.",
            )
        case Forbidden():
            return Explained(403, "FORBIDDEN", "403: you may not see this", "Ask whoever manages access.")
        case RequestEntityTooLarge():
            text = "The request is too large. Nothing was done. Send less at a time."
            return Explained(413, "REQUEST_TOO_LARGE", "413: too large", text)
        case SecurityError():
            text = "The server does not answer to this host name. Add it to SLOPPYJOBS_WEBUI_HOSTS, or use another one."
            return Explained(400, "HOST_NOT_TRUSTED", "400: unknown host name", text, "locks")
        case InternalServerError():
            text = "This is a fault of the server, not yours. The details are in its log."
            return Explained(500, "INTERNAL_ERROR", "500: something went wrong", text)
    status = error.code or 500
    title = f"{status}: {error.name.lower()}"
    return Explained(status, error.name.upper().replace(" ", "_"), title, "The server refused this request.")


def _unauthenticated(error: BearerMissing | Unauthenticated) -> Explained:
    if isinstance(error, Unauthenticated) and error.answer.status_code == TOO_MANY:
        text = "Too many wrong tokens from this address. Wait a minute, then try again."
        return Explained(TOO_MANY, "TOO_MANY_TRIES", "429: too many tries", text, "locks")
    text = "The API takes bearer tokens: send one that is valid, as Authorization: Bearer …"
    return Explained(401, "UNAUTHENTICATED", "401: a bearer token is needed", text, "locks")


def _denied(error: Denied) -> Explained:
    if error.read_only:
        text = f"This admin is read-only: nobody can use {error.action} here."
        return Explained(403, "READ_ONLY", "403: read-only", text, "locks")
    text = f"You ({error.actor}) lack the permission {error.action}. Ask whoever manages access."
    return Explained(403, "FORBIDDEN", "403: you may not do that", text, "locks")


def _no_policy(error: NoPolicy) -> Explained:
    text = f"This blueprint was created without {error.option}=, so everybody is refused. Pass one:"
    command = f"webui.create_blueprint(jobs, {error.option}=…)"
    return Explained(403, "NO_POLICY", "No policy, no pages", text, "hidden", command)


def _database(error: Exception) -> Explained:
    away = error if isinstance(error, errors.StorageUnavailable) else errors.StorageUnavailable()
    if away.timed_out:
        return TOO_LONG
    if away.denied:
        text = "The user of the database lacks a right. Nothing was done. This names what is missing:"
        command = 'sloppyjobs --database "$SLOPPYJOBS_DATABASE_URL" doctor'
        return Explained(403, "DATABASE_RIGHTS", "403: the database refuses it", text, "locks", command)
    if away.read_only:
        text = "It is a replica, or set to read-only. Nothing was done. Use the admin of the primary."
        return Explained(403, "READ_ONLY_DATABASE", "403: this database is read-only", text, "locks")
    text = "Jobs are safe: workers wait and continue when it is back. This page tries again by itself."
    if away.maybe_done:
        text = "The connection was lost before the answer came. It may have been done: look before you press it again."
    return Explained(503, "DATABASE_DOWN", "The database does not answer", text, "database", retry=True)


HANDLED: tuple[type[Exception], ...] = (
    Denied,
    NoPolicy,
    errors.JobsError,
    DatabaseError,
    ForeignOrigin,
    FormExpired,
    SecretKeyMissing,
    CSRFError,
    BearerMissing,
    Unauthenticated,
    # By their codes, one by one: a host's handler for a code would win over ours for all of them.
    *default_exceptions.values(),
)


def register(blueprint: Blueprint, ui: Ui) -> None:
    """Explain errors in this blueprint; the host's handlers are left alone."""

    def handle(error: Exception) -> ResponseReturnValue:
        if isinstance(error, FormExpired | CSRFError) and not ui.current_route().api and has_secret():
            try:
                return expired.form_again(ui)
            except HANDLED as other:
                error = other
        explained = explain(error)
        if ui.current_route().api:
            answer = as_json(explained)
        else:
            above = _page_above(ui) if explained.status == NotFound.code else None
            if above is not None:
                return Response(status=303, headers={"Location": above})
            # What was sent with POST cannot be tried again by a link.
            shown = explained._replace(retry=explained.retry and request.method in SAFE)
            answer = render(ui, "error.html", title=shown.title, status=shown.status, live=shown.retry, error=shown)
        answer.headers.update(_headers(error))
        return answer

    for kind in HANDLED:
        blueprint.register_error_handler(kind, handle)


def _page_above(ui: Ui) -> str | None:
    """The page of a command, where somebody opens the address to which its form is sent."""
    path = request.script_root + request.path
    if request.method not in SAFE or not return_address.takes_forms_alone(ui, path):
        return None
    found = return_address.page_of(ui, path)
    return None if found is None else url_for(f".{found[0].endpoint}", **found[1])


def register_alone(app: Flask) -> None:
    """Explain what fails in the standalone application before a route is found: in plain words, without links."""

    def handle(error: Exception) -> Response:
        explained = explain(error)
        if request.path.startswith("/api/"):
            return as_json(explained)
        answer = Response(f"{explained.title}\n{explained.text}\n", explained.status, mimetype="text/plain")
        answer.headers.update(_headers(error))
        return answer

    for kind in default_exceptions.values():
        app.register_error_handler(kind, handle)


def _headers(error: Exception) -> dict[str, str]:
    """What the answer to an error carries besides its words."""
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        return {"Allow": ", ".join(error.valid_methods)}
    if isinstance(error, BearerMissing):
        return {"WWW-Authenticate": CHALLENGE}
    if isinstance(error, Unauthenticated):
        said = error.answer.headers
        if error.answer.status_code == TOO_MANY:
            return {"Retry-After": said.get("Retry-After", "60")}
        challenge = said.get("WWW-Authenticate", "")
        return {"WWW-Authenticate": challenge if challenge.startswith("Bearer") else CHALLENGE}
    return {}


def as_json(explained: Explained) -> Response:
    """The same for a program."""
    from webui.api.answers import answer  # noqa: PLC0415 - the API explains its errors with this module

    text = " ".join(part for part in (explained.text, explained.command) if part)
    body = {"error": {"code": explained.code, "title": explained.title, "message": text}}
    return answer(body, explained.status)
