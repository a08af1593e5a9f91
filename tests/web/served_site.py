"""A served application for a real browser, and what the browser complained about."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from every_page import Addresses
from flask import Flask
from hosts import PREFIX
from playwright.sync_api import BrowserContext, Page
from werkzeug.serving import WSGIRequestHandler, make_server

import webui
from sloppyjobs import Jobs


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """Requests are not worth a line."""


class Site:
    """A served application, and what its browser complained about."""

    def __init__(self, jobs: Jobs, base: str) -> None:
        self.jobs = jobs
        self.base = base
        self.complaints: list[str] = []
        self._addresses = Addresses(jobs)

    def watch(self, context: BrowserContext) -> Page:
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.on("console", lambda message: self._heard(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        return page

    def _heard(self, kind: str, text: str) -> None:
        # A 409 or a 503 is an answer that the page shows; the console mentions it anyway.
        if (kind == "error" and "Failed to load resource" not in text) or "Content Security Policy" in text:
            self.complaints.append(text)

    def url(self, path: str) -> str:
        return self.base + path

    def fill(self, path: str) -> str:
        """The address of a page, with ids for names."""
        return self.url(self._addresses.fill(path))


@contextmanager
def served(jobs: Jobs, policy: webui.Policy | None = None) -> Iterator[Site]:
    """The UI in a host of its own, served on loopback."""
    app = Flask("host")
    app.secret_key = "browser"
    app.register_blueprint(webui.create_blueprint(jobs, policy or webui.AllowAll()), url_prefix=PREFIX)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Site(jobs, f"http://127.0.0.1:{server.server_port}{PREFIX}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
