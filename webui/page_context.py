"""What templates are given besides their data: URLs, icons, times, permissions, preferences."""

from __future__ import annotations

import secrets
from functools import cached_property
from typing import Any

from flask import g, request, url_for
from markupsafe import Markup

from sloppyjobs.ids import SHORT_MARK, shortened
from webui import preferences, security, times
from webui.policy import Link, links_of
from webui.times import Times
from webui.ui import Ui, Visit

KEY_FIELD = "form_key"
"""The hidden field that makes a form one of its own: see ``sent_forms``."""
THEMES = {"auto": "Same as the system", "light": "Light", "dark": "Dark"}
_POLL_SECONDS = 3
_SHORT = 20


class PageContext:
    """``context`` in every template of ours, for one request."""

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
        known: dict[str, Any] = {name: request.args[name] for name in route.query if name in request.args}
        return self.url(route.endpoint, **(request.view_args or {}), **{**known, **changed})

    def short(self, id: str) -> str:
        """An id without its middle. What is printed can be looked for, here and on the command line."""
        short = shortened(id)
        return short if len(short) <= _SHORT else f"{id[:10]}{SHORT_MARK}{id[-5:]}"

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
