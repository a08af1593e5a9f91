"""An application with the UI mounted, and clients of every role."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from flask import Flask
from playwright.sync_api import Browser, Page, expect, sync_playwright

from sloppyjobs import Jobs

sys.path.insert(0, str(Path(__file__).parent))
import scene
from browser import SharedBrowser, chromium
from hosts import Client, make_app
from missing import without
from served_site import Site, served


@pytest.fixture
def jobs(ready_sqlite_url: str) -> Iterator[Jobs]:
    """Jobs in a SQLite file, with nothing in it."""
    made = Jobs(ready_sqlite_url)
    yield made
    made.storage.close()


@pytest.fixture(scope="session")
def played_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database after a believable day, to be copied by each test."""
    file = tmp_path_factory.mktemp("played") / "jobs.db"
    made = Jobs(f"sqlite:///{file}")
    made.storage.init()
    scene.play(made)
    made.storage.close()
    return file


def _copied(played_file: Path, file: Path) -> Jobs:
    with closing(sqlite3.connect(played_file)) as source, closing(sqlite3.connect(file)) as copy:
        source.backup(copy)
    made = Jobs(f"sqlite:///{file}")
    scene.define(made)
    return made


@pytest.fixture
def played(played_file: Path, tmp_path: Path) -> Iterator[Jobs]:
    """Jobs after a believable day, with their handlers."""
    made = _copied(played_file, tmp_path / "played.db")
    yield made
    made.storage.close()


@pytest.fixture(scope="module")
def unchanged(played_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """The same, for all tests of a file that look at pages and change nothing."""
    made = _copied(played_file, tmp_path_factory.mktemp("unchanged") / "played.db")
    yield made
    made.storage.close()


@pytest.fixture
def app(played: Jobs) -> Flask:
    """The host after a believable day."""
    return make_app(played)


@pytest.fixture
def admin(app: Flask) -> Client:
    """Somebody who may do everything."""
    return Client(app.test_client())


@pytest.fixture(scope="module")
def onlooker(unchanged: Jobs) -> Client:
    """Somebody who may do everything, and only looks."""
    return Client(make_app(unchanged).test_client())


@pytest.fixture
def as_role(app: Flask) -> Callable[[str | None], Client]:
    """Clients of any role."""
    return lambda role: Client(app.test_client(), role)


# A real browser

# What a page does it does soon; on a machine that is busy otherwise, not within the five seconds of playwright.
expect.set_options(timeout=60_000)


@pytest.fixture(scope="session")
def shared_browser() -> Iterator[SharedBrowser]:
    """A Chromium; without one the tests are skipped, or fail under CI."""
    path = chromium()
    if path is None:
        without("no Chromium on this machine: tests/web/ensure_browser.sh installs one where it can")
    with sync_playwright() as playwright:
        made = SharedBrowser(playwright, path)
        yield made
        made.close()


@pytest.fixture(scope="module")
def browser(shared_browser: SharedBrowser) -> Iterator[Browser]:
    """The Chromium, to open contexts in."""
    with shared_browser.shown() as shown:
        yield shown


@pytest.fixture
def site(played: Jobs) -> Iterator[Site]:
    """The application, served; its pages complain about nothing."""
    with served(played) as made:
        yield made
    assert made.complaints == []


@pytest.fixture(params=["scripts", "no scripts"])
def either(request: pytest.FixtureRequest, browser: Browser, site: Site) -> Iterator[Page]:
    """A page with JavaScript, and again without."""
    context = browser.new_context(java_script_enabled=request.param == "scripts")
    yield site.watch(context)
    context.close()


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    """A page with JavaScript."""
    context = browser.new_context()
    yield site.watch(context)
    context.close()


@pytest.fixture
def plain_page(browser: Browser, site: Site) -> Iterator[Page]:
    """A page without JavaScript."""
    context = browser.new_context(java_script_enabled=False)
    yield site.watch(context)
    context.close()
