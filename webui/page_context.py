"""What templates are given besides their data: URLs, icons, times, permissions, and what the viewer chose.

The choices (time zone, theme, live updates, rows per page) are kept in one cookie that holds no secret.
"""

from __future__ import annotations

import re
import secrets
from functools import cached_property, lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from flask import Response, g, request, url_for
from markupsafe import Markup, escape

from sloppyjobs.ids import SHORT_MARK, shortened
from webui import labels, security, times
from webui.installation import Installation, Place, places
from webui.policy import Link, links_of
from webui.times import Times
from webui.ui import Ui, Visit

KEY_FIELD = "form_key"
"""The hidden field that makes a form one of its own: see ``sent_forms``."""
THEMES = {"auto": "Same as the system", "light": "Light", "dark": "Dark"}
_POLL_SECONDS = 3
_SHORT = 20
_OF_IDS = {"job": "job", "batch": "batch", "flow": "workflow"}
"""The endpoint of a page, by what the ids begin with that lead to it."""
_ID = re.compile(rf"\b({'|'.join(_OF_IDS)})_[0-7][0-9a-hjkmnp-tv-z]{{25}}\b")


SIZES = (25, 50, 100)
COMMON_ZONES = (
    "UTC", "Africa/Cairo", "Africa/Johannesburg", "Africa/Lagos", "America/Chicago", "America/Denver",
    "America/Los_Angeles", "America/Mexico_City", "America/New_York", "America/Sao_Paulo", "America/Toronto",
    "Asia/Dubai", "Asia/Hong_Kong", "Asia/Jakarta", "Asia/Kolkata", "Asia/Seoul", "Asia/Shanghai",
    "Asia/Singapore", "Asia/Tokyo", "Australia/Sydney", "Europe/Amsterdam", "Europe/Berlin", "Europe/Istanbul",
    "Europe/London", "Europe/Madrid", "Europe/Paris", "Europe/Rome", "Europe/Stockholm", "Europe/Warsaw",
    "Europe/Zurich", "Pacific/Auckland",
)  # fmt: skip
_YEAR = 365 * 24 * 3600


class Preferences(NamedTuple):
    """A viewer's choices; whatever a cookie says, only values that exist."""

    zone: str = "UTC"
    theme: str = "auto"
    live: bool = True
    size: int = 50

    @property
    def tz(self) -> ZoneInfo:
        """The time zone itself."""
        return ZoneInfo(self.zone)

    def chosen(self, zone: str | None = None, theme: str | None = None, live: str | None = None) -> Preferences:
        """With these choices; what does not exist is left as it is."""
        changed = self
        if zone is not None and known_zone(zone):
            changed = changed._replace(zone=zone)
        if theme in THEMES:
            changed = changed._replace(theme=theme)
        if live in ("on", "off"):
            changed = changed._replace(live=live == "on")
        return changed

    def sized(self, size: str | None) -> Preferences:
        """With this many rows per page: the nearest that is offered."""
        if size is None or not size.isascii() or not size.isdigit():
            return self
        wanted = int(size[:6])
        return self._replace(size=next((offered for offered in SIZES if wanted <= offered), SIZES[-1]))


def known_zone(zone: str) -> bool:
    """Whether there is such a time zone."""
    return zone in _zones()


def preferences_of(ui: Ui) -> Preferences:
    """The choices of the viewer who asks."""
    zone, theme, live, size = (request.cookies.get(ui.cookie, "").split("|") + [""] * 4)[:4]
    return Preferences().chosen(zone, theme, live).sized(size)


def write_preferences(response: Response, chosen: Preferences, *, cookie: str, path: str, secure: bool) -> None:
    """Put the choices into a response."""
    value = "|".join((chosen.zone, chosen.theme, "on" if chosen.live else "off", str(chosen.size)))
    response.set_cookie(cookie, value, max_age=_YEAR, path=path, secure=secure, httponly=True, samesite="Lax")


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


class PageContext:
    """``context`` in every template of ours, for one request."""

    times_of = times

    def __init__(self, ui: Ui, visit: Visit | None) -> None:
        self._ui = ui
        self.visit = visit
        self.preferences = preferences_of(ui)
        self.times = Times(self.preferences.tz)
        self.duration = times.duration
        self.counted = labels.counted
        self.zones = COMMON_ZONES
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
        known: dict[str, Any] = {name: request.args[name] for name in route.query if name in request.args}
        return self.url(route.endpoint, **(request.view_args or {}), **{**known, **changed})

    def short(self, id: str) -> str:
        """An id without its middle. What is printed can be looked for, here and on the command line."""
        short = shortened(id)
        return short if len(short) <= _SHORT else f"{id[:10]}{SHORT_MARK}{id[-5:]}"

    def linked(self, text: str) -> Markup:
        """A sentence with ids of jobs, batches and workflows, which lead to their pages."""

        def link(found: re.Match[str]) -> str:
            endpoint = _OF_IDS[found[1]]
            if not self.opens(endpoint, id=found[0]):
                return found[0]
            return Markup('<a href="{}">{}</a>').format(self.url(endpoint, id=found[0]), found[0])

        # Ids are plain letters and digits: escaping leaves them as they are, and no markup of ours has one.
        return Markup(_ID.sub(link, str(escape(text))))  # noqa: S704 - escaped, but for the links

    def dotted(self, name: str) -> Markup:
        """A dotted name, or a code in capitals, that breaks after its dots and underscores, not inside its words."""
        text = Markup("{}").format(name)
        return text.replace(".", Markup(".<wbr>")).replace("_", Markup("_<wbr>"))

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
    def installation(self) -> Installation:
        """What the installation is called; nothing for those who were not let in."""
        return Installation() if self.visit is None else self._ui.installation

    @cached_property
    def places(self) -> list[Place]:
        """The installations between which the viewer can switch, this one included; none where it has no title."""
        found = places() if self.installation.title else []
        return found if len(found) > 1 else []

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
