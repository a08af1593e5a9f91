"""Selecting, sorting and filtering jobs in a real browser."""

from __future__ import annotations

import re

import pytest
from accessibility import checkable, violations
from playwright.sync_api import Browser, Locator, Page, expect
from served_site import Site

_LINED_UP = """table => {
  const shown = row => [...row.cells].filter(cell => getComputedStyle(cell).display !== "none");
  const [head, body] = [table.tHead.rows[0], table.tBodies[0].rows[0]].map(shown);
  return head.length === body.length && head.every((cell, place) =>
    Math.abs(cell.getBoundingClientRect().left - body[place].getBoundingClientRect().left) < 1);
}"""


def boxes(page: Page) -> Locator:
    return page.locator("tbody input[name=id]")


def expect_checked(page: Page, places: range | tuple[int, ...]) -> None:
    for place in range(boxes(page).count()):
        expect(boxes(page).nth(place)).to_be_checked(checked=place in places)


def test_a_page_of_rows_is_selected_and_cleared_at_once(page: Page, site: Site) -> None:
    page.goto(site.url("/jobs?status=dead"))
    whole = page.get_by_role("checkbox", name="Select all jobs on this page")
    number = boxes(page).count()
    whole.check()
    expect_checked(page, range(number))
    expect(page.locator("[data-selected]")).to_have_text(f"{number} selected")
    boxes(page).first.uncheck()
    expect(page.locator("[data-selected]")).to_have_text(f"{number - 1} selected")
    assert whole.evaluate("box => box.indeterminate")
    page.get_by_role("button", name="Clear").click()
    expect_checked(page, ())
    expect(whole).not_to_be_checked()
    assert not whole.evaluate("box => box.indeterminate")
    expect(page.locator(".bulk")).to_be_hidden()
    whole.check()
    whole.uncheck()
    expect_checked(page, ())


def test_a_range_is_selected_with_shift_by_mouse_and_by_keyboard(page: Page, site: Site) -> None:
    page.goto(site.url("/jobs?status=dead"))
    boxes(page).nth(1).click()
    boxes(page).nth(4).click(modifiers=["Shift"])
    expect_checked(page, range(1, 5))
    expect(page.locator("[data-selected]")).to_have_text("4 selected")
    boxes(page).nth(2).click(modifiers=["Shift"])
    expect_checked(page, (1,))
    page.get_by_role("button", name="Clear").click()
    page.locator("tbody th a").nth(2).focus()
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Shift+X")
    expect_checked(page, range(2, 6))
    expect(page.locator("[data-selected]")).to_have_text("4 selected")


def test_what_matches_is_said_and_not_kept_after_the_selection(page: Page, site: Site) -> None:
    page.goto(site.url("/jobs?status=dead"))
    boxes(page).first.check()
    page.get_by_label("all that match, 10,000 at most").check()
    expect(page.locator("[data-selected]")).to_have_text("All that match")
    boxes(page).first.uncheck()
    expect(page.locator("[name=matching]")).not_to_be_checked()


def test_all_that_match_are_commanded_after_a_preview(either: Page, site: Site) -> None:
    dead = len(site.jobs.admin.list_jobs("dead", queue="invoices"))
    either.goto(site.url("/jobs?status=dead&queue=invoices"))
    boxes(either).first.check()
    either.get_by_label("all that match").check()
    either.get_by_role("button", name="Delete…").click()
    expect(either.get_by_role("heading", name=f"Delete {dead} jobs?")).to_be_visible()


def test_without_scripts_there_is_no_box_that_does_nothing(plain_page: Page, site: Site) -> None:
    plain_page.goto(site.url("/jobs?status=dead"))
    expect(plain_page.locator("thead input")).to_be_hidden()
    boxes(plain_page).nth(1).check()
    expect(plain_page.get_by_role("button", name="Retry…")).to_be_visible()


def test_the_box_for_the_page_is_there_after_an_update(page: Page, site: Site) -> None:
    page.goto(site.url("/jobs?status=dead"))
    before = boxes(page).count()
    site.jobs.admin.delete(site.jobs.admin.list_jobs("dead")[0].id)
    expect(page.locator("tbody tr.left")).to_have_count(1, timeout=60_000)
    page.get_by_role("checkbox", name="Select all jobs on this page").check()
    expect(page.locator("[data-selected]")).to_have_text(f"{before - 1} selected")


@pytest.mark.parametrize("width", [390, 700, 1024, 1366, 1920])
def test_headers_and_cells_line_up(browser: Browser, site: Site, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800})
    page = site.watch(context)
    for path in ("/jobs", "/jobs?status=scheduled", "/queues/emails"):
        page.goto(site.url(path))
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        if width > 640:
            assert page.locator("table:has([data-row])").evaluate(_LINED_UP), path
        expect(page.locator("tbody bdi").first).to_be_visible()
    context.close()


def test_a_phone_selects_the_page_in_the_bar(browser: Browser, site: Site) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = site.watch(context)
    page.goto(site.url("/jobs?status=dead"))
    expect(page.locator("thead input")).to_be_hidden()
    boxes(page).first.check()
    number = boxes(page).count()
    page.get_by_role("button", name=f"Select all {number}").click()
    expect_checked(page, range(number))
    context.close()


def test_an_odd_filter_is_refused_beside_its_field_and_can_be_mended(either: Page, site: Site) -> None:
    either.goto(site.url("/jobs?status=dead"))
    either.get_by_label("Name", exact=True).fill("x" * 200)
    either.get_by_role("button", name="Apply").click()
    field = either.get_by_label("Name", exact=True)
    expect(field).to_have_value("x" * 200)
    expect(field).to_have_accessible_description("Must have at most 128 characters, this has 200.")
    field.fill("send-email")
    either.get_by_role("button", name="Apply").click()
    expect(either).to_have_title(re.compile("^Dead send-email jobs"))
    expect(boxes(either).first).to_be_visible()


def test_a_part_of_a_name_leads_to_the_name(either: Page, site: Site) -> None:
    either.goto(site.url("/jobs"))
    either.get_by_label("Name", exact=True).fill("email")
    either.get_by_role("button", name="Apply").click()
    expect(either.get_by_role("heading", name="No jobs match these filters.")).to_be_visible()
    either.get_by_role("link", name="send-email", exact=True).click()
    expect(either).to_have_title(re.compile("^send-email jobs"))
    expect(boxes(either).first).to_be_visible()


def test_a_list_is_sorted_the_other_way_by_its_header(either: Page, site: Site) -> None:
    either.goto(site.url("/jobs?status=scheduled"))
    runs = either.get_by_role("columnheader", name="Runs")
    assert runs.get_attribute("aria-sort") is None
    runs.get_by_role("link").click()
    expect(runs).to_have_attribute("aria-sort", "ascending")
    assert either.get_by_role("columnheader", name="Created").get_attribute("aria-sort") is None
    runs.get_by_role("link").click()
    expect(runs).to_have_attribute("aria-sort", "descending")


def test_a_list_has_no_accessibility_violation(browser: Browser, site: Site) -> None:
    with checkable(browser, site) as page:
        for path in ("/jobs?status=dead", "/jobs?name=email", "/jobs?created_from=x&range=1h"):
            page.goto(site.url(path))
            if boxes(page).count():
                boxes(page).first.check()
            assert violations(page) == [], path
