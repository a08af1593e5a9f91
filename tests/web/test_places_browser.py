"""Queues, workers and schedules in a browser: forms that fail in place, and tables at every width."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect
from served_site import Site
from table_layout import broken_words, misplaced, overflow

from sloppyjobs import Jobs
from sloppyjobs.domain.model import WorkerInfo

WIDTHS = (700, 1024, 1366, 1920)
PHONE = 390
PATHS = (
    "/queues",
    "/queues/media",
    "/workers",
    "/recurring",
    "/recurring/nightly-rollup",
    "/locks",
    "/limits",
    "/archive",
    "/alerts",
    "/workflows",
    "/batches",
)


def _people(jobs: Jobs) -> None:
    """A paused queue, and workers with something to run."""
    jobs.admin.pause_queue("emails", datetime.now(UTC) + timedelta(hours=2), actor="ada", reason="mail limit")
    for id, queues in (("app-2:3380", ("media", "emails")), ("worker_01kmjm000000000000000exr1z", ("*",))):
        jobs.storage.workers.register(
            WorkerInfo(
                id=id, hostname="app-2", pid=3380, queues=queues, names=("resize-image",), concurrency=8,
                heartbeat=600.0, version="2.4.0", running=2,
            )
        )  # fmt: skip


def test_a_form_that_was_done_is_empty_again_and_a_refusal_takes_its_message_away(either: Page, site: Site) -> None:
    either.goto(site.url("/limits"))
    for name, at_once in (("sms", "3"), ("faxes", "0")):
        either.get_by_text("New limit").click()
        form = either.locator("#new-limit form")
        expect(form.locator("[name=name]")).to_have_value("")
        expect(form.locator("[name=concurrency]")).to_have_value("")
        form.locator("[name=name]").fill(name)
        form.locator("[name=concurrency]").fill(at_once)
        form.get_by_role("button", name="Save").click()
        if name == "sms":
            expect(either.locator("#flash")).to_contain_text("sms is limited: 3 at once.")
    expect(form.locator("[name=concurrency]")).to_have_attribute("aria-invalid", "true")
    expect(form.locator("[name=name]")).to_have_value("faxes")
    expect(either.locator("#flash")).to_be_empty()


@pytest.mark.parametrize("path", ["/queues", "/queues/emails"])
def test_a_pause_until_the_past_is_refused_in_its_form_and_can_be_mended(either: Page, site: Site, path: str) -> None:
    either.goto(site.url(path))
    either.get_by_label("Pause emails").first.click()
    form = either.locator("details[open]", has=either.get_by_role("button", name="Pause emails"))
    form.locator("[name=until_at]").fill("2001-01-01T00:00")
    form.locator("[name=reason]").fill("relay maintenance")
    form.get_by_role("button", name="Pause emails").click()
    expect(form.get_by_text("Choose a time in the future.")).to_be_visible()
    expect(form.locator("[name=until_at]")).to_have_attribute("aria-invalid", "true")
    expect(form.locator("[name=until_at]")).to_have_value("2001-01-01T00:00")
    expect(form.locator("[name=reason]")).to_have_value("relay maintenance")
    assert not site.jobs.admin.get_queue("emails").paused
    form.locator("[name=until_at]").fill("2999-01-01T00:00")
    form.get_by_role("button", name="Pause emails").click()
    expect(either.locator("#flash")).to_contain_text("emails paused until")
    expect(either.locator("#flash")).to_contain_text("Running jobs will finish.")
    assert site.jobs.admin.get_queue("emails").pause_reason == "relay maintenance"


def test_ageing_that_is_refused_in_its_form_can_be_mended(either: Page, site: Site) -> None:
    either.goto(site.url("/queues/emails"))
    either.get_by_label("Change the priorities of emails").click()
    form = either.locator("#ageing")
    form.get_by_label("Rise by one every").fill("often")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_text("Write seconds, such as 60.")).to_be_visible()
    expect(form.get_by_label("Rise by one every")).to_have_value("often")
    form.get_by_label("Rise by one every").fill("60")
    form.get_by_role("button", name="Save").click()
    expect(either.locator("#flash")).to_contain_text("emails: Priorities rise by one every 60 s, by 10 at most.")
    assert site.jobs.admin.queue_ageing("emails") == (60.0, 10)


@pytest.mark.parametrize("label", ["Change the priorities of emails", "Pause emails"])
def test_forms_of_a_queue_lie_within_the_screen_of_a_phone(page: Page, site: Site, label: str) -> None:
    page.set_viewport_size({"width": PHONE, "height": 844})
    page.goto(site.url("/queues/emails"))
    page.get_by_label(label).first.click()
    box = page.locator("details.pop[open] > form").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE


def test_a_triggered_schedule_leads_to_its_job(either: Page, site: Site) -> None:
    either.goto(site.url("/recurring"))
    either.get_by_role("link", name="Trigger nightly-rollup").click()
    either.get_by_role("button", name="Trigger one job").click()
    either.locator("#flash").get_by_role("link", name=re.compile("^Triggered: job_")).click()
    newest = site.jobs.admin.list_jobs(schedule="nightly-rollup", page_size=1)[0].id
    expect(either).to_have_url(re.compile(f"/jobs/{newest}$"))


@pytest.mark.parametrize("path", PATHS)
def test_headers_and_cells_line_up_at_every_width(page: Page, site: Site, path: str) -> None:
    _people(site.jobs)
    page.goto(site.url(path))
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert misplaced(page) == [], width
        assert broken_words(page) == [], width
        assert overflow(page) <= 0, width
    page.set_viewport_size({"width": PHONE, "height": 900})
    assert broken_words(page) == []
    assert overflow(page) <= 0


def test_the_last_runs_are_read_aloud_in_words(page: Page, site: Site) -> None:
    page.goto(site.url("/recurring"))
    runs = page.get_by_role("list", name=re.compile("^Last 1 runs of nightly-rollup")).get_by_role("listitem")
    expect(runs).to_have_count(1)
    expect(runs).to_contain_text(re.compile("queued, triggered by hand"))
