"""Pages and fragments. A page is its fragment inside the layout; with ``HX-Request`` the fragment goes alone."""

from __future__ import annotations

import gzip
import hashlib
import re
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from flask import Response, g, request, session
from htmx_flask.requests import HtmxHeaders
from markupsafe import Markup, escape

from sloppyjobs.views import Overview
from webui import navigation, security
from webui.navigation import COUNTED
from webui.page_context import PageContext
from webui.ui import Ui, visit_or_none

_RELATIVE = re.compile(r"(<time [^>]*data-(?:rel|age)[^>]*>)[^<]*")
_AGE = re.compile(r"<time [^>]*data-age[^>]*>")
_LEFT = re.compile(r'(<rect [^>]*data-until=[^>]*) width="[^"]*"')
_KEYS = re.compile(r'name="form_key" value="[^"]*"')
_TOKENS_SECONDS = 1200
_COLOR_SCHEMES = {"auto": "light dark"}
_NO_COUNTS: Mapping[str, Any] = MappingProxyType({})
PAGE_HEADER = "SJ-Page"
"""The header of every response of ours: the script puts no other response into a page."""


_FLASH_ICONS = {"ok": "succeeded", "info": "info", "warn": "warn", "bad": "failed"}


class Flash(NamedTuple):
    """A message about what has just been done: ``ok``, ``info``, ``warn`` or ``bad``."""

    kind: str
    title: str
    text: str = ""
    link: tuple[str, str] | None = None
    """Words and the URL of a page of ours that they lead to."""

    @property
    def icon(self) -> str:
        """The icon for its kind."""
        return _FLASH_ICONS[self.kind]


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
    here: str = "",
    **data: Any,
) -> Response:
    """The page, or its fragment with the messages out of band; 304 for a poll when nothing has changed.

    ``here`` is the page to which a choice of preferences leads back, where this address is that of a form. ``counts``
    are numbers of the navigation that this page shows too: they come from the page, and with each poll.
    """
    context = PageContext(ui, visit_or_none())
    fragment = ui.templates.get_template(f"sloppyjobs/{template}").render(context=context, dialog=is_htmx(), **data)
    title = f"{title} · {context.installation.title or 'sloppyjobs'}"
    tag = _tag(fragment, title, counts)
    if is_htmx():
        response = _fragment(ui, context, _with_page_changes(ui, fragment, title, counts), status, flashes, tag)
    else:
        page = {"title": title, "nav": nav, "live": live and status in (200, 503), "tag": tag, "status": status}
        page["here"] = here or context.here()
        response = Response(_page(ui, context, fragment, flashes, counts, page), status, mimetype="text/html")
    response.headers[PAGE_HEADER] = "1"
    return response


def mark_response(response: Response) -> Response:
    """Mark a response as ours: not one of a proxy, and not what a policy sends to the unauthenticated."""
    if visit_or_none() is not None:
        response.headers[PAGE_HEADER] = "1"
    return response


def _page(
    ui: Ui,
    context: PageContext,
    fragment: str,
    flashes: tuple[Flash, ...],
    page_counts: Mapping[str, Any],
    page: dict[str, Any],
) -> str:
    return ui.templates.get_template("sloppyjobs/layout.html").render(
        context=context,
        content=Markup(fragment),  # noqa: S704 - our own template has escaped it
        flashes=(*pop_flashes(ui), *flashes),
        groups=navigation.GROUPS,
        keys=navigation.KEYS,
        color_scheme=_COLOR_SCHEMES.get(context.preferences.theme, context.preferences.theme),
        counts={**_counts(ui, context), **page_counts},
        counted=COUNTED,
        asked_for=[name for name in COUNTED if name not in page_counts],
        **page,
    )


def _with_page_changes(ui: Ui, fragment: str, title: str, counts: Mapping[str, Any]) -> str:
    """A fragment for the whole page, with what changes around it: the title, and the page's own counts."""
    if not request.headers.get("HX-Target", "").endswith("#live"):
        return fragment
    changes = f"<title>{escape(title)}</title>"
    if counts:
        template = ui.templates.get_template("sloppyjobs/counts.html")
        changes += template.render(shown=counts, counted=tuple(counts))
    return changes + fragment


def _fragment(
    ui: Ui, context: PageContext, fragment: str, status: int, flashes: tuple[Flash, ...], tag: str
) -> Response:
    if request.method == "GET" and status == 200 and not flashes:
        if tag in (request.headers.get("HX-PTag"), request.if_none_match.to_header().strip('"')):
            return Response(status=304, headers={"HX-PTag": tag, "ETag": f'"{tag}"'})
    elif flashes or request.method != "GET":
        # The answer to a form takes away what was said of the one before, also where it says nothing itself.
        fragment += ui.templates.get_template("sloppyjobs/flash-oob.html").render(context=context, flashes=flashes)
    headers = {"HX-PTag": tag, "ETag": f'"{tag}"'} if status == 200 else {}
    return Response(fragment, status, headers, mimetype="text/html")


def _tag(fragment: str, title: str, counts: Mapping[str, Any]) -> str:
    """A digest of what a viewer would notice: the script keeps relative times and bars of time left fresh.

    Tokens and keys always differ.

    It changes every 20 minutes all the same, because tokens expire, and a page may stay open for days.
    """
    stable = _KEYS.sub("", _AGE.sub("<time>", _RELATIVE.sub(r"\1", _LEFT.sub(r"\1", fragment))))
    if security.has_secret():
        stable = stable.replace(security.token(), "")
    changes = "|".join((title, *map(str, counts.values())))
    return hashlib.sha256(f"{time.time() // _TOKENS_SECONDS} {changes} {stable}".encode()).hexdigest()[:20]


def _counts(ui: Ui, context: PageContext) -> Mapping[str, Any]:
    """Numbers beside the navigation, where the overview has been read lately; a script asks for them otherwise."""
    if context.visit is None or not context.may("overview.view"):
        return {}
    overview = ui.snapshots.recent(context.visit.scope)
    return {} if overview is None else counts_of(overview)


def counts_of(overview: Overview) -> Mapping[str, Any]:
    """The numbers that stand beside the navigation."""
    return {"dead": overview.count("dead"), "workers": overview.live_workers}


# Messages that survive a redirect. Flask's own would be shown, or consumed, by the host's pages.


def flash_later(ui: Ui, flash: Flash) -> None:
    """Show a message on the next page of this viewer."""
    g.sloppyjobs_kept = (*g.get("sloppyjobs_kept", ()), flash)
    session[f"_{ui.name}_flash"] = [*session.get(f"_{ui.name}_flash", [])[-2:], list(flash)]


def pop_flashes(ui: Ui) -> tuple[Flash, ...]:
    """The messages for this page; each is shown once."""
    if not security.has_secret():
        return ()
    stored = session.pop(f"_{ui.name}_flash", [])
    return tuple(_flash_from(one) for one in stored if isinstance(one, list) and len(one) in (3, 4))


def _flash_from(one: list[Any]) -> Flash:
    kind, title, text = map(str, one[:3])
    link = one[3] if len(one) == 4 else None
    return Flash(kind, title, text, (str(link[0]), str(link[1])) if link else None)


OURS = frozenset({"same-origin", "none"})
"""Where a request comes from that nobody else has caused."""
SMALLEST = 1_000
"""Bytes below which it is not worth it."""
_TYPES = frozenset({"text/html"})


def compress(response: Response) -> Response:
    """The answer, smaller where the browser can unpack it; for our own pages and the address bar.

    Who makes a browser ask for a page with text of their choice, and sees how long the answer is, could guess a secret
    in it when it is compressed. A request that another site has caused says so (``Sec-Fetch-Site``), and is answered
    plainly; so is one that says nothing.
    """
    if response.mimetype not in _TYPES or response.direct_passthrough or response.is_streamed:
        return response
    response.vary.update(("Accept-Encoding", "Sec-Fetch-Site"))
    if "Content-Encoding" in response.headers or request.headers.get("Sec-Fetch-Site") not in OURS:
        return response
    content = response.get_data()
    if len(content) >= SMALLEST and request.accept_encodings.quality("gzip") > 0:
        response.set_data(gzip.compress(content, compresslevel=5, mtime=0))
        response.headers["Content-Encoding"] = "gzip"
    return response
