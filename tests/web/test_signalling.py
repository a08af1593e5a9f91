"""Steps on a job's page, and signals by its form, by the API and by the command line."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import pytest
import scene
from accessibility import checkable, violations
from flask import Flask
from hosts import PREFIX, Client
from playwright.sync_api import Browser, Page, expect
from served_site import Site

from sloppyjobs import Jobs

BEARER = {"Authorization": "Bearer t0k3n"}


@pytest.fixture
def waiting(played: Jobs) -> str:
    """A job that waits for the signal ``approved``."""
    return scene.suspend(played)[0]


def _words(page: str) -> str:
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)))


def test_a_page_shows_the_steps_of_its_job(admin: Client, waiting: str) -> None:
    page = admin.get(f"/jobs/{waiting}").text
    words = _words(page)
    assert "3 done, 1 waiting" in words
    assert re.search(r"load-order step, .* Done 1 ", words)
    assert "waiting for the signal 'approved'" in words
    assert "Suspended" in words
    assert scene.SECRET not in page
    assert f'action="{PREFIX}/jobs/{waiting}/signal"' in page
    assert 'value="approved"' in page


def test_a_plain_job_has_neither_steps_nor_the_form(admin: Client, played: Jobs) -> None:
    dead = played.admin.list_jobs("dead", name="send-email")[0].id
    page = admin.get(f"/jobs/{dead}").text
    assert 'id="steps"' not in page
    assert "/signal" not in page


def test_a_signal_is_sent_from_the_page(admin: Client, played: Jobs, waiting: str) -> None:
    sent = {"name": "approved", "value": '{"by": "ada"}', "reason": "by phone"}
    assert admin.post(f"/jobs/{waiting}/signal", sent).status_code == 303
    assert "Signal approved sent." in admin.get(f"/jobs/{waiting}").text
    assert played.get(waiting).status == "queued"
    assert admin.post(f"/jobs/{waiting}/signal", sent).status_code == 303
    assert "the first one wins" in admin.get(f"/jobs/{waiting}").text
    words = _words(admin.get("/audit?action=signal").text)
    assert "Sent a signal to" in words
    assert "it is called approved" in words


def test_a_signal_that_is_refused_stays_in_its_field(admin: Client, played: Jobs, waiting: str) -> None:
    for value in ('{"by": "ada",}', '{"a": "\\u0000"}'):
        page = admin.post(f"/jobs/{waiting}/signal", {"name": "approved", "value": value, "reason": "why"})
        assert page.status_code == 422, value
        assert 'aria-describedby="signal-value-error"' in page.text
        assert html.escape(value).replace("&quot;", "&#34;") in page.text
    page = admin.post(f"/jobs/{waiting}/signal", {"name": " ", "value": "1"})
    assert (page.status_code, 'aria-describedby="signal-name-error"' in page.text) == (422, True)
    assert played.get(waiting).status == "waiting"
    played.admin.cancel(waiting)
    admin.post(f"/jobs/{waiting}/signal", {"name": "approved", "value": "1"})
    assert "It was cancelled, so it can't be signalled." in _words(admin.get(f"/jobs/{waiting}").text)


def test_who_may_not_signal_has_no_form(as_role: Callable[[str | None], Client], waiting: str) -> None:
    page = as_role("viewer").get(f"/jobs/{waiting}").text
    assert 'id="steps"' in page
    assert "/signal" not in page
    assert as_role("viewer").post(f"/jobs/{waiting}/signal", {"name": "approved"}).status_code == 403
    assert as_role("emails").post(f"/jobs/{waiting}/signal", {"name": "approved"}).status_code in (403, 404)


def test_the_api_shows_steps_and_sends_signals(app: Flask, played: Jobs, waiting: str) -> None:
    api, address = app.test_client(), f"{PREFIX}/api/v1/jobs/{waiting}"
    steps = api.get(f"{address}/steps", headers=BEARER)
    assert steps.json is not None
    assert [one["name"] for one in steps.json["items"]] == ["load-order", "check-fraud", "cool-down", "approved"]
    assert scene.SECRET not in steps.text
    for body, status in (({}, 400), ({"name": "approved", "payload": "\0"}, 400)):
        assert api.post(f"{address}/signal", headers=BEARER, json=body).status_code == status, body
    answers = [
        api.post(
            f"{address}/signal", headers=BEARER, json={"name": "approved", "payload": {"by": "ci"}, "reason": "ci"}
        )
        for _ in range(2)
    ]
    assert [answer.json for answer in answers] == [{"accepted": True}, {"accepted": False}]
    entry = played.admin.audit(waiting)[0]
    assert (entry.action, entry.actor, entry.reason) == ("signal", "api token", "ci")
    played.admin.cancel(waiting)
    assert api.post(f"{address}/signal", headers=BEARER, json={"name": "late"}).status_code == 409
    assert api.post(f"{address}/signal", json={"name": "late"}).status_code == 401


def test_a_signal_in_a_browser(either: Page, site: Site, played: Jobs, waiting: str) -> None:
    either.goto(site.url(f"/jobs/{waiting}"))
    either.get_by_label("Value, as JSON").fill('{"by": "ada",}')
    either.get_by_role("button", name="Send the signal").click()
    expect(either.locator("#signal-value-error")).to_contain_text("Nothing was sent")
    expect(either.get_by_label("Value, as JSON")).to_have_value('{"by": "ada",}')
    either.get_by_label("Value, as JSON").fill('{"by": "ada"}')
    either.get_by_role("button", name="Send the signal").click()
    expect(either.locator("body")).to_contain_text("Signal approved sent.")
    assert played.get(waiting).status == "queued"


def test_the_page_has_no_accessibility_violation(browser: Browser, site: Site, played: Jobs) -> None:
    with checkable(browser, site) as page:
        for id in scene.suspend(played):
            page.goto(site.url(f"/jobs/{id}"))
            assert violations(page) == []


def test_the_page_fits_a_phone(browser: Browser, site: Site, played: Jobs, waiting: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = site.watch(context)
    page.goto(site.url(f"/jobs/{waiting}"))
    expect(page.locator("#steps")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()
