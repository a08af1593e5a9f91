"""Stale never looks live: no answer, a proxy's error or a login page changes nothing, and the page says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from flask import redirect
from playwright.sync_api import Browser, Page, Route, expect
from served_site import Site, served
from sqlalchemy.exc import OperationalError

import webui
from sloppyjobs import Jobs
from sloppyjobs.admin import Admin

SOON = 60_000
"""Milliseconds in which an answer, or none, has been noticed on any machine."""
LONG = 30_000
"""Milliseconds to skip, after which a page without an answer is stale."""
LOGIN = "<html><head><title>Log in</title></head><body><h1>Please log in</h1></body></html>"
BAD_GATEWAY = "<html><head><title>502</title></head><body><h1>502 Bad Gateway</h1></body></html>"


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    """A page whose clock can be put forward."""
    context = browser.new_context()
    made = site.watch(context)
    made.clock.install()
    yield made
    context.close()


def _switch(page: Page) -> Any:
    return page.get_by_role("switch")


def _answer(page: Page, status: int, body: str = "", **headers: str) -> None:
    """Somebody else answers the requests of scripts from now on."""

    def fulfil(route: Route) -> None:
        if route.request.headers.get("hx-request"):
            route.fulfill(status=status, body=body, content_type="text/html", headers=headers)
        else:
            route.continue_()

    page.route("**/*", fulfil)


def _is_untouched(page: Page, title: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    expect(page).to_have_title(f"{title} · sloppyjobs")


def test_a_page_says_that_it_is_offline_and_since_when_it_is_old(page: Page, site: Site) -> None:
    page.goto(site.url("/locks"))
    expect(_switch(page)).to_have_text("Live")
    page.context.set_offline(True)
    expect(_switch(page)).to_have_text("Offline", timeout=SOON)
    page.clock.fast_forward(LONG)
    bar = page.locator(".flash.warn.stick")
    expect(bar).to_contain_text(re.compile(r"This page is from \d\d:\d\d:\d\d UTC, \d+ s ago\."), timeout=SOON)
    expect(bar).to_contain_text("You are offline.")
    expect(page.locator("#said")).to_contain_text("This page is from")
    _is_untouched(page, "Locks")
    page.context.set_offline(False)
    expect(_switch(page)).to_have_text("Live", timeout=SOON)
    expect(bar).to_be_hidden()


def test_the_error_page_of_a_proxy_is_not_shown_as_ours(page: Page, site: Site) -> None:
    page.goto(site.url("/locks"))
    _answer(page, 502, BAD_GATEWAY)
    expect(_switch(page)).to_have_text(re.compile("Stale for"), timeout=SOON)
    _is_untouched(page, "Locks")
    page.clock.fast_forward(LONG)
    bar = page.locator(".flash.warn.stick")
    expect(bar).to_contain_text("The server answers with an error.", timeout=SOON)
    page.unroute("**/*")
    bar.get_by_role("button", name="Try now").click()
    expect(bar).to_be_hidden(timeout=SOON)
    expect(_switch(page)).to_have_text("Live")


def test_a_server_that_does_not_answer_makes_a_page_stale_in_the_zone_of_the_viewer(page: Page, site: Site) -> None:
    page.goto(site.url("/locks"))
    page.locator(".top summary").click()
    page.get_by_label("Time zone").fill("Asia/Tokyo")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".top summary")).to_contain_text("Asia/Tokyo")
    page.route("**/*", lambda route: route.abort())
    expect(_switch(page)).to_have_text(re.compile("Stale for"), timeout=SOON)
    page.clock.fast_forward(LONG)
    bar = page.locator(".flash.warn.stick")
    expect(bar).to_contain_text("The server does not answer.", timeout=SOON)
    expect(bar).to_contain_text(re.compile(r"from \d\d:\d\d:\d\d (JST|GMT\+9),"))


@pytest.mark.parametrize("kind", ["page", "redirect", "refusal"])
def test_a_login_is_not_shown_inside_the_page(page: Page, site: Site, kind: str) -> None:
    page.goto(site.url("/locks"))
    if kind == "page":
        _answer(page, 200, LOGIN)
    elif kind == "redirect":
        _answer(page, 302, Location="/login")
    else:
        _answer(page, 401, LOGIN)
    bar = page.locator(".flash.stick")
    expect(bar).to_contain_text("You were logged out.", timeout=SOON)
    expect(_switch(page)).to_have_text("Logged out")
    _is_untouched(page, "Locks")
    expect(bar.get_by_role("link", name="Log in again")).to_have_attribute("href", page.url)
    page.unroute("**/*")
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(bar).to_be_hidden(timeout=SOON)
    expect(_switch(page)).to_have_text("Live")


class _Leaving(webui.AllowAll):
    """A policy of which the session ends."""

    ended = False

    def actor(self) -> Any:
        return None if self.ended else super().actor()

    def on_unauthenticated(self) -> Any:
        return redirect("/login")


def test_a_session_that_ends_leaves_the_page_as_it_was(browser: Browser, played: Jobs) -> None:
    policy = _Leaving()
    with served(played, policy) as site:
        context = browser.new_context()
        page = site.watch(context)
        page.goto(site.fill("/jobs/{dead}"))
        address = page.url
        policy.ended = True
        expect(page.locator(".flash.stick")).to_contain_text("You were logged out.", timeout=SOON)
        expect(page.locator("h1 .st")).to_have_text("Dead")
        page.get_by_role("button", name="Retry").click()
        expect(page.get_by_role("alert")).to_contain_text("You were logged out. “Retry” was not done.")
        assert page.url == address
        context.close()
    assert site.complaints == []


def test_an_error_of_ours_does_not_take_the_place_of_a_page_that_can_be_read(
    page: Page, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_given: Any, **_options: Any) -> Any:
        raise OperationalError("SELECT 1", {}, Exception("refused"))

    page.goto(site.url("/locks"))
    with monkeypatch.context() as broken:
        broken.setattr(Admin, "list_locks", down)
        expect(_switch(page)).to_have_text(re.compile("Stale for"), timeout=SOON)
        _is_untouched(page, "Locks")
    expect(_switch(page)).to_have_text("Live", timeout=SOON)


def test_an_action_that_is_not_sent_says_so(page: Page, site: Site) -> None:
    page.goto(site.fill("/jobs/{dead}"))
    page.context.set_offline(True)
    page.get_by_role("button", name="Retry").click()
    told = page.get_by_role("alert")
    expect(told).to_contain_text("You are offline. “Retry” was not sent.", timeout=SOON)
    expect(told).to_contain_text("Nothing was changed.")
    page.get_by_role("link", name="Delete…").click()
    expect(told).to_contain_text("You are offline. “Delete” was not opened.")
    page.context.set_offline(False)
    page.get_by_role("button", name="Retry").click()
    expect(page.locator("#flash")).to_contain_text("Queued again", timeout=SOON)
    expect(told).to_have_count(0)


@pytest.mark.parametrize("kind", ["no answer", "a proxy's error"])
def test_an_action_without_an_answer_is_not_said_to_be_done_or_not(page: Page, site: Site, kind: str) -> None:
    page.goto(site.fill("/jobs/{dead}"))
    if kind == "no answer":
        page.route("**/retry", lambda route: route.abort())
    else:
        page.route("**/retry", lambda route: route.fulfill(status=504, body=BAD_GATEWAY, content_type="text/html"))
    page.get_by_role("button", name="Retry").click()
    told = page.get_by_role("alert")
    expect(told).to_contain_text("The server did not answer", timeout=SOON)
    expect(told).to_contain_text("It is not known whether “Retry” was done: look at the job before you press it again.")
    expect(page.locator("h1 .st")).to_have_text("Dead")
    expect(page.get_by_role("button", name="Retry")).to_be_enabled()


def test_in_a_dialog_it_is_told_in_the_dialog(page: Page, site: Site) -> None:
    page.goto(site.fill("/jobs/{dead}"))
    page.get_by_role("link", name="Delete…").click()
    dialog = page.get_by_role("dialog")
    page.route("**/delete", lambda route: route.abort())
    dialog.get_by_role("button", name="Delete the job").click()
    expect(dialog.get_by_role("alert")).to_contain_text(
        "It is not known whether “Delete the job” was done", timeout=SOON
    )


def test_an_answer_that_breaks_off_is_none(page: Page, site: Site) -> None:
    page.goto(site.fill("/jobs/{dead}"))
    page.evaluate("""() => {
        const fetched = window.fetch;
        window.fetch = async (url, options) => {
            if (!String(url).endsWith("/retry")) return fetched(url, options);
            const body = new ReadableStream({ start: (stream) => stream.error(new TypeError("network error")) });
            return new Response(body, { headers: { "SJ-Page": "1" } });
        };
    }""")
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("alert")).to_contain_text("It is not known whether “Retry” was done", timeout=SOON)
