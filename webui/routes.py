"""Routes and names in their URLs.

A route and the permission that it needs are declared together: there is no way to add one without the other.

A queue or a schedule may be called ``a/b``, ``..`` or ``?``: none of it may change the path. A slash, a backslash and a
name of dots alone would be read as path structure by browsers and servers even when they are percent-encoded, and a
route does not match the end of a line: all of these are written ``~2F`` and the like. The rest is left to ``url_for``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from flask import current_app
from flask.typing import ResponseReturnValue

if TYPE_CHECKING:
    from webui.ui import Ui

PUBLIC = "public"
"""For static files and probes: no policy is asked."""
SIGNED_IN = "signed in"
"""For what concerns the viewer alone: any actor will do."""
ANY, OTHERS = "any", "others"
"""For addresses that lead nowhere: every method is answered, or every one but GET."""
_METHODS = {ANY: ["GET", "POST", "PUT", "PATCH", "DELETE"], OTHERS: ["POST", "PUT", "PATCH", "DELETE"]}

View = Callable[..., ResponseReturnValue]


class Route(NamedTuple):
    """One URL rule. ``action`` may name view arguments: ``job.{command}``."""

    rule: str
    endpoint: str
    view: View
    action: str
    method: str = "GET"
    api: bool = False
    """Whether it takes bearer tokens, and nothing else."""
    also: tuple[str, ...] = ()
    """Further permissions that it needs, for what it shows."""
    query: tuple[str, ...] = ()
    """The query parameters that a page understands: all that its links to itself carry on."""
    dry: bool = False
    """Whether it changes nothing, although it is sent with POST."""

    @property
    def methods(self) -> list[str]:
        """The methods that it answers."""
        return _METHODS.get(self.method, [self.method])

    @property
    def leads_nowhere(self) -> bool:
        """Whether it is there only to say so."""
        return self.method in _METHODS

    def needs(self, arguments: dict[str, Any]) -> tuple[str, ...]:
        """The actions that the actor must be allowed."""
        if self.action in (PUBLIC, SIGNED_IN):
            return ()
        return (self.action.format(**arguments), *self.also)

    def bound(self, ui: Ui) -> View:
        """The view for one blueprint, carrying its action where a test can read it."""

        def view(**arguments: Any) -> ResponseReturnValue:
            if self.method != "GET" or self.action == PUBLIC:
                return self.view(ui, **arguments)
            return ui.admin.snapshot(lambda: self.view(ui, **arguments))

        view.__name__ = f"sloppyjobs_{self.endpoint}"
        view.__doc__ = self.view.__doc__
        view.sloppyjobs_action = self.action  # type: ignore[attr-defined]
        return view


def changes(action: str) -> bool:
    """Whether an action changes anything that others see."""
    return action not in (PUBLIC, SIGNED_IN) and not action.endswith(".view")


_UNSAFE = re.compile(r"[~/\\\x00-\x1f]")
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
