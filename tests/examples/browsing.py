"""A plain browser for the tests of example applications: cookies, and forms with their token."""

from __future__ import annotations

import http.cookiejar
import re
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import TypeVar

TOKEN = re.compile(r'name="csrf_token"[^>]*value="([^"]+)"')
SECONDS = 60

T = TypeVar("T")


class Browser:
    """Keeps cookies, and sends forms with the token of the page before."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(self._cookies)
        self.text = ""
        self.url = ""

    def get(self, path: str) -> str:
        return self._open(path, None)

    def post(self, path: str, **fields: str) -> str:
        found = TOKEN.search(self.text)
        assert found is not None, self.text
        return self._open(path, urllib.parse.urlencode({"csrf_token": found[1], **fields}).encode())

    def _open(self, path: str, data: bytes | None) -> str:
        with self._opener.open(urllib.parse.urljoin(self._base, path), data, timeout=SECONDS) as answer:
            self.text, self.url = answer.read().decode(), answer.url
        return self.text


def wait_for(look: Callable[[], T | None]) -> T:
    """What ``look`` finds, as soon as it finds something."""
    deadline = time.monotonic() + SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)
    return found
