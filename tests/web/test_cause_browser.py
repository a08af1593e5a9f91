"""A cause of death in a real browser: refused in place, the outcome of a canary, and the rest at a rate."""

from __future__ import annotations

import re
from typing import Any

import pytest
from accessibility import checkable, violations
from playwright.sync_api import Page, expect
from served_site import Site

from sloppyjobs.views import DeadGroup

SLOW = 60_000


@pytest.fixture
def mails(site: Site) -> DeadGroup:
    """The cause of which the receipts died."""
    return next(group for group in site.jobs.admin.dead_groups() if group.name == "send-email")


def _let_them_succeed(site: Site) -> None:
    for claim in site.jobs.claim("w", queues=["emails"], limit=100):
        site.jobs.complete(claim, None)


def _let_them_die(site: Site) -> None:
    site.jobs.create_worker(recurring=False).run_until_idle()


@pytest.mark.parametrize("typed", ["", "0"])
@pytest.mark.parametrize("path", ["/dead", "/dead/{cause}"])
def test_an_empty_or_zero_canary_is_refused_in_place(
    either: Page, site: Site, mails: DeadGroup, typed: str, path: str
) -> None:
    either.goto(site.url(path.format(cause=mails.cause)))
    field = either.locator(f"#count-{mails.cause}")
    expect(field).to_have_attribute("required", "")
    field.fill(typed)
    form = either.locator("form", has=field)
    # A browser that checks nothing: what counts is what the server says.
    form.evaluate("form => { form.noValidate = true }")
    form.get_by_role("button", name="Retry canary").click()
    error = either.locator(f"#count-{mails.cause}-error")
    expect(error).to_have_text(f"Write a number from 1 to {mails.count.value}.", timeout=SLOW)
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_value(typed)
    assert len(site.jobs.admin.list_jobs("dead", name=mails.name)) == mails.count.value


def test_a_refusal_stays_while_the_page_is_live(page: Page, site: Site, mails: DeadGroup) -> None:
    page.clock.install()
    page.goto(site.url("/dead"))
    with page.expect_request(site.url("/dead"), timeout=SLOW) as asked:
        page.clock.run_for(4_000)
    assert "hx-request" in asked.value.headers, "the page asks for what is new by itself"
    field = page.locator(f"#count-{mails.cause}")
    field.fill("0")
    form = page.locator("form", has=field)
    form.evaluate("form => { form.noValidate = true }")
    form.get_by_role("button", name="Retry canary").click()
    error = page.locator(f"#count-{mails.cause}-error")
    expect(error).to_be_visible(timeout=SLOW)
    field.evaluate("field => field.blur()")
    expect(page.get_by_role("switch")).to_have_text("Held: value refused", timeout=SLOW)
    later: list[str] = []
    page.on("request", lambda request: later.append(request.url))
    page.clock.run_for(10_000)
    assert site.url("/dead") not in later
    expect(error).to_be_visible()
    expect(field).to_have_value("0")


def test_a_canary_that_dies_again_turns_red_by_itself(page: Page, site: Site, mails: DeadGroup) -> None:
    page.goto(site.url("/dead"))
    page.locator(f"#count-{mails.cause}").fill("3")
    page.locator(f"#cause-{mails.cause}").get_by_role("button", name="Retry canary").click()
    expect(page).to_have_url(re.compile(f"/dead/{mails.cause}$"), timeout=SLOW)
    expect(page.locator("#flash")).to_contain_text("3 retried.")
    panel = page.locator("#last-retry")
    expect(panel).to_have_class(re.compile("retrying"))
    expect(panel).to_contain_text("3 still running or waiting")
    expect(page.get_by_role("button", name="Retry canary")).to_have_count(0)
    _let_them_die(site)
    expect(panel).to_contain_text("3 died again. Don’t continue.", timeout=SLOW)
    expect(panel).to_have_class(re.compile("dead"))
    expect(page.locator("#cause-jobs .tag")).to_have_count(3)
    expect(page.locator("#retry")).to_contain_text("Expect these to die too.")
    expect(page).to_have_title(re.compile(r"SmtpTimeout, \d+ dead"))


def test_a_canary_that_goes_well_offers_the_rest_which_finishes(either: Page, site: Site, mails: DeadGroup) -> None:
    either.goto(site.url(f"/dead/{mails.cause}"))
    either.locator(f"#count-{mails.cause}").fill("2")
    either.get_by_role("button", name="Retry canary").click()
    expect(either.locator("#flash")).to_contain_text("The result is shown here.", timeout=SLOW)
    _let_them_succeed(site)
    either.goto(site.url(f"/dead/{mails.cause}"))
    panel, left = either.locator("#last-retry"), mails.count.value - 2
    expect(panel).to_contain_text("2 succeeded. The cause looks fixed. Retry the rest.")
    panel.get_by_label("at").fill("6000")
    panel.get_by_role("button", name=f"Retry the other {left}…").click()
    expect(either.locator("#ask-title")).to_have_text(f"Retry {left} jobs?", timeout=SLOW)
    either.get_by_role("button", name=f"Retry {left} jobs").click()
    expect(panel).to_contain_text(f"of {left} retried, 6,000 per minute", timeout=SLOW)
    site.jobs.admin.advance_retry_runs()
    _let_them_succeed(site)
    for _ in range(200):
        if site.jobs.admin.get_cause(mails.cause).rest.state == "finished":  # type: ignore[union-attr]
            break
        site.jobs.admin.advance_retry_runs()
    either.goto(site.url(f"/dead/{mails.cause}"))
    expect(panel).to_contain_text(f"{left} succeeded.")
    expect(panel).to_have_class(re.compile("succeeded"))
    expect(either.locator("h1")).to_contain_text("0 dead")


def test_the_rest_is_stopped_by_a_button(either: Page, site: Site, mails: DeadGroup) -> None:
    site.jobs.admin.retry_rest(mails.cause, 1)
    either.goto(site.url(f"/dead/{mails.cause}"))
    either.get_by_role("button", name="Stop").click()
    expect(either.locator("#last-retry")).to_contain_text("Stopped", timeout=SLOW)
    expect(either.locator("#flash")).to_contain_text("Stopped.")
    expect(either.get_by_role("button", name="Retry canary")).to_be_visible()


def test_an_odd_rate_is_refused_where_it_was_typed(plain_page: Page, site: Site, mails: DeadGroup) -> None:
    plain_page.goto(site.url(f"/dead/{mails.cause}"))
    field = plain_page.locator(f"#rate-{mails.cause}")
    field.fill("many")
    form = plain_page.locator("form", has=field)
    form.evaluate("form => { form.noValidate = true }")
    form.get_by_role("button").click()
    expect(plain_page.locator("#rate-error")).to_have_text("Write a number from 1 to 6,000.")
    expect(plain_page.locator("#rate")).to_have_value("many")
    assert site.jobs.admin.get_cause(mails.cause).rest is None


def test_first_seen_stays_over_a_retry(plain_page: Page, site: Site, mails: DeadGroup) -> None:
    def first() -> Any:
        plain_page.goto(site.url(f"/dead/{mails.cause}"))
        return plain_page.locator("dt:text-is('First seen') + dd time").get_attribute("datetime")

    before = first()
    site.jobs.admin.retry_canary(mails.cause, mails.count.value)
    assert first() == before
    _let_them_die(site)
    assert first() == before


def test_a_selection_on_the_page_of_a_cause_is_retried(either: Page, site: Site, mails: DeadGroup) -> None:
    either.goto(site.url(f"/dead/{mails.cause}"))
    boxes = either.locator("#cause-jobs [name=id]")
    boxes.nth(0).check()
    boxes.nth(1).check()
    either.locator(".bulk").get_by_role("button", name="Retry…").click()
    either.get_by_role("button", name="Retry 2 jobs").click()
    expect(either.locator("#flash")).to_contain_text("2 retried.", timeout=SLOW)
    expect(either).to_have_url(re.compile(f"/dead/{mails.cause}$"))
    assert len(site.jobs.admin.list_jobs("dead", name=mails.name)) == mails.count.value - 2


@pytest.mark.parametrize("width", [360, 1366])
def test_a_cause_fits_its_window(browser: Any, site: Site, mails: DeadGroup, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800})
    page = site.watch(context)
    page.goto(site.url(f"/dead/{mails.cause}"))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def test_a_cause_is_accessible(browser: Any, site: Site, mails: DeadGroup) -> None:
    site.jobs.admin.retry_canary(mails.cause, 2)
    _let_them_die(site)
    with checkable(browser, site) as page:
        for path in (f"/dead/{mails.cause}", f"/dead/{mails.cause}/rest?rate=0", "/dead"):
            page.goto(site.url(path))
            assert violations(page) == [], path
