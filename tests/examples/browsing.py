"""A plain browser for the tests of example applications: cookies, and forms with their token."""

from __future__ import annotations

import base64
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

    def __init__(self, base: str, password: str | None = None) -> None:
        """``password`` is a name and a password, with a colon between them."""
        self._base = base
        self._cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(self._cookies)
        if password is not None:
            given = base64.b64encode(password.encode()).decode()
            self._opener.addheaders = [("Authorization", f"Basic {given}")]
        self.text = ""
        self.url = ""

    def get(self, path: str) -> str:
        return self._open(path, None)

    def post(self, path: str, **fields: str) -> str:
        found = TOKEN.search(self.text)
        assert found is not None, self.text
        return self._open(path, urllib.parse.urlencode({"csrf_token": found[1], **fields}).encode())

    def upload(self, path: str, name: str, content: str) -> str:
        """Send a file as the only field of a form beside its token."""
        boundary, found = "a-boundary", TOKEN.search(self.text)
        assert found is not None, self.text
        part = f"--{boundary}\r\nContent-Disposition: form-data; name="
        token = f'{part}"csrf_token"\r\n\r\n{found[1]}\r\n'
        body = f'{token}{part}"file"; filename="{name}"\r\n\r\n{content}\r\n--{boundary}--'
        kind = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        return self._open(path, body.encode(), kind)

    def _open(self, path: str, data: bytes | None, headers: dict[str, str] | None = None) -> str:
        wanted = urllib.request.Request(urllib.parse.urljoin(self._base, path), data, headers or {})
        with self._opener.open(wanted, timeout=SECONDS) as answer:
            self.text, self.url = answer.read().decode(), answer.url
        return self.text


def wait_for(look: Callable[[], T | None]) -> T:
    """What ``look`` finds, as soon as it finds something."""
    deadline = time.monotonic() + SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)
    return found
