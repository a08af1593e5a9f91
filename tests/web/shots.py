"""Which pages and which of their states have a picture. Data: a new page is a line here."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from every_page import CONFIRMS, PAGES
from playwright.sync_api import Page, Route, expect

LONG_WAIT = 20_000


class Shot(NamedTuple):
    """A picture: the address, the host that serves it, and what is done before it is taken."""

    path: str
    host: str = "shop"
    act: Callable[[Page], None] | None = None


# What brings a page into a state. Nothing here changes a job, so that the pictures can be taken in any order.


def ask(page: Page) -> None:
    """Open the dialog of the first action that asks."""
    page.locator("main a[hx-target='#dialog']").first.click()
    expect(page.locator("#dialog[open] form")).to_be_visible()


def keys(page: Page) -> None:
    """Open the list of keys."""
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()


def menu(page: Page) -> None:
    """Open the first menu of the page."""
    page.locator("main details.pop > summary").first.click()
    expect(page.locator("main details.pop[open]")).to_be_visible()


def patch(page: Page) -> None:
    """Open the form that changes a payload."""
    page.get_by_text("Change the payload", exact=False).first.click()


def select(page: Page) -> None:
    """Select rows: updates are held, and the bar with actions shows."""
    for number in range(3):
        page.locator("tbody input[type=checkbox]").nth(number).check()
    expect(page.locator(".bulk")).to_be_visible()


def stale(page: Page) -> None:
    """Let the server not answer."""
    page.route("**/*", lambda route: route.abort())
    expect(page.locator(".flash.stick").first).to_be_visible(timeout=2 * LONG_WAIT)


def offline(page: Page) -> None:
    """Take the network away."""
    page.context.set_offline(True)
    expect(page.locator(".btn.live.dead, .flash.stick").first).to_be_visible(timeout=2 * LONG_WAIT)


def sending(page: Page) -> None:
    """Send a form whose answer does not come."""

    def hold(route: Route) -> None:
        if route.request.method != "POST":
            route.continue_()

    page.route("**/*", hold)
    page.get_by_role("button", name="Retry", exact=True).first.click(no_wait_after=True)
    expect(page.locator("main [aria-busy=true], main button:disabled").first).to_be_visible(timeout=LONG_WAIT)


def refused(page: Page) -> None:
    """Send a canary of nothing, past what the browser itself would refuse."""
    page.locator("main form").evaluate_all("forms => forms.forEach(form => form.noValidate = true)")
    box = page.locator("main form:has(button:text('Retry canary'))").first
    box.locator("input:not([type=hidden])").first.fill("")
    box.get_by_role("button", name="Retry canary").click()
    expect(page.locator("main [aria-invalid=true]").first).to_be_visible(timeout=LONG_WAIT)


def expired(page: Page) -> None:
    """Send a form with a token that is too old."""
    page.locator("input[name=csrf_token]").evaluate_all("all => all.forEach(one => one.value = 'old')")
    page.get_by_role("button", name="Retry", exact=True).first.click()
    expect(page.locator("main")).to_contain_text(re.compile("expired"), timeout=LONG_WAIT)


STATES = {
    **{name: Shot(path) for name, path in CONFIRMS.items()},
    "confirm-bulk": Shot("/dead/retry?cause=1&error_type={kind}&error_frame={frame}"),
    "dialog": Shot("/jobs/{dead}", act=ask),
    "keys": Shot("/jobs", act=keys),
    "menu": Shot("/queues", act=menu),
    "patch": Shot("/jobs/{scheduled}", act=patch),
    "held": Shot("/jobs?status=dead", act=select),
    "stale": Shot("/jobs", act=stale),
    "offline": Shot("/jobs", act=offline),
    "sending": Shot("/jobs/{dead}", act=sending),
    "refused": Shot("/dead", act=refused),
    "expired": Shot("/jobs/{dead}", act=expired),
    "cause-red": Shot("{cause_red}"),
    "cause-green": Shot("{cause_green}"),
    "cause-amber": Shot("{cause_amber}"),
    "cause-new": Shot("{cause_new}"),
    "nothing-matches": Shot("/jobs?name=nobody"),
    "404": Shot("/nope"),
    "404-job": Shot("/jobs/job_00000000000000000000000000"),
    "403": Shot("/audit", "viewer"),
    "read-only": Shot("/jobs/{dead}", "read-only"),
    "no-policy": Shot("/", "no-policy"),
    "no-tables": Shot("/", "no-tables"),
    "database-down": Shot("/", "down"),
    **{f"empty-{name}": Shot(PAGES[name], "empty")
       for name in ("overview", "jobs", "dead", "queues", "recurring", "workflows", "batches", "workers", "limits",
                    "locks", "alerts", "archive", "audit")},
}  # fmt: skip
"""States of pages. One whose address needs a name that is not known is left out, with a word about it."""
EVERYTHING = {**{name: Shot(path) for name, path in PAGES.items()}, **STATES}
SIZES = ((390, 844), (768, 1024), (1024, 900), (1366, 900), (1920, 1080))
