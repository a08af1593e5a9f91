"""Pages and fragments. A page is its fragment inside the layout; with ``HX-Request`` the fragment goes alone."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from flask import Response, g, request, session, url_for
from htmx_flask.requests import HtmxHeaders
from markupsafe import Markup, escape

from sloppyjobs.ids import SHORT_MARK, shortened
from sloppyjobs.views import Overview
from webui import navigation, preferences, security, times
from webui.navigation import COUNTED
from webui.policy import Link, links_of
from webui.times import Times
from webui.ui import Ui, Visit, visit_or_none

_RELATIVE = re.compile(r"(<time [^>]*data-(?:rel|age)[^>]*>)[^<]*")
_AGE = re.compile(r"<time [^>]*data-age[^>]*>")
_KEYS = re.compile(r'name="form_key" value="[^"]*"')
_TOKENS_SECONDS = 1200
_POLL_SECONDS = 3
_SHORT = 20
KEY_FIELD = "form_key"
"""The hidden field that makes a form one of its own: see ``once``."""
THEMES = {"auto": "Same as the system", "light": "Light", "dark": "Dark"}
_COLOR_SCHEMES = {"auto": "light dark"}
_NO_COUNTS: Mapping[str, Any] = MappingProxyType({})
OURS = "SJ-Page"
"""The header of every answer of ours: the script puts no other answer into a page."""


class Flash(NamedTuple):
    """A message about what has just been done: ``ok``, ``info``, ``warn`` or ``bad``."""

    kind: str
    title: str
    text: str = ""
    link: tuple[str, str] | None = None
    """Words and the URL of a page of ours that they lead to."""


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
        self.themes = THEMES
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
        """The URL of this page with other query parameters. Of those in the request, it keeps what the page knows."""
        route = self._ui.current_route()
        kept: dict[str, Any] = {name: request.args[name] for name in route.query if name in request.args}
        return self.url(route.endpoint, **(request.view_args or {}), **{**kept, **changed})

    def short(self, id: str) -> str:
        """An id without its middle. What is printed can be looked for, here and on the command line."""
        cut = shortened(id)
        return cut if len(cut) <= _SHORT else f"{id[:10]}{SHORT_MARK}{id[-5:]}"

    def dotted(self, name: str) -> Markup:
        """A dotted name that breaks after its dots, and not inside its words."""
        return Markup("{}").format(name).replace(".", Markup(".<wbr>"))

    def may(self, action: str, id: str | None = None) -> bool:
        """Whether a button for this action is shown."""
        return self.visit is not None and self.visit.may(action, id=id)

    def opens(self, endpoint: str, **values: Any) -> bool:
        """Whether the viewer may open a page."""
        return self.visit is not None and self.visit.lacks(self._ui.routes[endpoint], values) is None

    @property
    def forms(self) -> bool:
        """Whether forms with POST can work: somebody asks, and there is a secret to protect them with."""
        return self.visit is not None and security.has_secret()

    @property
    def signs_out(self) -> bool:
        """Whether there is a button for signing out."""
        return self.forms and self._ui.signs_out

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """The host's way back and its logout, where its policy has them."""
        return () if self.visit is None else links_of(self._ui.policy)

    @property
    def token(self) -> Markup:
        """The hidden fields that every form with POST carries: the token, and a key of its own."""
        token = Markup('<input type="hidden" name="{}" value="{}" data-token>')
        key = Markup('<input type="hidden" name="{}" value="{}">')
        return token.format(security.token_field(), security.token()) + key.format(KEY_FIELD, secrets.token_hex(12))

    @property
    def sought(self) -> str:
        """What was typed into the find box, on the page that answers it."""
        return request.args.get("q", "") if self._ui.current_route().endpoint == "find" else ""

    def typed(self, name: str) -> str:
        """What was typed into a field of a form that is shown again."""
        return request.form.get(name, "") if g.get("sloppyjobs_typed") else ""


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
    counts: Mapping[str, Any] = _NO_COUNTS,
    **data: Any,
) -> Response:
    """The page, or its fragment with the messages out of band; 304 for a poll when nothing has changed.

    ``counts`` are numbers of the navigation that this page shows too: they come from the page, and with each poll.
    """
    look = Look(ui, visit_or_none())
    fragment = ui.templates.get_template(f"sloppyjobs/{template}").render(look=look, dialog=is_htmx(), **data)
    title = f"{title} · sloppyjobs"
    tag = _tag(fragment, title, counts)
    if is_htmx():
        answer = _fragment(ui, look, _with_frame(ui, fragment, title, counts), status, flashes, tag)
    else:
        page = {"title": title, "nav": nav, "live": live and status in (200, 503), "tag": tag, "status": status}
        answer = Response(_page(ui, look, fragment, flashes, counts, page), status, mimetype="text/html")
    answer.headers[OURS] = "1"
    return answer


def sign(response: Response) -> Response:
    """Say that an answer is ours: not one of a proxy, and not what a policy answers to strangers."""
    if visit_or_none() is not None:
        response.headers[OURS] = "1"
    return response


def _page(
    ui: Ui, look: Look, fragment: str, flashes: tuple[Flash, ...], own: Mapping[str, Any], page: dict[str, Any]
) -> str:
    return ui.templates.get_template("sloppyjobs/layout.html").render(
        look=look,
        content=Markup(fragment),  # noqa: S704 - our own template has escaped it
        flashes=(*taken(ui), *flashes),
        groups=navigation.GROUPS,
        keys=navigation.KEYS,
        color_scheme=_COLOR_SCHEMES.get(look.preferences.theme, look.preferences.theme),
        counts={**_counts(ui, look), **own},
        counted=COUNTED,
        asked_for=[name for name in COUNTED if name not in own],
        **page,
    )


def _with_frame(ui: Ui, fragment: str, title: str, counts: Mapping[str, Any]) -> str:
    """A fragment for the whole page, with what changes around it: the title, and the page's own counts."""
    if not request.headers.get("HX-Target", "").endswith("#live"):
        return fragment
    around = f"<title>{escape(title)}</title>"
    if counts:
        template = ui.templates.get_template("sloppyjobs/counts.html")
        around += template.render(shown=counts, counted=tuple(counts))
    return around + fragment


def _fragment(ui: Ui, look: Look, fragment: str, status: int, flashes: tuple[Flash, ...], tag: str) -> Response:
    if request.method == "GET" and status == 200 and not flashes:
        if tag in (request.headers.get("HX-PTag"), request.if_none_match.to_header().strip('"')):
            return Response(status=304, headers={"HX-PTag": tag, "ETag": f'"{tag}"'})
    elif flashes:
        fragment += ui.templates.get_template("sloppyjobs/flash-oob.html").render(look=look, flashes=flashes)
    headers = {"HX-PTag": tag, "ETag": f'"{tag}"'} if status == 200 else {}
    return Response(fragment, status, headers, mimetype="text/html")


def _tag(fragment: str, title: str, counts: Mapping[str, Any]) -> str:
    """A digest of what a viewer would notice: the script keeps relative times fresh; tokens and keys always differ.

    It changes every 20 minutes all the same, because tokens expire, and a page may stay open for days.
    """
    steady = _KEYS.sub("", _AGE.sub("<time>", _RELATIVE.sub(r"\1", fragment)))
    if security.has_secret():
        steady = steady.replace(security.token(), "")
    around = "|".join((title, *map(str, counts.values())))
    return hashlib.sha256(f"{time.time() // _TOKENS_SECONDS} {around} {steady}".encode()).hexdigest()[:20]


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
    g.sloppyjobs_kept = (*g.get("sloppyjobs_kept", ()), flash)
    session[f"_{ui.name}_flash"] = [*session.get(f"_{ui.name}_flash", [])[-2:], list(flash)]


def taken(ui: Ui) -> tuple[Flash, ...]:
    """The messages that were kept, once."""
    if not security.has_secret():
        return ()
    kept = session.pop(f"_{ui.name}_flash", [])
    return tuple(_kept(one) for one in kept if isinstance(one, list) and len(one) in (3, 4))


def _kept(one: list[Any]) -> Flash:
    kind, title, text = map(str, one[:3])
    link = one[3] if len(one) == 4 else None
    return Flash(kind, title, text, (str(link[0]), str(link[1])) if link else None)
