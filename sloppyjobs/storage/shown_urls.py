"""Database URLs, and how they are shown: never with a password, wherever it stands in them."""

from __future__ import annotations

import re

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from sloppyjobs import errors
from sloppyjobs.domain.redaction.redactor import Redactor
from sloppyjobs.domain.redaction.secret_names import is_secret_key
from sloppyjobs.storage.dialects import examples

HIDDEN = "***"


def parsed(target: str | URL) -> URL:
    """The URL; ``InvalidOption`` for anything else, which is not repeated: it may hold a password."""
    try:
        return make_url(target)
    except ArgumentError:
        given = "what was given" if isinstance(target, str) else f"a {type(target).__name__}"
        raise errors.InvalidOption(
            f"{given} is not a database URL; it is not shown, because it may hold a password. One looks like "
            f"{examples()}; special characters in a password are percent-encoded"
        ) from None
    except ValueError:
        # From None: the words of the error repeat what was taken for the port, which may be a part of the password.
        raise errors.InvalidOption(
            "the database URL cannot be read: its port is not a number. Percent-encode : / and @ in its user and "
            "password"
        ) from None


def shown(url: URL) -> str:
    """The URL without its password, also where that stands in the query."""
    redactor = Redactor()
    query = {
        # Several hosts stay several: what is shown can be given to a command.
        key: HIDDEN
        if is_secret_key(key)
        else redactor.text(value)
        if isinstance(value, str)
        else _each(redactor, value)
        for key, value in url.query.items()
    }
    plain = url.set(query=query)
    return plain.render_as_string(hide_password=True).replace("%2A%2A%2A", HIDDEN)


def _each(redactor: Redactor, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(redactor.text(value) for value in values)


def without_secrets(text: str, url: URL) -> str:
    """A text about the database, such as an error, without the secrets of its URL and without any other."""
    values = [str(url.password or "")]
    for key, value in url.query.items():
        if is_secret_key(key):
            values += [value] if isinstance(value, str) else value
    for value in sorted(filter(None, values), key=len, reverse=True):
        # Whole words only: a password of one letter would take every such letter.
        text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", HIDDEN, text)
    return Redactor().text(text)
