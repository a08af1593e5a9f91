"""What the tutorial's reader does in a browser. In Chromium where there is one, else with plain requests."""

from __future__ import annotations

import base64
import html
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from typing import Protocol
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, Request, build_opener

from browser import FLAGS, chromium
from playwright.sync_api import Page, sync_playwright
from running import SECONDS, Run, Steps

USER, PASSWORD = "me", "five-minutes"


class Reader(Protocol):
    """Somebody who looks at pages and clicks."""

    def open(self, url: str) -> None:
        """Go to a page."""

    def follow(self, name: str) -> None:
        """Click on a link."""

    def press(self, name: str) -> None:
        """Click on a button."""

    def see(self, text: str) -> None:
        """Wait until the page has the text."""


def _read_why(run: Run) -> None:
    with _reader() as reader:
        reader.open(_pages(run))
        reader.follow("Dead")
        reader.see("FileNotFoundError")
        reader.follow("send-receipt")
        reader.follow("the newest death")
        reader.see("It is dead: attempt 2 of 2 failed")
        reader.see("Traceback (most recent call last)")


def _retry(run: Run) -> None:
    with _reader() as reader:
        reader.open(f"{_pages(run)}jobs/{run.environment['JOB']}")
        reader.press("Retry")
        reader.see("Succeeded")


def _order(run: Run) -> None:
    shop = f"http://127.0.0.1:{run.ports['8001']}/"
    with _reader() as reader:
        reader.open(shop)
        reader.see("Packed: 0")
        reader.press("Order")
        reader.see("Thank you!")
        reader.open(f"{shop}admin/jobs/jobs")
        reader.follow("pack")
        reader.see("Succeeded")
        reader.open(shop)
        reader.see("Packed: 1")


STEPS: Steps = {
    "read why the job is dead": _read_why,
    "click retry and watch it succeed": _retry,
    "order, and find the job in the pages": _order,
}


def _pages(run: Run) -> str:
    return f"http://127.0.0.1:{run.ports['8000']}/"


@contextmanager
def _reader() -> Iterator[Reader]:
    path = chromium()
    if path is None:
        yield PlainReader()
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        context = browser.new_context(http_credentials={"username": USER, "password": PASSWORD})
        context.set_default_timeout(SECONDS * 1000)
        yield ChromiumReader(context.new_page())
        browser.close()


class ChromiumReader:
    """In a real browser."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def open(self, url: str) -> None:
        self._page.goto(url)

    def follow(self, name: str) -> None:
        self._page.get_by_role("link", name=re.compile(rf"^{name}\b")).first.click()

    def press(self, name: str) -> None:
        self._page.get_by_role("button", name=name, exact=True).click()

    def see(self, text: str) -> None:
        self._page.get_by_text(text).first.wait_for()


class PlainReader:
    """Like a browser without scripts: keeps cookies, and sends forms with all their fields."""

    def __init__(self) -> None:
        self._send = build_opener(HTTPCookieProcessor(CookieJar())).open
        self._url = self._text = ""

    def open(self, url: str, form: dict[str, str] | None = None) -> None:
        credentials = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        data = None if form is None else urlencode(form).encode()
        request = Request(url, data, {"Authorization": f"Basic {credentials}", "Referer": self._url})
        with self._send(request, timeout=SECONDS) as answer:
            self._url, self._text = answer.url, answer.read().decode()

    def follow(self, name: str) -> None:
        for attributes, inside in re.findall(r"<a\s([^>]*)>(.*?)</a>", self._text, re.DOTALL):
            if re.match(rf"{name}\b", _words(inside)):
                self.open(urljoin(self._url, _attribute(attributes, "href")))
                return
        raise AssertionError(f"no link {name!r} on {self._url}")

    def press(self, name: str) -> None:
        for attributes, inside in re.findall(r"<form\s([^>]*)>(.*?)</form>", self._text, re.DOTALL):
            button = re.search(r"<button[^>]*>(.*?)</button>", inside, re.DOTALL)
            if button and _words(button[1]) == name:
                fields = re.findall(r"<input\s([^>]*)>", inside)
                form = {_attribute(one, "name"): _attribute(one, "value") for one in fields}
                self.open(urljoin(self._url, _attribute(attributes, "action")), form)
                return
        raise AssertionError(f"no button {name!r} on {self._url}")

    def see(self, text: str) -> None:
        deadline = time.monotonic() + SECONDS
        while text not in _words(self._text):
            assert time.monotonic() < deadline, f"no {text!r} on {self._url}"
            time.sleep(0.2)
            self.open(self._url)


def _attribute(attributes: str, name: str) -> str:
    found = re.search(rf"""(?<![\w-]){name}=["']([^"']*)""", attributes)
    return html.unescape(found[1]) if found else ""


def _words(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())
