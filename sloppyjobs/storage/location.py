"""Where a database is: for people, for other processes, and for what is said about it."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL

from sloppyjobs.storage import shown_urls
from sloppyjobs.storage.dialect import Dialect


class Location:
    """The URL of a database."""

    def __init__(self, url: URL, dialect: Dialect) -> None:
        self._url = url
        self._dialect = dialect

    @property
    def shown(self) -> str:
        """The URL without passwords."""
        return shown_urls.shown(self._url)

    @property
    def url(self) -> str:
        """The URL with passwords."""
        return self._url.render_as_string(hide_password=False)

    @property
    def file(self) -> Path | None:
        """The file that it is in; None for a server."""
        return self._dialect.file(self._url)

    def without_secrets(self, text: str) -> str:
        """A text about the database without the secrets of its URL and without any other."""
        return shown_urls.without_secrets(text, self._url)
