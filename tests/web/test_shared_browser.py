"""The browser that tests share is out of the way where there is none."""

from __future__ import annotations

import asyncio

from browser import SharedBrowser
from playwright.sync_api import sync_playwright


async def _seven() -> int:
    await asyncio.sleep(0)
    return 7


def test_loops_run_between_the_tests_that_look_at_pages(shared_browser: SharedBrowser) -> None:
    for _ in range(2):
        with shared_browser.shown() as browser:
            assert browser.contexts == [], "what another test left is closed"
            assert browser.new_page().evaluate("3 + 4") == 7
        assert asyncio.run(_seven()) == 7


def test_a_browser_that_is_gone_is_started_again(shared_browser: SharedBrowser) -> None:
    with shared_browser.shown() as browser:
        browser.close()
    with shared_browser.shown() as browser:
        assert browser.new_page().evaluate("3 + 4") == 7


def test_another_playwright_works_beside_it(shared_browser: SharedBrowser) -> None:
    with sync_playwright() as playwright:
        assert playwright.chromium.name == "chromium"
    with shared_browser.shown() as browser:
        assert browser.new_page().evaluate("3 + 4") == 7
