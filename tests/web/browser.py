"""Where the browser is, how it is started, and one that the tests of a process share."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Playwright

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# The first is the same browser without its windows: it opens a page in a quarter of the time.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ROOT = Path(__file__).parents[2]


def chromium() -> str | None:
    """The path of a Chromium on this machine, if there is one."""
    return next((found for found in map(shutil.which, _NAMES) if found), None)


def axe() -> Path | None:
    """The accessibility checker from npm, if it is installed."""
    file = ROOT / "node_modules" / "axe-core" / "axe.min.js"
    return file if file.is_file() else None


class SharedBrowser:
    """A Chromium that is started once: starting it, and playwright's own process, costs as much as five pages.

    What a test leaves in it is in the contexts that the test opens. Playwright's loop counts as running in this thread
    for as long as the browser lives. Tests without a browser may run loops of their own: they must not see it.
    """

    def __init__(self, playwright: Playwright, path: str) -> None:
        self._playwright = playwright
        self._path = path
        self._browser = self._launched()
        self._loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)

    def _launched(self) -> Browser:
        return self._playwright.chromium.launch(executable_path=self._path, args=FLAGS)

    @contextmanager
    def shown(self) -> Iterator[Browser]:
        """The browser, for a while."""
        asyncio._set_running_loop(self._loop)
        try:
            if not self._browser.is_connected():
                self._browser = self._launched()
            yield self._browser
            for context in self._browser.contexts:
                context.close()
        finally:
            asyncio._set_running_loop(None)

    def close(self) -> None:
        """End it; playwright's loop is the running one again."""
        asyncio._set_running_loop(self._loop)
        self._browser.close()
