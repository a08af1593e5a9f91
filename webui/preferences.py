"""What a viewer chose: time zone, theme, live updates, rows per page. Kept in one cookie that holds no secret."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from flask import Request, Response

THEMES = ("auto", "light", "dark")
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


def read(request: Request, cookie: str) -> Preferences:
    """The choices in a request."""
    zone, theme, live, size = (request.cookies.get(cookie, "").split("|") + [""] * 4)[:4]
    return Preferences().chosen(zone, theme, live).sized(size)


def write(response: Response, preferences: Preferences, *, cookie: str, path: str, secure: bool) -> None:
    """Put the choices into a response."""
    value = "|".join((preferences.zone, preferences.theme, "on" if preferences.live else "off", str(preferences.size)))
    response.set_cookie(cookie, value, max_age=_YEAR, path=path, secure=secure, httponly=True, samesite="Lax")


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())
