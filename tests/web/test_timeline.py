"""The timeline of a job: of many attempts, those in the middle are folded."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hosts import Client, make_app
from playwright.sync_api import Page, expect
from served_site import Site

from sloppyjobs import Jobs, Retry
from webui.views.job import timeline


def _tried(jobs: Jobs, times: int) -> str:
    """A job that has used up so many attempts."""

    @jobs.define("stubborn", queue="stubborn", retry=Retry(max_attempts=times, backoff="none"))
    def fail(ctx: Any, payload: Any) -> None:
        raise LookupError("no such file")

    id = jobs.enqueue("stubborn", {}).id
    _run(jobs)
    return id


def _run(jobs: Jobs) -> None:
    jobs.create_worker(id="w", queues=("stubborn",), recurring=False).run_until_idle()


def _labels(jobs: Jobs, id: str) -> list[str]:
    return [part.label for part in timeline(jobs.admin.events(id).items)]


@pytest.mark.parametrize("times", [1, 3])
def test_a_few_attempts_are_all_shown(jobs: Jobs, times: int) -> None:
    [part] = timeline(jobs.admin.events(_tried(jobs, times)).items)
    assert part.label == ""
    assert sum(event.event_type == "claimed" for event in part.events) == times


def test_of_many_attempts_the_first_and_the_last_are_shown(jobs: Jobs) -> None:
    events = jobs.admin.events(_tried(jobs, 6)).items
    first, folded, last = timeline(events)
    assert re.fullmatch(r"Attempts 2 to 5: \d+ events", folded.label)
    assert {event.attempt_number for event in first.events} <= {None, 1}
    assert {event.attempt_number for event in last.events} == {6}
    assert [*first.events, *folded.events, *last.events] == list(events)


def test_what_somebody_did_between_attempts_is_shown(jobs: Jobs) -> None:
    id = _tried(jobs, 4)
    jobs.admin.retry(id, actor="ada", reason="mended")
    _run(jobs)
    found = timeline(jobs.admin.events(id).items)
    [(shown,)] = [part.events for part in found if any(event.actor for event in part.events)]
    assert (shown.event_type, shown.actor) == ("retried", "ada")
    assert [bool(part.label) for part in found] == [False, True, False, True, False]


def test_the_page_says_each_step_once(jobs: Jobs) -> None:
    id = _tried(jobs, 6)
    text = Client(make_app(jobs).test_client()).get(f"/jobs/{id}").text
    panel = text.partition('id="timeline"')[2].partition("</section>")[0]
    assert panel.count("<time") == len(jobs.admin.events(id).items)
    assert panel.count("<details") == 1
    assert re.search(r"<summary>Attempts 2 to 5: \d+ events</summary>", panel)


def test_what_is_folded_opens_and_stays_open_while_the_page_is_live(page: Page, site: Site) -> None:
    id = _tried(site.jobs, 6)
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(site.url(f"/jobs/{id}"))
    steps = page.locator(".fold li")
    expect(steps.first).to_be_hidden()
    page.get_by_text("Attempts 2 to 5").click()
    expect(steps.first).to_be_visible()
    site.jobs.admin.retry(id)
    expect(page.locator(".tl > li", has_text="Retried")).to_be_visible()
    expect(steps.first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
