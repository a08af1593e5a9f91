"""Names in URLs. A queue or a schedule may be called ``a/b``, ``..`` or ``?``: none of it may change the path.

A slash, a backslash and a name of dots alone would be read as path structure by browsers and servers even when
they are percent-encoded, so they are written ``~2F`` and the like; everything else is left to ``url_for``.
"""

from __future__ import annotations

import re
from typing import Any

from flask import current_app

_UNSAFE = re.compile(r"[~/\\]")
_ESCAPED = re.compile(r"~([0-9A-F]{2})")
_NAMED = ("id", "name")


def to_url(name: str) -> str:
    """The name as one segment of a path, before percent-encoding."""
    written = _UNSAFE.sub(_escape, name)
    return written.replace(".", "~2E") if not written.strip(".") else written


def from_url(segment: str) -> str:
    """The name that ``to_url`` wrote. Text that it did not write comes back as it is."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), segment)


def encode_values(endpoint: str, values: dict[str, Any]) -> None:
    """For ``url_defaults``: names on their way into a path. In a query they are left as they are."""
    for key in _NAMED:
        if isinstance(values.get(key), str) and current_app.url_map.is_endpoint_expecting(endpoint, key):
            values[key] = to_url(values[key])


def decode_values(_endpoint: str | None, values: dict[str, Any] | None) -> None:
    """For ``url_value_preprocessor``: names on their way to a view."""
    for key in _NAMED:
        if values and isinstance(values.get(key), str):
            values[key] = from_url(values[key])


def _escape(found: re.Match[str]) -> str:
    return f"~{ord(found[0]):02X}"
