"""Pages and fragments. A page is its fragment inside the layout; with ``HX-Request`` the fragment goes alone."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from flask import Response, request, session, url_for
from htmx_flask.requests import HtmxHeaders
from markupsafe import Markup

from sloppyjobs.views import Overview
from webui import preferences, security, times
from webui.times import Times
from webui.ui import Ui, Visit, visit_or_none

_RELATIVE = re.compile(r"(<time [^>]*data-(?:rel|age)[^>]*>)[^<]*")
_AGE = re.compile(r"<time [^>]*data-age[^>]*>")
_TOKENS_SECONDS = 1200
_POLL_SECONDS = 3
COUNTED = ("dead", "workers")
"""The entries of the navigation that carry a number."""


class Flash(NamedTuple):
    """A message about what has just been done: ``ok``, ``info``, ``warn`` or ``bad``."""

    kind: str
    title: str
    text: str = ""


class Look:
    """What the templates are given besides their data: URLs, icons, times, permissions, preferences."""

    times_of = times

    def __init__(self, ui: Ui, visit: Visit | None) -> None:
        self._ui = ui
        self.visit = visit
        self.preferences = preferences.read(request, ui.cookie)
        self.times = Times(self.preferences.tz)
        self.duration = times.duration
        self.zones = preferences.COMMON_ZONES
        self.poll = _POLL_SECONDS

    def asset(self, name: str) -> str | None:
        """The URL of a static file; None where it is not installed."""
        file = self._ui.assets.hashed(name)
        return None if file is None else url_for(".asset", file=file)

    @cached_property
    def icons(self) -> str:
        """The URL of the sprite."""
        return self.asset("icons.svg") or ""

    @cached_property
    def htmx(self) -> bool:
        """Whether the scripts from npm are installed."""
        return self.asset("vendor/htmx.min.js") is not None

    def url(self, endpoint: str, **values: Any) -> str:
        """The URL of a view of this blueprint; values that are None or empty are left out."""
        return url_for(f".{endpoint}", **{key: value for key, value in values.items() if value not in (None, "")})

    def here(self, **changed: Any) -> str:
        """The URL of this page with other query parameters."""
        endpoint = (request.endpoint or "").rpartition(".")[2]
        query: dict[str, Any] = {**request.args.to_dict(), **changed}
        return self.url(endpoint, **(request.view_args or {}), **query)

    def may(self, action: str, id: str | None = None) -> bool:
        """Whether a button for this action is shown."""
        return self.visit is not None and self.visit.may(action, id=id)

    @property
    def forms(self) -> bool:
        """Whether forms with POST can work: somebody asks, and there is a secret to protect them with."""
        return self.visit is not None and security.has_secret()

    @cached_property
    def token(self) -> Markup:
        """The hidden field that every form with POST carries."""
        return Markup('<input type="hidden" name="{}" value="{}">').format(security.token_field(), security.token())


def is_htmx() -> bool:
    """Whether a script asks, and wants a fragment."""
    return bool(HtmxHeaders(request.headers))


def render(
    ui: Ui,
    template: str,
    *,
    title: str,
    nav: str = "",
    status: int = 200,
    live: bool = False,
    flashes: tuple[Flash, ...] = (),
    **data: Any,
) -> Response:
    """The page, or its fragment with the messages out of band; 304 for a poll when nothing has changed."""
    look = Look(ui, visit_or_none())
    fragment = ui.templates.get_template(f"sloppyjobs/{template}").render(look=look, dialog=is_htmx(), **data)
    if is_htmx():
        return _fragment(ui, look, fragment, status, flashes)
    page = {"title": title, "nav": nav, "live": live and status in (200, 503), "tag": _tag(fragment)}
    layout = ui.templates.get_template("sloppyjobs/layout.html")
    shown = (*taken(ui), *flashes)
    content = Markup(fragment)  # noqa: S704 - our own template has escaped it
    text = layout.render(look=look, content=content, flashes=shown, counts=_counts(ui, look), counted=COUNTED, **page)
    return Response(text, status, mimetype="text/html")


def _fragment(ui: Ui, look: Look, fragment: str, status: int, flashes: tuple[Flash, ...]) -> Response:
    tag = _tag(fragment)
    if request.method == "GET" and status == 200 and not flashes:
        if tag in (request.headers.get("HX-PTag"), request.if_none_match.to_header().strip('"')):
            return Response(status=304, headers={"HX-PTag": tag, "ETag": f'"{tag}"'})
    elif flashes:
        fragment += ui.templates.get_template("sloppyjobs/flash-oob.html").render(look=look, flashes=flashes)
    headers = {"HX-PTag": tag, "ETag": f'"{tag}"'} if status == 200 else {}
    return Response(fragment, status, headers, mimetype="text/html")


def _tag(fragment: str) -> str:
    """A digest of what a viewer would notice: the script keeps relative times fresh, and tokens always differ.

    It changes every 20 minutes all the same, because tokens expire, and a page may stay open for days.
    """
    steady = _AGE.sub("<time>", _RELATIVE.sub(r"\1", fragment))
    if security.has_secret():
        steady = steady.replace(security.token(), "")
    return hashlib.sha256(f"{time.time() // _TOKENS_SECONDS} {steady}".encode()).hexdigest()[:20]


def _counts(ui: Ui, look: Look) -> Mapping[str, Any]:
    """Numbers beside the navigation, where the overview has been read lately; a script asks for them otherwise."""
    if look.visit is None or not look.may("overview.view"):
        return {}
    overview = ui.snapshots.recent(look.visit.scope)
    return {} if overview is None else counts_of(overview)


def counts_of(overview: Overview) -> Mapping[str, Any]:
    """The numbers that stand beside the navigation."""
    return {"dead": overview.count("dead"), "workers": overview.live_workers}


# Messages that outlive a redirect. Flask's own would be shown, or swallowed, by the host's pages.


def keep(ui: Ui, flash: Flash) -> None:
    """Show a message on the next page of this viewer."""
    session[f"_{ui.name}_flash"] = [*session.get(f"_{ui.name}_flash", [])[-2:], list(flash)]


def taken(ui: Ui) -> tuple[Flash, ...]:
    """The messages that were kept, once."""
    if not security.has_secret():
        return ()
    kept = session.pop(f"_{ui.name}_flash", [])
    return tuple(Flash(*map(str, one)) for one in kept if isinstance(one, list) and len(one) == 3)
