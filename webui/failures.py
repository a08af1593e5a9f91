"""Error pages of the blueprint. They say what is wrong and what to do next, and never show a raw error."""

from __future__ import annotations

from typing import NamedTuple

from flask import Blueprint, Response, request
from flask_wtf.csrf import CSRFError
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from werkzeug.exceptions import Forbidden, MethodNotAllowed, NotFound

from sloppyjobs import errors
from webui.gate import Denied, NoPolicy
from webui.rendering import render
from webui.security import ForeignOrigin, FormExpired, SecretKeyMissing
from webui.ui import Ui

_QUERY_CANCELED = "57014"
_READ_ONLY = "25006"


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
    "The query took longer than allowed and was stopped. Narrow the time range, or choose a queue.",
    "scheduled",
    retry=True,
)


def timed_out(error: BaseException) -> bool:
    """Whether the database stopped a statement because it took too long."""
    return _state(error) == _QUERY_CANCELED


def _state(error: BaseException) -> str | None:
    """PostgreSQL's word for what happened."""
    return getattr(error.orig, "sqlstate", None) if isinstance(error, DBAPIError) else None


def explain(error: BaseException) -> Explained:  # noqa: PLR0912 - one case per error
    """What an error means."""
    match error:
        case Denied():
            return _denied(error)
        case NoPolicy():
            return _no_policy(error)
        case errors.UnknownSchedule():
            return Explained(404, error.code, "404: no such schedule", "It may have been deleted.", "search")
        case errors.UnknownQueue():
            text = "Nobody has used or paused it yet, or you do not see it."
            return Explained(404, error.code, "404: no such queue", text, "search")
        case errors.UnknownJob():
            text = "It may have been purged, or it is in a queue that you do not see."
            return Explained(404, error.code, "404: no such job", text, "search")
        case errors.InvalidTransition():
            return Explained(409, error.code, "Somebody was faster", f"{error}. Nothing was changed.")
        case errors.SchemaMissing():
            command = 'sloppyjobs --database "$SLOPPYJOBS_DATABASE_URL" init'
            text = "The database answers, but does not hold the tables yet. Create them once:"
            return Explained(503, error.code, "The tables are missing", text, "database", command)
        case errors.SchemaVersionMismatch():
            return Explained(503, error.code, "The tables have another version", f"{error}", "database")
        case errors.ReadTimeout():
            return TOO_LONG
        case errors.InvalidOption():
            return Explained(400, error.code, "That cannot be asked", f"{error}.")
        case errors.JobsError():
            return Explained(400, error.code, "That was refused", f"{error}.")
        case SQLAlchemyError():
            return _database(error)
        case ForeignOrigin():
            text = "The request came from a page of another site. Nothing was changed."
            return Explained(403, "FOREIGN_ORIGIN", "403: not from here", text, "locks")
        case FormExpired() | CSRFError():
            text = "Reload the page and send it again. Nothing was changed."
            return Explained(400, "FORM_EXPIRED", "The form has expired", text, "locks")
        case SecretKeyMissing():
            text = "Forms are protected with the application's SECRET_KEY, and it has none. Set one:"
            command = 'app.config["SECRET_KEY"] = …'
            return Explained(500, "SECRET_KEY_MISSING", "No SECRET_KEY", text, "locks", command)
        case MethodNotAllowed():
            return Explained(405, "METHOD_NOT_ALLOWED", "405: not that way", "This address takes other requests.")
        case Forbidden():
            return Explained(403, "FORBIDDEN", "403: you may not see that", "Ask whoever looks after the policy.")
        case _:
            return Explained(404, "NOT_FOUND", "404: there is no such page", "Check the address.", "search")


def _denied(error: Denied) -> Explained:
    if error.read_only:
        text = f"This admin is read-only, so {error.action} is refused to everybody."
        return Explained(403, "READ_ONLY", "403: read-only", text, "locks")
    text = (
        f"The action needs the permission {error.action}, and {error.actor} does not have it. "
        "Ask whoever looks after the policy of this blueprint."
    )
    return Explained(403, "FORBIDDEN", "403: you may not do that", text, "locks")


def _no_policy(error: NoPolicy) -> Explained:
    text = f"This blueprint was made without {error.option}=, so everybody gets this answer. Pass one:"
    command = f"webui.create_blueprint(jobs, {error.option}=…)"
    return Explained(403, "NO_POLICY", "No policy, no pages", text, "hidden", command)


def _database(error: SQLAlchemyError) -> Explained:
    if timed_out(error):
        return TOO_LONG
    if _state(error) == _READ_ONLY:
        text = (
            "It is a replica, or set so: it can be read, and nothing was changed. Give commands where the primary is."
        )
        return Explained(403, "READ_ONLY_DATABASE", "403: this database is read-only", text, "locks")
    text = "Jobs are safe; workers wait and go on by themselves. This page tries again by itself."
    return Explained(503, "DATABASE_DOWN", "The database does not answer", text, "database", retry=True)


HANDLED: tuple[type[Exception], ...] = (
    Denied,
    NoPolicy,
    errors.JobsError,
    SQLAlchemyError,
    ForeignOrigin,
    FormExpired,
    SecretKeyMissing,
    CSRFError,
    Forbidden,
    NotFound,
    MethodNotAllowed,
)


def register(blueprint: Blueprint, ui: Ui) -> None:
    """Explain errors in this blueprint; the host's handlers are left alone."""

    def handle(error: Exception) -> Response:
        explained = explain(error)
        route = ui.routes.get((request.endpoint or "").rpartition(".")[2])
        if route is not None and route.api:
            return as_json(explained)
        return render(
            ui, "error.html", title=explained.title, status=explained.status, live=explained.retry, error=explained
        )

    for kind in HANDLED:
        blueprint.register_error_handler(kind, handle)


def as_json(explained: Explained) -> Response:
    """The same for a program."""
    from webui.api.answers import answer  # noqa: PLC0415 - the API explains its errors with this module

    text = " ".join(part for part in (explained.text, explained.command) if part)
    body = {"error": {"code": explained.code, "title": explained.title, "message": text}}
    return answer(body, explained.status)
