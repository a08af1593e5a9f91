"""The find box in a browser: suggestions while somebody types, by pointer and by keyboard."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Route, expect
from served_site import Site


def _type(page: Page, site: Site, text: str) -> None:
    page.goto(site.url("/jobs"))
    page.get_by_role("searchbox").press_sequentially(text)


def test_suggestions_are_walked_by_arrows_and_opened(page: Page, site: Site) -> None:
    _type(page, site, "send-em")
    suggestions = page.get_by_role("group", name="Suggestions")
    expect(suggestions.get_by_role("link", name="All results")).to_be_visible()
    page.keyboard.press("ArrowUp")
    expect(suggestions.get_by_role("link", name="All results")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("searchbox")).to_be_focused()
    suggestions.get_by_role("link", name=re.compile("^send-email")).last.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("send-email")
    assert site.complaints == []


def test_escape_and_leaving_close_them_and_keep_what_was_typed(page: Page, site: Site) -> None:
    _type(page, site, "emails")
    suggestions = page.locator("#suggestions")
    expect(suggestions).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Escape")
    expect(suggestions).to_be_hidden()
    expect(page.get_by_role("searchbox")).to_be_focused()
    expect(page.get_by_role("searchbox")).to_have_value("emails")
    page.get_by_role("searchbox").press_sequentially("x")
    page.get_by_role("searchbox").press("Backspace")
    expect(suggestions).to_be_visible()
    page.locator("h1").click()
    expect(suggestions).to_be_hidden()


def test_a_server_that_fails_suggests_nothing_and_finding_still_works(page: Page, site: Site) -> None:
    def fail(route: Route) -> None:
        route.fulfill(status=502, body="<a href='/elsewhere'>bad gateway</a>")

    page.route("**/find?*suggest=1*", fail)
    with page.expect_response("**/find?*suggest=1*"):
        _type(page, site, "emails")
    expect(page.locator("#suggestions")).to_be_hidden()
    page.keyboard.press("Enter")
    page.wait_for_url("**/queues/emails")
