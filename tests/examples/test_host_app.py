"""The host application, served and with a worker beside it, as real processes."""

from __future__ import annotations

import http.cookiejar
import os
import re
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

APP = Path(__file__).parents[2] / "examples" / "host_app" / "app.py"
TOKEN = re.compile(r'name="csrf_token"[^>]*value="([^"]+)"')
SECONDS = 60


class Browser:
    """Keeps cookies, and sends forms with the token of the page before."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(self._cookies)
        self.text = ""

    def get(self, path: str) -> str:
        return self._open(path, None)

    def post(self, path: str, **fields: str) -> str:
        found = TOKEN.search(self.text)
        assert found is not None, self.text
        return self._open(path, urllib.parse.urlencode({"csrf_token": found[1], **fields}).encode())

    def _open(self, path: str, data: bytes | None) -> str:
        with self._opener.open(self._base + path, data, timeout=SECONDS) as answer:
            self.text = answer.read().decode()
        return self.text


def _eventually(look: Callable[[], str | None]) -> str:
    deadline = time.monotonic() + SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)
    return found


@pytest.fixture
def browser(sqlite_url: str) -> Iterator[Browser]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flask = [sys.executable, "-m", "flask", "--app", str(APP)]
    environment = {**os.environ, "DATABASE_URL": sqlite_url}
    processes = [subprocess.Popen([*flask, "run", "--port", str(port)], env=environment)]
    browser = Browser(f"http://127.0.0.1:{port}")

    def served() -> str | None:
        try:
            return browser.get("/")
        except OSError:
            return None

    try:
        # One after the other: both fill the empty database with people.
        _eventually(served)
        processes.append(subprocess.Popen([*flask, "jobs", "worker"], env=environment))
        yield browser
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(SECONDS)


@pytest.mark.slow
def test_an_order_becomes_a_job_that_an_operator_sees_succeed(browser: Browser) -> None:
    browser.get("/")
    browser.post("/orders", email="ada@example.com")
    browser.get("/login")
    browser.post("/login", name="ada", password="demo")

    def job() -> str | None:
        found = re.search(r'href="(/staff/jobs/jobs/job_[^"/]+)"', browser.get("/staff/jobs/jobs?status=succeeded"))
        return found[1] if found else None

    page = browser.get(_eventually(job))
    assert "send-receipt" in page
    assert "delivered_to" in page
