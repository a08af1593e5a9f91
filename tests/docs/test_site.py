"""The site is built without a warning, and a browser that shows it asks no other host for anything."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import FLAGS, chromium
from missing import without
from pages import DOCS, ROOT
from playwright.sync_api import sync_playwright

LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
    "object": "data",
    "link": "href",
}
INERT_LINKS = {"canonical", "next", "prev", "edit", "alternate"}


class Loads(HTMLParser):
    """What a browser loads for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        url = found.get(LOADED.get(tag, ""))
        if url and not (tag == "link" and (found.get("rel") or "") in INERT_LINKS):
            self.urls.append(url)


def _elsewhere(url: str) -> bool:
    return bool(re.match(r"(?:[a-z]+:)?//", url)) or url.startswith(("http:", "https:"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_the_site_is_whole_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        loads = Loads()
        loads.feed(page.read_text())
        assert loads.urls, page
        assert not [url for url in loads.urls if _elsewhere(url)], page
        # The theme's own script would fetch a renderer for these.
        assert 'class="mermaid"' not in page.read_text(), page
    for sheet in site.rglob("*.css"):
        urls = re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')\s]+)", sheet.read_text())
        assert not [url for url in urls if _elsewhere(url)], sheet


def test_a_browser_shows_the_site_from_disk_and_finds_something(site: Path) -> None:
    path = chromium()
    if path is None:
        without("no Chromium on this machine: tests/web/ensure_browser.sh installs one where it can")
    asked: list[str] = []
    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        tab = browser.new_page()
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        for page in sorted(site.rglob("*.html")):
            tab.goto(page.as_uri())
        tab.goto((site / "index.html").as_uri())
        box = tab.get_by_role("textbox", name="Search")
        box.click()
        box.press_sequentially("misfire")
        tab.locator(".md-search-result__item").first.wait_for()
        browser.close()
    assert asked and not [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
    assert not complaints


def test_every_decision_is_listed() -> None:
    listed = (DOCS / "decisions.md").read_text()
    assert not [page.name for page in (DOCS / "adr").glob("0*.md") if f"(adr/{page.name})" not in listed]
