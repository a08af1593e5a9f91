"""An operator's day in a real browser: with scripts and without, by keyboard, narrow, light and dark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import scene
from accessibility import checkable, violations
from every_page import EVERY_PAGE
from flask import Flask
from hosts import PREFIX
from playwright.sync_api import Browser, Page, expect
from served_site import Site, served
from sqlalchemy.exc import OperationalError

import webui
from sloppyjobs import Jobs
from sloppyjobs.admin import Admin

PAGES = (*EVERY_PAGE.values(), "/workflows?name=none", "/batches?status=running", "/archive?key=none", "/nope",
         "/jobs?name=nobody")  # fmt: skip


def test_find_a_dead_job_read_why_retry_it_and_watch_it_succeed(page: Page, site: Site) -> None:
    page.goto(site.url("/"))
    page.get_by_role("link", name=re.compile("dead jobs")).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("dead, 2 causes")
    page.get_by_role("link", name="render-invoice-pdf", exact=True).click()
    expect(page.get_by_text("It is dead: attempt 1 of 1 failed").first).to_be_visible()
    expect(page.get_by_text("'due_date' is undefined").first).to_be_visible()
    address = page.url
    site.jobs.definitions.require("render-invoice-pdf").handler = lambda ctx, payload: {"pages": 3}
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("status")).to_contain_text("Queued again")
    expect(page.locator("h1 .st")).to_have_text("Queued")
    site.jobs.create_worker(recurring=False).run_once()
    expect(page.locator("h1 .st")).to_have_text("Succeeded", timeout=60_000)
    assert page.url == address, "nothing was reloaded"
    expect(page.get_by_text("pages", exact=True)).to_be_visible()


def test_retry_a_dead_job(either: Page, site: Site) -> None:
    either.goto(site.fill("/jobs/{dead}"))
    either.get_by_role("button", name="Retry").click()
    expect(either.locator("#flash")).to_contain_text("Queued again")
    expect(either.locator("h1 .st")).to_have_text("Queued")


def test_delete_a_job_after_being_asked(either: Page, site: Site) -> None:
    either.goto(site.fill("/jobs/{dead}"))
    either.get_by_role("link", name="Delete…").click()
    # Not that of the form which changes the payload, which is closed.
    either.get_by_label("Reason").locator("visible=true").fill("not wanted")
    either.get_by_role("button", name="Delete the job").click()
    expect(either.locator("#flash")).to_contain_text("Deleted")
    expect(either.locator("h1 .st")).to_have_text("Deleted")
    assert site.jobs.admin.audit()[0].reason == "not wanted"


def test_bulk_with_preview(either: Page, site: Site) -> None:
    either.goto(site.url("/jobs?status=dead"))
    boxes = either.locator("tbody input[type=checkbox]")
    for number in range(3):
        boxes.nth(number).check()
    either.get_by_role("button", name="Retry…").click()
    expect(either.get_by_role("heading", name="Retry 3 jobs?")).to_be_visible()
    either.get_by_role("button", name="Retry 3 jobs").click()
    expect(either.locator("#flash")).to_contain_text("3 retried")
    assert len(site.jobs.admin.list_jobs("queued", name="send-email")) + len(
        site.jobs.admin.list_jobs("queued", name="render-invoice-pdf")
    ) == 3  # fmt: skip


def test_a_large_bulk_goes_on_by_itself_or_by_a_button(
    request: pytest.FixtureRequest, either: Page, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webui.views.bulk.AT_ONCE", 2)
    either.goto(site.url("/jobs?status=dead"))
    boxes = either.locator("tbody input[type=checkbox]")
    for number in range(5):
        boxes.nth(number).check()
    either.get_by_role("button", name="Retry…").click()
    either.get_by_role("button", name="Retry 5 jobs").click()
    if "no scripts" in request.node.name:
        expect(either.get_by_role("status")).to_contain_text("2 of 5 jobs so far: 2 retried.")
        either.get_by_role("button", name="Continue").click()
        expect(either.get_by_role("status")).to_contain_text("4 of 5 jobs so far: 4 retried.")
        either.get_by_role("button", name="Continue").click()
    expect(either.locator("#flash")).to_contain_text("5 retried")
    expect(either.get_by_role("heading", level=1)).to_have_text("Jobs")


def test_a_canary_then_the_cause(either: Page, site: Site) -> None:
    either.goto(site.url("/dead"))
    cause = either.locator(".cause").first
    cause.get_by_label("A few first:").fill("2")
    cause.get_by_role("button", name="Retry canary").click()
    expect(either.locator("#flash")).to_contain_text("2 retried.")
    site.jobs.create_worker(recurring=False).run_until_idle()
    either.reload()
    either.get_by_role("link", name=re.compile("Retry all")).click()
    either.get_by_role("button", name=re.compile("Retry \\d+ jobs")).click()
    expect(either.locator("#flash")).to_contain_text("retried.")
    either.goto(site.url("/dead"))
    expect(either.get_by_role("heading", level=1)).to_contain_text("1 cause")


def test_pause_a_queue_and_resume_it(either: Page, site: Site) -> None:
    either.goto(site.url("/queues"))
    row = either.get_by_role("row", name=re.compile("^emails"))
    row.locator("summary").click()
    row.locator("select[name=until]").select_option("For 1 hour")
    row.get_by_role("button", name="Pause emails").click()
    expect(either.locator("#flash")).to_contain_text("emails paused until")
    expect(either.get_by_role("row", name=re.compile("^emails"))).to_contain_text("Paused until")
    assert site.jobs.admin.get_queue("emails").paused_until is not None
    either.get_by_role("button", name="Resume emails").click()
    expect(either.locator("#flash")).to_contain_text("emails resumed.")


def test_trigger_a_schedule(either: Page, site: Site) -> None:
    before = len(site.jobs.admin.list_jobs(schedule="nightly-rollup"))
    either.goto(site.url("/recurring/nightly-rollup"))
    either.get_by_role("link", name="Trigger nightly-rollup").click()
    either.get_by_role("button", name="Trigger one job").click()
    expect(either.locator("#flash")).to_contain_text("nightly-rollup triggered.")
    assert len(site.jobs.admin.list_jobs(schedule="nightly-rollup")) == before + 1


def test_theme_and_zone_are_chosen(either: Page, site: Site) -> None:
    either.goto(site.url("/queues"))
    either.locator(".top summary").click()
    either.get_by_label("Theme").select_option("Dark")
    either.get_by_label("Time zone").fill("Asia/Tokyo")
    either.get_by_role("button", name="Save").click()
    expect(either.locator("body[data-theme=dark]")).to_be_visible()
    expect(either.locator(".top summary")).to_contain_text("Asia/Tokyo")
    expect(either.get_by_role("heading", level=1)).to_have_text("Queues")


def test_a_lost_race_is_told_in_place(page: Page, site: Site) -> None:
    page.goto(site.fill("/jobs/{dead}"))
    page.evaluate("document.querySelector('#live').removeAttribute('hx-get')")
    site.jobs.admin.delete(page.url.rpartition("/")[2])
    page.get_by_role("button", name="Retry").click()
    expect(page.locator("#flash")).to_contain_text("This job changed before your action.")
    expect(page.locator("h1 .st")).to_have_text("Deleted")


def test_polling_waits_while_rows_are_selected_and_can_be_switched_off(page: Page, site: Site) -> None:
    polls: list[str] = []
    page.on("request", lambda request: polls.append(request.url) if _polls(request) else None)
    page.goto(site.url("/jobs?status=dead"))
    page.wait_for_event("requestfinished", _polls)
    page.locator("tbody input[type=checkbox]").first.check()
    polls.clear()
    page.wait_for_timeout(4_000)
    assert polls == []
    page.get_by_role("button", name="Clear").click()
    page.wait_for_event("requestfinished", _polls)
    page.get_by_role("switch", name="Live").click()
    expect(page.get_by_role("switch", name="Live")).to_have_attribute("aria-checked", "false")
    polls.clear()
    page.wait_for_timeout(4_000)
    assert polls == []


def _polls(request: Any) -> bool:
    return bool(request.headers.get("hx-request")) and not request.url.endswith("/counts")


def test_the_number_of_dead_jobs_stands_beside_the_navigation(page: Page, site: Site) -> None:
    page.goto(site.url("/locks"))
    expect(page.locator("#count-dead")).to_have_text(str(len(site.jobs.admin.list_jobs("dead"))))


def test_focus_is_kept_over_a_live_update(page: Page, site: Site) -> None:
    page.goto(site.url("/jobs?status=dead"))
    rows = page.locator("#live tbody tr")
    focused = rows.nth(2).locator("th a")
    focused.focus()
    address = focused.get_attribute("href")
    site.jobs.admin.delete(site.jobs.admin.list_jobs("dead")[0].id)
    expect(rows.first).to_contain_text("no longer in this list", timeout=60_000)
    assert page.evaluate("document.activeElement.getAttribute('href')") == address


def test_a_page_recovers_by_itself_when_the_database_is_back(
    page: Page, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_given: Any, **_options: Any) -> Any:
        raise OperationalError("SELECT 1", {}, Exception("refused"))

    with monkeypatch.context() as broken:
        broken.setattr(Admin, "list_locks", down)
        page.goto(site.url("/locks"))
        expect(page.get_by_role("heading", level=1)).to_have_text("The database does not answer")
    expect(page.get_by_role("heading", level=1)).to_have_text("Locks", timeout=60_000)


def test_keyboard_only(page: Page, site: Site) -> None:
    page.goto(site.url("/"))
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_url("**/jobs")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("tbody input[type=checkbox]").nth(1)).to_be_checked()
    expect(page.locator("[data-selected]")).to_have_text("1 selected")
    page.keyboard.press("x")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/job_*")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).not_to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("send-email")
    page.keyboard.press("Enter")
    page.wait_for_url("**/job-types/send-email")
    page.keyboard.press("g")
    page.keyboard.press("d")
    page.wait_for_url("**/dead")
    button = page.get_by_role("link", name=re.compile("Delete")).first
    button.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.press("Escape")
    expect(button).to_be_focused()


@pytest.fixture(scope="module")
def phone(browser: Browser, unchanged: Jobs) -> Iterator[tuple[Page, Site]]:
    """A narrow page that goes from place to place, and where they are."""
    context = browser.new_context(viewport={"width": 360, "height": 780})
    with served(unchanged) as site:
        yield site.watch(context), site
        context.close()


@pytest.mark.parametrize("path", PAGES)
def test_nothing_scrolls_sideways_at_360_pixels(phone: tuple[Page, Site], path: str) -> None:
    page, site = phone
    page.goto(site.fill(path))
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert site.complaints == []


@pytest.mark.parametrize("width", [360, 700, 1000, 1360])
def test_long_names_do_not_make_a_page_wider(browser: Browser, site: Site, width: int) -> None:
    names = scene.long_names(site.jobs)
    names["cause"] = next(one.cause for one in site.jobs.admin.dead_groups() if one.name == names["name"])
    context = browser.new_context(viewport={"width": width, "height": 780})
    page = site.watch(context)
    for path in ("/", "/?range=7d", "/jobs", "/jobs?name={name}&queue={queue}&correlation_id={key}", "/jobs/{dead}",
                 "/jobs/{dead}/delete", "/dead", "/dead/{cause}", "/find?q=a-very", "/queues", "/queues/{queue}",
                 "/recurring", "/recurring/{schedule}", "/recurring/{schedule}/edit",
                 "/workers", "/locks", "/limits", "/audit", "/archive", "/batches", "/workflows"):  # fmt: skip
        page.goto(site.url(path.format(**names)))
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    context.close()


def test_the_current_page_is_in_sight_in_a_narrow_navigation(browser: Browser, site: Site) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 780})
    page = site.watch(context)
    page.goto(site.url("/audit"))
    expect(page.locator(".nav [aria-current]")).to_be_in_viewport()
    context.close()


# Several, so that the processes of a run share them.
@pytest.mark.parametrize("part", range(4))
def test_no_page_has_an_accessibility_violation(browser: Browser, site: Site, part: int) -> None:
    found = {}
    with checkable(browser, site) as page:
        for path in PAGES[part::4]:
            page.goto(site.fill(path))
            found[path] = violations(page)
    assert {path: those for path, those in found.items() if those} == {}


def test_without_the_files_from_npm_the_pages_are_complete(
    browser: Browser, played: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from webui.assets import Assets

    monkeypatch.setattr(Assets, "hashed", _without_vendor(Assets.hashed))
    app = Flask("host")
    app.secret_key = "x"
    app.register_blueprint(webui.create_blueprint(played, webui.AllowAll()), url_prefix=PREFIX)
    text = app.test_client().get(f"{PREFIX}/dead").text
    assert "vendor" not in text
    assert "Retry canary" in text
    assert scene.SECRET not in text


def _without_vendor(original: Any) -> Any:
    return lambda self, name: None if name.startswith("vendor/") else original(self, name)
