"""The audit trail in a browser: values under their headers, whole words, sentences with links."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from playwright.sync_api import Page, expect
from served_site import Site
from table_layout import broken_words, misplaced, overflow

from sloppyjobs import Jobs

WIDTHS = (700, 1024, 1199, 1366, 1920)
PHONE = 390


def _busy_trail(jobs: Jobs) -> None:
    """Entries with and without details and reasons, on one job and on many."""
    ids = [job.id for job in jobs.admin.list_jobs("dead")]
    jobs.admin.bulk("retry", {"ids": ids[:5]}, actor="demo", reason="the relay is back, canary first")
    jobs.admin.bulk("delete", {"status": "cancelled", "queue": "emails"}, actor="demo")
    jobs.admin.pause_queue("emails", datetime.now(UTC) + timedelta(hours=2), actor="demo", reason="mail limit")
    jobs.admin.resume_queue("emails", actor="demo")
    jobs.admin.cleanup(limit=3, ages={"succeeded": 0}, actor="nightly clean-up")


def test_values_stand_under_their_headers_at_every_width(page: Page, site: Site) -> None:
    _busy_trail(site.jobs)
    page.goto(site.url("/audit"))
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert misplaced(page) == [], width
        assert overflow(page) <= 0, width


def test_no_word_breaks_inside(page: Page, site: Site) -> None:
    _busy_trail(site.jobs)
    page.goto(site.url("/audit"))
    for width in (PHONE, *WIDTHS):
        page.set_viewport_size({"width": width, "height": 900})
        assert broken_words(page) == [], width


def test_entries_are_sentences_whose_targets_are_links(either: Page, site: Site) -> None:
    _busy_trail(site.jobs)
    either.goto(site.url("/audit"))
    row = either.get_by_role("row", name=re.compile("^Retried 5 jobs"))
    expect(row).to_contain_text("and 2 more")
    row.get_by_role("link", name=re.compile("^job_")).first.click()
    expect(either).to_have_url(re.compile("/jobs/job_"))
    either.go_back()
    either.get_by_role("row", name=re.compile("^Paused the queue emails until")).get_by_role("link").first.click()
    expect(either.get_by_role("heading", level=1)).to_contain_text("emails")


def test_the_trail_is_narrowed_by_action_and_the_filters_stay_filled_in(either: Page, site: Site) -> None:
    _busy_trail(site.jobs)
    either.goto(site.url("/audit"))
    either.locator("[name=action]").select_option("Paused a queue")
    either.locator("[name=range]").select_option("Last hour")
    either.get_by_role("button", name="Apply").click()
    expect(either.get_by_role("row", name=re.compile("^Paused the queue"))).to_have_count(2)
    expect(either.get_by_role("row")).to_have_count(3)
    expect(either.locator("[name=action]")).to_have_value("pause_queue")
    either.get_by_role("link", name="Remove filters").click()
    expect(either.get_by_role("row", name=re.compile("^Retried 5 jobs"))).to_have_count(1)
