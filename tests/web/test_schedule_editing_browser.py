"""A schedule made and changed in a real browser, with scripts and without."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect
from served_site import Site


def test_a_schedule_is_made_found_in_the_list_and_changed(either: Page, site: Site) -> None:
    either.goto(site.url("/recurring"))
    either.get_by_role("link", name="New schedule").click()
    either.get_by_label("Name", exact=True).fill("weekly-news")
    either.get_by_label("Job", exact=True).fill("send-email")
    either.get_by_label("When", exact=True).fill("0 3 30 2 *")
    either.get_by_role("button", name="Create schedule").click()
    expect(either.get_by_role("alert")).to_contain_text("1 field needs a change.")
    expect(either.get_by_label("Name", exact=True)).to_have_value("weekly-news")
    either.get_by_label("When", exact=True).fill("0 7 * * 1")
    either.get_by_role("button", name="Preview").click()
    expect(either.locator("#fires")).to_contain_text("At 07:00 on Monday")
    either.get_by_role("button", name="Create schedule").click()
    expect(either.locator("#flash")).to_contain_text("weekly-news created.")
    either.goto(site.url("/recurring"))
    row = either.get_by_role("row", name=re.compile("^weekly-news"))
    expect(row).to_contain_text("At 07:00 on Monday")
    row.get_by_role("link", name="weekly-news", exact=True).click()
    either.get_by_role("link", name="Edit", exact=True).click()
    either.get_by_label("Kind").select_option("At an interval")
    either.get_by_label("When", exact=True).fill("2h")
    either.get_by_role("button", name="Save").last.click()
    expect(either.locator("#flash")).to_contain_text("weekly-news changed.")
    assert site.jobs.admin.get_recurring("weekly-news").every == 7200


def test_the_next_fires_follow_what_is_typed_and_leave_the_focus_alone(page: Page, site: Site) -> None:
    page.goto(site.url("/new-schedule"))
    page.get_by_label("Name", exact=True).fill("weekly-news")
    page.get_by_label("Job", exact=True).fill("nobody")
    page.get_by_label("When", exact=True).fill("*/15 * * * *")
    expect(page.locator("#fires")).to_contain_text("Every 15 minutes")
    page.get_by_role("button", name="Create schedule").click()
    expect(page.get_by_label("Job", exact=True)).to_be_focused()
    when = page.get_by_label("When", exact=True)
    when.fill("0 7 * * 1")
    expect(page.locator("#fires")).to_contain_text("At 07:00 on Monday")
    expect(when).to_be_focused()
