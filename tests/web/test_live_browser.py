"""Live updates are calm: what the viewer opened, selected, scrolled or typed stays, and rows keep their places."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from served_site import Site

from sloppyjobs.domain.model import WorkerInfo

SOON = 60_000
"""Milliseconds in which an update has come, on any machine."""


def _dead(site: Site) -> str:
    return site.jobs.admin.list_jobs("dead", name="send-email")[0].id


def _register(site: Site, id: str) -> None:
    site.jobs.storage.workers.register(
        WorkerInfo(id=id, hostname=id, pid=1, queues=("*",), names=(), concurrency=1, heartbeat=600.0, version="1")
    )


def _switch(page: Page) -> Any:
    return page.get_by_role("switch")


def test_what_the_viewer_opened_or_closed_stays_so_over_an_update(page: Page, site: Site) -> None:
    id = _dead(site)
    page.goto(site.url(f"/jobs/{id}"))
    was = _disclosures(page)
    assert True in was.values()
    assert False in was.values()
    wanted = {words: not is_open for words, is_open in was.items()}
    for details in page.locator("#live details:not(.pop)").all():
        # By the summary that is its own; outer ones come first, and may hide inner ones.
        details.evaluate("details => details.querySelector('summary').click()")
    assert _disclosures(page) == wanted
    site.jobs.admin.retry(id)
    expect(page.locator("h1 .st")).to_have_text("Queued", timeout=SOON)
    now = _disclosures(page)
    assert {words: now[words] for words in wanted if words in now} == wanted
    assert now.keys() & {words for words, is_open in was.items() if is_open}


def _disclosures(page: Page) -> dict[str, bool]:
    found: dict[str, bool] = page.evaluate("""Object.fromEntries(
        [...document.querySelectorAll("#live details:not(.pop)")].map((details) =>
            [details.querySelector("summary").textContent.replace(/\\s+/g, " ").trim(), details.open]))""")
    return found


def test_an_update_waits_while_text_is_selected_and_the_switch_says_so(page: Page, site: Site) -> None:
    id = _dead(site)
    page.goto(site.url(f"/jobs/{id}"))
    page.locator("h1").evaluate("heading => document.getSelection().selectAllChildren(heading)")
    expect(_switch(page)).to_have_text("Held: text selected")
    site.jobs.admin.retry(id)
    with pytest.raises(AssertionError):
        expect(page.locator("h1 .st")).to_have_text("Queued", timeout=4_000)
    assert page.evaluate("document.getSelection().toString().trim()") != ""
    page.evaluate("document.getSelection().removeAllRanges()")
    expect(page.locator("h1 .st")).to_have_text("Queued", timeout=SOON)
    expect(_switch(page)).to_have_text("Live")


def test_what_was_scrolled_or_typed_stays_over_an_update(page: Page, site: Site) -> None:
    page.goto(site.url("/dead"))
    number = page.locator("#live input[inputmode=numeric]").first
    number.fill("3")
    number.evaluate("field => field.blur()")
    before = page.get_by_role("heading", level=1).inner_text()
    site.jobs.admin.delete(_dead(site))
    expect(page.get_by_role("heading", level=1)).not_to_have_text(before, timeout=SOON)
    expect(number).to_have_value("3")
    id = _dead(site)
    page.set_viewport_size({"width": 420, "height": 800})
    page.goto(site.url(f"/jobs/{id}"))
    part = page.locator("#live pre:visible").first
    part.evaluate("pre => pre.scrollTo(40, 0)")
    site.jobs.admin.retry(id)
    expect(page.locator("h1 .st")).to_have_text("Queued", timeout=SOON)
    assert part.evaluate("pre => pre.scrollLeft") == 40


def test_new_rows_wait_until_they_are_asked_for(page: Page, site: Site) -> None:
    page.goto(site.url("/jobs"))
    first = page.locator("#live tbody tr").first
    before = first.get_attribute("id")
    added = [site.jobs.enqueue("rollup-daily-metrics", {"day": 900 + number}).id for number in range(2)]
    pill = page.locator("a.btn.new")
    expect(pill).to_have_text("2 new", timeout=SOON)
    assert first.get_attribute("id") == before
    expect(page.locator("#said")).to_contain_text("2 new")
    pill.focus()
    page.keyboard.press("Enter")
    expect(page.locator(f"#row-{added[1]}")).to_be_visible()
    expect(pill).to_be_hidden()
    expect(page.locator("#live tbody tr").first).to_have_attribute("id", f"row-{added[1]}")
    expect(page.locator("#live tbody tr").first.locator("th a")).to_be_focused()


def test_a_row_changes_in_place_or_says_that_it_left(page: Page, site: Site) -> None:
    page.goto(site.url("/jobs?status=dead"))
    rows = page.locator("#live tbody tr")
    count, gone = rows.count(), str(rows.first.get_attribute("id"))
    places = _places(page)
    site.jobs.admin.retry(gone.removeprefix("row-"))
    expect(rows.first).to_contain_text("no longer in this list", timeout=SOON)
    assert _places(page) == pytest.approx(places, abs=1)
    page.locator("a.btn.new").click()
    expect(page.locator(f"#{gone}")).to_have_count(0)
    expect(rows).to_have_count(count - 1)


def _places(page: Page) -> list[float]:
    found: list[float] = page.evaluate(
        "[...document.querySelectorAll('#live tbody tr')].map(row => row.getBoundingClientRect().top)"
    )
    return found


def test_a_list_that_empties_stays_until_the_viewer_looks_for_the_new_one(page: Page, site: Site) -> None:
    for job in site.jobs.admin.list_jobs("paused")[1:]:
        site.jobs.admin.cancel(job.id)
    page.goto(site.url("/jobs?status=paused"))
    row = page.locator("#live tbody tr")
    site.jobs.admin.resume(str(row.get_attribute("id")).removeprefix("row-"))
    expect(row).to_contain_text("no longer in this list", timeout=SOON)
    page.get_by_role("link", name="Update the list").click()
    expect(row).to_have_count(0)


def test_rows_stay_under_the_pointer_in_a_list_without_pages(page: Page, site: Site) -> None:
    _register(site, "app-9:1")
    page.goto(site.url("/workers"))
    rows = page.locator("#live tbody tr")
    count = rows.count()
    rows.first.locator("td").last.hover()
    _register(site, "app-9:2")
    expect(page.locator("a.btn.new")).to_have_text("1 new", timeout=SOON)
    assert rows.count() == count
    page.mouse.move(2, 2)
    _register(site, "app-9:3")
    expect(rows).to_have_count(count + 2, timeout=SOON)
    expect(page.locator("a.btn.new")).to_be_hidden()


def test_the_switch_says_why_it_is_held(page: Page, site: Site) -> None:
    page.goto(site.url("/jobs?status=dead"))
    expect(_switch(page)).to_have_text("Live")
    boxes = page.locator("tbody input[type=checkbox]")
    boxes.nth(0).check()
    boxes.nth(1).check()
    expect(_switch(page)).to_have_text("Held: 2 selected")
    expect(_switch(page)).to_have_class(re.compile("paused"))
    expect(page.locator("#said")).to_have_text("Live updates: Held: 2 selected")
    page.get_by_role("button", name="Clear").click()
    expect(_switch(page)).to_have_text("Live")
    page.locator("#filter-queue").focus()
    expect(_switch(page)).to_have_text("Held: typing")
    page.locator("h1").click()
    page.keyboard.press("?")
    expect(page.locator("#live-switch button")).to_have_text("Held: dialog open")
    page.keyboard.press("Escape")
    expect(_switch(page)).to_have_text("Live")
    page.goto(site.url("/limits/payments-api"))
    page.locator("[name=concurrency]").fill("0")
    page.get_by_role("button", name="Save").last.click()
    expect(_switch(page)).to_have_text("Held: value refused")
    expect(_switch(page)).to_have_attribute("title", re.compile("^Held while a value is refused"))
    page.goto(site.url("/jobs?status=dead"))
    _switch(page).click()
    expect(_switch(page)).to_have_text("Off")
    expect(_switch(page)).to_have_attribute("aria-checked", "false")
    page.reload()
    expect(_switch(page)).to_have_text("Off")


def test_the_numbers_of_a_page_and_beside_the_navigation_agree(page: Page, site: Site) -> None:
    page.goto(site.url("/dead"))
    total = len(site.jobs.admin.list_jobs("dead"))
    for path in ("/dead", "/"):
        page.goto(site.url(path))
        expect(page.locator("#count-dead")).to_have_text(str(total))
        site.jobs.admin.delete(_dead(site))
        total -= 1
        shown = page.get_by_role("heading", level=1) if path == "/dead" else page.locator(".tiles strong.hot")
        expect(shown).to_contain_text(str(total), timeout=SOON)
        assert page.locator("#count-dead").inner_text() == str(total), path
    _register(site, "app-9:1")
    page.goto(site.url("/workers"))
    assert page.locator("#count-workers").inner_text() == "1"
    _register(site, "app-9:2")
    expect(page.locator("#live .head")).to_contain_text("2 live", timeout=SOON)
    assert page.locator("#count-workers").inner_text() == "2"


def test_the_title_of_the_tab_follows_the_page(page: Page, site: Site) -> None:
    id = _dead(site)
    page.goto(site.url(f"/jobs/{id}"))
    expect(page).to_have_title(re.compile("dead"))
    site.jobs.admin.retry(id)
    expect(page).to_have_title(re.compile("queued.* · sloppyjobs"), timeout=SOON)


def test_without_scripts_there_is_no_button_that_does_nothing(plain_page: Page, site: Site) -> None:
    plain_page.goto(site.url("/jobs"))
    for part in plain_page.locator(".js").all():
        expect(part).to_be_hidden()
    expect(plain_page.get_by_role("button", name="Keys")).to_have_count(0)
    expect(plain_page.get_by_role("switch")).to_have_count(0)
