"""The page of locks: who holds what, until when, and how much of that time is left."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hosts import Client, make_app
from playwright.sync_api import Page
from served_site import Site

from sloppyjobs import Jobs, storage
from sloppyjobs.storage import FakeClock
from webui.times import Times

NOW = datetime(2030, 5, 20, 12, tzinfo=UTC)
POLL = {"HX-Request": "true", "HX-Target": "div#live"}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """A clock for the database and the pages."""
    made = FakeClock(NOW)
    monkeypatch.setattr("webui.page_context.Times", lambda zone: Times(zone, made.now()))
    return made


@pytest.fixture
def jobs(ready_sqlite_url: str, clock: FakeClock) -> Iterator[Jobs]:
    """Jobs with one lock, taken for a minute."""
    made = Jobs(storage.from_url(ready_sqlite_url, clock=clock))
    made.locks("app-1").acquire("catalog", ttl=60)
    yield made
    made.storage.close()


def _bars(text: str) -> list[str]:
    return re.findall(r'<rect class="k processing" [^>]*width="([^"]+)"', text)


def test_a_bar_shows_the_time_that_a_lock_has_left(jobs: Jobs, clock: FakeClock) -> None:
    client = Client(make_app(jobs).test_client())
    page = client.get("/locks", headers=POLL)
    assert _bars(page.text) == ["100.0"]
    assert "of 1 min" in page.text
    clock.advance(15)
    assert _bars(client.get("/locks").text) == ["75.0"]
    unchanged = client.get("/locks", headers={**POLL, "HX-PTag": page.headers["HX-PTag"]})
    assert unchanged.status_code == 304, "the script keeps the bar fresh"
    jobs.locks("app-1").acquire("catalog", ttl=30)
    renewed = client.get("/locks", headers={**POLL, "HX-PTag": page.headers["HX-PTag"]})
    assert _bars(renewed.text) == ["100.0"]
    clock.advance(31)
    free = client.get("/locks").text
    assert _bars(free) == []
    assert "Free" in free


def test_the_script_keeps_the_bar_fresh(page: Page, site: Site) -> None:
    site.jobs.locks("app-1").acquire("long", ttl=1200)
    page.goto(site.url("/locks"))
    page.wait_for_function(
        """() => {
          const bar = [...document.querySelectorAll("rect[data-until]")].find((one) => one.dataset.seconds > 1000);
          window.first ??= Number(bar.getAttribute("width"));
          return Number(bar.getAttribute("width")) < window.first;
        }"""
    )
