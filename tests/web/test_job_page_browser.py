"""A job's page in a real browser, with scripts and without."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Browser, Page, expect
from served_site import Site

from sloppyjobs import Retry

NARROW = {"width": 390, "height": 844}


def died_early(site: Site) -> str:
    """A job that died on the first of three attempts."""

    @site.jobs.define("import-orders", retry=Retry(max_attempts=3, give_up_on=ValueError))
    def import_orders(ctx: Any, payload: Any) -> None:
        raise ValueError("no such customer")

    id = site.jobs.enqueue("import-orders", {"page": 1}).id
    site.jobs.create_worker(recurring=False).run_once()
    return site.url(f"/jobs/{id}")


def test_the_page_says_why_a_job_was_not_tried_again(either: Page, site: Site) -> None:
    either.goto(died_early(site))
    expect(either).to_have_title(re.compile("^import-orders, dead"))
    verdict = either.locator(".why")
    expect(verdict).to_contain_text("It died on attempt 1 of 3: ValueError is not retried by this job's retry policy.")
    expect(verdict).to_contain_text("Retry queues it now as attempt 2, with its full number of attempts again.")


def test_the_verdict_follows_the_chosen_zone(either: Page, site: Site) -> None:
    job = site.jobs.admin.list_jobs("scheduled", name="send-email")[0]
    either.goto(site.url(f"/jobs/{job.id}"))
    expect(either.locator(".why")).to_contain_text("UTC")
    either.locator(".top summary").click()
    either.get_by_label("Time zone").fill("Asia/Tokyo")
    either.get_by_role("button", name="Save").click()
    expect(either.locator(".top summary")).to_contain_text("Asia/Tokyo")
    either.goto(site.url(f"/jobs/{job.id}"))
    expect(either.locator(".why")).to_contain_text(re.compile(r"at .*\d\d:\d\d:\d\d JST"))
    expect(either.locator(".why")).not_to_contain_text("UTC")


def test_a_cancelled_job_shows_the_reason_and_no_error(either: Page, site: Site) -> None:
    either.goto(site.fill("/jobs/{running}"))
    either.get_by_role("link", name="Cancel…").click()
    either.get_by_label("Reason").fill("superseded")
    either.get_by_role("button", name="Cancel the job").click()
    expect(either.locator("#flash")).to_contain_text("Cancelled.")
    expect(either.locator(".why")).to_contain_text(re.compile("Cancelled by .* at .*: superseded."))
    expect(either.locator("tbody .sub").first).to_have_text("superseded")
    expect(either.get_by_text("Error of attempt")).to_have_count(0)


def test_the_schedule_that_made_a_job_is_a_click_away(either: Page, site: Site) -> None:
    job = site.jobs.admin.list_jobs(schedule="nightly-rollup")[0]
    either.goto(site.url(f"/jobs/{job.id}"))
    related = either.get_by_role("region", name="Related")
    expect(related).to_contain_text(re.compile(r"Made by\s+nightly-rollup"))
    related.get_by_role("link", name="View all jobs of this schedule").click()
    expect(either.locator("tbody a").first).to_be_visible()
    either.go_back()
    either.get_by_role("region", name="Related").get_by_role("link", name="nightly-rollup").click()
    expect(either.get_by_role("heading", level=1)).to_contain_text("nightly-rollup")


def test_headers_and_cells_agree_at_every_width(plain_page: Page, site: Site) -> None:
    plain_page.goto(site.fill("/jobs/{dead}"))
    attempts = plain_page.get_by_role("region", name="Attempts")
    expect(attempts.get_by_role("columnheader", name="Duration", exact=True)).to_be_visible()
    plain_page.set_viewport_size(NARROW)
    cells = attempts.locator("tbody tr").first.locator("td, th")
    shown = cells.evaluate_all("all => all.map(one => getComputedStyle(one, '::before').content)")
    assert shown.count('"Duration"') == 1
    assert '"Seconds"' not in shown
    # What has no label is not shown among labelled cells.
    expect(attempts.locator("td.dur").first).to_be_hidden()
    took = attempts.locator("tbody tr").first.locator("[data-l=Duration]")
    expect(took).to_have_text(re.compile(r"\d (ms|s)$"))


def test_the_bar_of_a_retried_job_has_no_blank(plain_page: Page, site: Site) -> None:
    address = died_early(site)
    id = address.rpartition("/")[2]
    site.jobs.admin.retry(id, actor="ada")
    site.jobs.create_worker(recurring=False).run_once()
    plain_page.goto(address)
    expect(plain_page.get_by_role("img", name=re.compile("Time in each state: .*dead"))).to_be_visible()
    whole = plain_page.locator("svg.bar.tall")
    boxes = whole.locator("rect").evaluate_all(
        "all => all.map(one => [one.getBoundingClientRect().left, one.getBoundingClientRect().right])"
    )
    box = whole.bounding_box()
    assert box is not None
    edges = [box["x"], *(right for _, right in boxes)]
    starts = [*(left for left, _ in boxes), box["x"] + box["width"]]
    assert len(boxes) >= 3
    for end, start in zip(edges, starts, strict=True):
        assert abs(start - end) < 0.02 * box["width"]


def test_the_id_is_copied_and_that_is_announced(browser: Browser, site: Site) -> None:
    context = browser.new_context()
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = site.watch(context)
    page.goto(site.fill("/jobs/{dead}"))
    id = page.locator(".head code").inner_text()
    page.get_by_role("button", name="Copy id").click()
    expect(page.locator("[aria-live]", has_text=f"Copied {id}")).to_have_count(1)
    assert page.evaluate("navigator.clipboard.readText()") == id
    context.close()


def test_the_id_is_copied_where_there_is_no_clipboard_to_write_to(browser: Browser, site: Site) -> None:
    context = browser.new_context()
    page = site.watch(context)
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.goto(site.fill("/jobs/{dead}"))
    page.evaluate("document.addEventListener('copy', () => document.body.dataset.seen = getSelection().toString())")
    page.get_by_role("button", name="Copy id").click()
    expect(page.locator("[aria-live]", has_text=re.compile("opied"))).to_have_count(1)
    assert page.locator("body").get_attribute("data-seen") is not None
    context.close()


def test_without_scripts_there_is_no_copy_button(plain_page: Page, site: Site) -> None:
    plain_page.goto(site.fill("/jobs/{dead}"))
    expect(plain_page.get_by_role("button", name="Retry")).to_be_visible()
    expect(plain_page.get_by_role("button", name="Copy id")).to_have_count(0)
