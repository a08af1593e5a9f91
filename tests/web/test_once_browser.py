"""Once is once in a real browser: double clicks, buttons that wait, forms that expired, choices that keep the page."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from accessibility import checkable, violations
from playwright.sync_api import Browser, Page, expect
from served_site import Site

from sloppyjobs.admin import Admin
from webui import expired

SLOWLY = 60_000


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Commands wait until the event is set."""
    go_on = threading.Event()
    for name in ("trigger_recurring", "bulk", "pause_recurring", "retry"):
        monkeypatch.setattr(Admin, name, _after(go_on, getattr(Admin, name)))
    yield go_on
    go_on.set()


@pytest.fixture
def delay(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Between two clicks. Without a script commands take longer, so that the second click is sent as well."""
    if "no scripts" not in request.node.name:
        return 0
    for name in ("trigger_recurring", "bulk"):
        monkeypatch.setattr(Admin, name, _slowly(getattr(Admin, name)))
    return 200


def _slowly(command: Any) -> Any:
    def run(self: Admin, *given: Any, **options: Any) -> Any:
        time.sleep(1.0)
        return command(self, *given, **options)

    return run


def _after(go_on: threading.Event, command: Any) -> Any:
    def wait(self: Admin, *given: Any, **options: Any) -> Any:
        if not options.get("dry_run"):
            assert go_on.wait(60)
        return command(self, *given, **options)

    return wait


def test_a_double_click_triggers_a_schedule_once(either: Page, site: Site, delay: int) -> None:
    before = len(site.jobs.admin.list_jobs(schedule="nightly-rollup"))
    either.goto(site.url("/recurring/nightly-rollup"))
    either.get_by_role("link", name="Trigger nightly-rollup").click()
    either.get_by_role("button", name="Trigger one job").dblclick(delay=delay)
    expect(either.locator("#flash")).to_contain_text("nightly-rollup triggered.", timeout=SLOWLY)
    expect(either.locator("#flash .flash")).to_have_count(1)
    assert len(site.jobs.admin.list_jobs(schedule="nightly-rollup")) == before + 1


def test_a_double_click_sends_a_canary_once(either: Page, site: Site, delay: int) -> None:
    before = len(site.jobs.admin.list_jobs("dead"))
    either.goto(site.url("/dead"))
    cause = either.locator(".cause").first
    cause.get_by_label("A few first").fill("2")
    cause.get_by_role("button", name="Retry canary").dblclick(delay=delay)
    expect(either.locator("#flash")).to_contain_text("2 retried", timeout=SLOWLY)
    assert len(site.jobs.admin.list_jobs("dead")) == before - 2


def test_a_form_that_was_sent_waits_and_says_so(page: Page, site: Site, held: threading.Event) -> None:
    page.goto(site.fill("/jobs/{dead}"))
    button = page.locator("button", has_text="Retry")
    button.click()
    waiting = page.locator("button[aria-busy=true]")
    expect(waiting).to_have_text("Retrying…")
    expect(waiting).to_be_disabled()
    held.set()
    expect(page.locator("#flash .flash")).to_have_count(1, timeout=SLOWLY)
    expect(page.locator("h1 .st")).to_have_text("Queued")
    expect(page.locator("[aria-busy=true], button:disabled")).to_have_count(0)


def test_a_live_update_does_not_hand_out_the_button_again(page: Page, site: Site, held: threading.Event) -> None:
    page.goto(site.url("/recurring"))
    page.get_by_role("button", name="Pause nightly-rollup").click()
    waiting = page.get_by_role("button", name="Pause nightly-rollup")
    expect(waiting).to_have_text("Pausing…")
    site.jobs.recurring("another", "send-email", {}, cron="0 0 1 1 *")
    for _ in range(2):
        page.wait_for_event("response", _polled, timeout=SLOWLY)
    expect(waiting).to_be_disabled()
    held.set()
    expect(page.get_by_role("button", name="Resume nightly-rollup")).to_be_enabled(timeout=SLOWLY)
    expect(page.get_by_role("link", name="another", exact=True)).to_be_visible(timeout=SLOWLY)


def _polled(response: Any) -> bool:
    return bool(response.url.endswith("/recurring") and response.request.method == "GET")


def test_a_page_that_comes_back_from_the_cache_has_its_buttons(page: Page, site: Site, held: threading.Event) -> None:
    page.goto(site.fill("/jobs/{dead}"))
    page.get_by_role("button", name="Retry").click()
    expect(page.locator("button[aria-busy=true]")).to_be_disabled()
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
    expect(page.get_by_role("button", name="Retry")).to_be_enabled()
    expect(page.get_by_role("button", name="Retry")).to_have_text("Retry")


def test_a_number_stays_in_the_words_of_a_plain_form(page: Page, site: Site) -> None:
    page.goto(site.url("/jobs?status=dead"))
    boxes = page.locator("tbody input[type=checkbox]")
    for number in range(3):
        boxes.nth(number).check()
    page.get_by_role("button", name="Retry…").click()
    expect(page.get_by_role("button", name="Retry 3 jobs")).to_be_enabled()
    # A page that is being left can not be looked at from outside: it takes a note of itself.
    page.evaluate("""() => new MutationObserver(() => {
      const button = document.querySelector("button[aria-busy=true]:disabled");
      if (button) sessionStorage.said = button.textContent.trim();
    }).observe(document.body, {subtree: true, childList: true, attributes: true})""")
    page.get_by_role("button", name="Retry 3 jobs").click()
    expect(page.locator("#flash")).to_contain_text("3 retried", timeout=SLOWLY)
    assert page.evaluate("sessionStorage.said") == "Retrying 3…"


def test_an_error_gives_the_button_back(page: Page, site: Site) -> None:
    page.goto(site.fill("/jobs/{dead}"))
    page.route("**/retry", lambda route: route.abort())
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("button", name="Retry")).to_be_enabled(timeout=SLOWLY)
    expect(page.get_by_role("button", name="Retry")).to_have_text("Retry")
    page.unroute("**/retry")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator("h1 .st")).to_have_text("Queued", timeout=SLOWLY)
    site.complaints.clear()


def test_back_and_the_same_form_again_is_answered_with_the_first_result(plain_page: Page, site: Site) -> None:
    before = len(site.jobs.admin.list_jobs(schedule="nightly-rollup"))
    plain_page.goto(site.url("/recurring/nightly-rollup/trigger?from=schedule"))
    key = plain_page.locator("main input[name=form_key]").get_attribute("value")
    token = plain_page.locator("main input[name=csrf_token]").get_attribute("value")
    form = {"csrf_token": token or "", "form_key": key or "", "from": "schedule", "reason": ""}
    for _ in range(2):
        sent = plain_page.context.request.post(
            site.url("/recurring/nightly-rollup/trigger"), form=form, headers={"Sec-Fetch-Site": "same-origin"}
        )
        assert "nightly-rollup triggered." in sent.text()
    assert len(site.jobs.admin.list_jobs(schedule="nightly-rollup")) == before + 1


def _spoil(page: Page) -> None:
    """Make the session forget its token, as a new session or another SECRET_KEY would."""
    page.context.clear_cookies()


def test_an_expired_form_keeps_what_was_typed_in_a_dialog(page: Page, site: Site) -> None:
    page.goto(site.url("/recurring/nightly-rollup"))
    page.get_by_role("link", name="Trigger nightly-rollup").click()
    page.get_by_label("Reason").fill("the night run failed")
    _spoil(page)
    page.get_by_role("button", name="Trigger one job").click()
    said = page.get_by_role("dialog").locator(".flash")
    expect(said).to_contain_text(expired.EXPIRED.text, timeout=SLOWLY)
    expect(page.get_by_label("Reason")).to_have_value("the night run failed")
    page.get_by_role("button", name="Trigger one job").click()
    expect(page.locator("#flash")).to_contain_text("nightly-rollup triggered.", timeout=SLOWLY)
    assert site.jobs.admin.audit()[0].reason == "the night run failed"


def test_an_expired_form_keeps_the_page_and_what_was_typed(page: Page, site: Site) -> None:
    page.goto(site.url("/queues/emails"))
    pausing = page.locator("#live details.pop:has(summary[aria-label='Pause emails'])")
    pausing.locator("summary").click()
    pausing.get_by_label("Reason").fill("relay is down")
    _spoil(page)
    page.get_by_role("button", name="Pause emails").click()
    expect(page.locator("#flash")).to_contain_text("Your entries are kept", timeout=SLOWLY)
    expect(page.get_by_role("heading", level=1)).to_contain_text("emails")
    expect(pausing.get_by_label("Reason")).to_have_value("relay is down")
    page.get_by_role("button", name="Pause emails").click()
    expect(page.locator("#flash")).to_contain_text("paused", timeout=SLOWLY)
    assert site.jobs.admin.audit()[0].reason == "relay is down"


def test_an_expired_form_without_a_script_is_sent_from_the_page_that_answers(plain_page: Page, site: Site) -> None:
    plain_page.goto(site.url("/queues/emails"))
    pausing = plain_page.locator("#live details.pop:has(summary[aria-label='Pause emails'])")
    pausing.locator("summary").click()
    pausing.get_by_label("Reason").fill("relay is down")
    _spoil(plain_page)
    plain_page.get_by_role("button", name="Pause emails").click()
    expect(plain_page.locator("#flash")).to_contain_text("Your entries are kept")
    expect(plain_page.get_by_role("heading", level=1)).to_have_text("Pause emails?")
    expect(plain_page.get_by_label("Reason")).to_have_value("relay is down")
    plain_page.get_by_role("button", name="Send again").click()
    expect(plain_page.locator("#flash")).to_contain_text("paused")
    assert site.jobs.admin.audit()[0].reason == "relay is down"


@pytest.mark.parametrize("path", ["/jobs?status=dead&queue=emails", "/recurring/nightly-rollup", "/audit?actor=ops"])
def test_a_zone_keeps_the_page_with_its_filters(plain_page: Page, site: Site, path: str) -> None:
    plain_page.goto(site.url(path))
    heading = plain_page.get_by_role("heading", level=1).inner_text()
    plain_page.locator(".top summary").click()
    plain_page.get_by_label("Time zone").fill("Asia/Tokyo")
    plain_page.get_by_role("button", name="Save").click()
    expect(plain_page.locator(".top summary")).to_contain_text("Asia/Tokyo")
    assert sorted(re.split("[?&]", plain_page.url)) == sorted(re.split("[?&]", site.url(path)))
    expect(plain_page.get_by_role("heading", level=1)).to_have_text(heading)


def test_the_pages_of_find_and_of_an_expired_form_are_accessible(browser: Browser, site: Site) -> None:
    with checkable(browser, site) as page:
        for path in ("/find?q=email", "/find?q=nothing-like-it"):
            page.goto(site.url(path))
            assert violations(page) == [], path
        page.goto(site.url("/queues"))
        # The page for who has no script, for a token that was never made.
        page.evaluate("""(action) => {
          const form = Object.assign(document.createElement("form"), {method: "post", action});
          form.innerHTML = '<input name="until" value="60"><input name="reason" value="typed">';
          document.body.append(form);
          form.submit();
        }""", site.url("/queues/emails/pause"))  # fmt: skip
        expect(page.get_by_role("button", name="Send again")).to_be_visible()
        assert violations(page) == []


def test_the_find_box_leads_to_what_is_printed_and_lists_what_is_alike(either: Page, site: Site) -> None:
    either.goto(site.url("/jobs?status=dead"))
    printed = either.locator("tbody code").first
    whole = printed.get_attribute("title")
    box = either.get_by_role("searchbox")
    box.fill(printed.inner_text())
    box.press("Enter")
    either.wait_for_url(f"**/jobs/{whole}")
    either.get_by_role("searchbox").fill("email")
    either.get_by_role("searchbox").press("Enter")
    expect(either.get_by_role("heading", name=re.compile("Job types"))).to_be_visible()
    either.get_by_role("link", name="emails", exact=True).click()
    either.wait_for_url("**/queues/emails")
