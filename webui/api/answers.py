"""JSON answers: the admin's values as they are, redacted already, and nothing else."""

from __future__ import annotations

from typing import Any

import msgspec
from flask import Response, request

from sloppyjobs import errors
from sloppyjobs.domain import options


def answer(value: Any, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(msgspec.json.encode(value), status, mimetype="application/json")


def body(*known: str) -> dict[str, Any]:
    """The JSON object that was sent; empty where nothing was. It has these fields at most, and a reason.

    A field that is misspelt must not be passed over: a bulk command with ``dryrun`` is no dry run.
    """
    if not request.get_data():
        return {}
    try:
        given = msgspec.json.decode(request.get_data())
    except (msgspec.DecodeError, UnicodeError):
        raise errors.InvalidOption("the body is not JSON") from None
    except RecursionError:
        raise errors.InvalidOption("the body is nested too deeply") from None
    if not isinstance(given, dict):
        raise errors.InvalidOption("the body must be a JSON object")
    accepted = (*known, "reason")
    for name in given:
        if name not in accepted:
            raise options.unknown(name[: options.SHOWN_LENGTH], accepted, "the body")
    return given


def text(given: dict[str, Any], name: str) -> str | None:
    """A text in the body, or None."""
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise errors.InvalidOption(f"{name} must be text")
    return value


def whole(name: str, default: int) -> int:
    """A number in the query string."""
    given = request.args.get(name)
    if given is None:
        return default
    if not given.isascii() or not given.isdigit() or len(given) > 9:
        raise errors.InvalidOption(f"{name}={given!r} must be a whole number")
    return int(given)
