"""The overview as an operator meets it."""

from __future__ import annotations

import re
from itertools import pairwise

from playwright.sync_api import Browser, Page, expect
from served_site import Site

from sloppyjobs.testing.conformance.admin_scenes import live_worker

PATIENT = 60_000
"""Milliseconds for what a poll brings, on a busy machine."""


def _items(page: Page) -> list[str]:
    return page.get_by_role("region", name="Needs attention").locator("li.row").all_inner_texts()


def test_without_a_worker_the_overview_says_so_first_until_one_starts(page: Page, site: Site) -> None:
    page.goto(site.url("/"))
    verdict = page.locator("#verdict")
    expect(verdict).to_contain_text(re.compile(r"No worker is running\. \d+ jobs are due\."))
    expect(verdict).to_contain_text("sloppyjobs worker")
    expect(verdict).to_be_in_viewport()
    # Once: the list below it has what else is wrong.
    assert not any("No worker is running." in item for item in _items(page))
    live_worker(site.jobs, names=("send-email",), heartbeat=600.0)
    expect(verdict).to_have_count(0, timeout=PATIENT)
    expect(page.get_by_role("region", name="Needs attention")).to_contain_text("No worker can run export-orders")


def test_what_no_worker_can_run_is_one_click_away(either: Page, site: Site) -> None:
    live_worker(site.jobs, names=("send-email",), heartbeat=600.0)
    either.goto(site.url("/"))
    either.get_by_role("link", name="No worker can run export-orders (6 queued in exports)").click()
    expect(either.locator("tbody tr")).to_have_count(6, timeout=PATIENT)
    expect(either.locator("tbody")).to_contain_text("export-orders")


def test_the_range_governs_tiles_panel_and_chart(either: Page, site: Site) -> None:
    either.goto(site.url("/"))
    tiles = either.get_by_role("region", name="Jobs by status")
    expect(tiles).to_contain_text("in 1 h")
    either.get_by_role("navigation", name="Time range").get_by_role("link", name="24 h").click()
    expect(either.get_by_role("heading", name="Last 24 hours")).to_be_visible()
    expect(tiles).to_contain_text("1 in 24 h")
    expect(tiles).not_to_contain_text("in 1 h")
    expect(either.locator(".plot svg").first).to_have_attribute("aria-label", re.compile("over the last 24 hours"))


def test_the_number_of_cancelled_jobs_is_the_number_in_its_list(either: Page, site: Site) -> None:
    site.jobs.admin.cancel(site.jobs.admin.list_jobs("queued")[0].id)
    either.goto(site.url("/"))
    tile = either.get_by_role("region", name="Jobs by status").get_by_role("link", name="Cancelled")
    expect(tile.locator("strong")).to_have_text("2")
    expect(tile).to_contain_text("2 in 1 h")
    tile.click()
    expect(either.locator("tbody tr")).to_have_count(2, timeout=PATIENT)


def test_labels_of_an_axis_never_touch(browser: Browser, site: Site) -> None:
    for width in (390, 1366):
        context = browser.new_context(viewport={"width": width, "height": 900}, java_script_enabled=False)
        page = site.watch(context)
        for span in ("24h", "7d"):
            page.goto(site.url(f"/?range={span}"))
            shown = page.locator(".plot .x li").evaluate_all(
                """items => items.filter(one => one.getClientRects().length).map(one => {
                    const range = document.createRange();
                    range.selectNodeContents(one);
                    const box = range.getBoundingClientRect();
                    return [box.left, box.right];
                })"""
            )
            assert len(shown) >= 3
            assert all(left[1] + 4 <= right[0] for left, right in pairwise(shown)), (width, span)
        context.close()
