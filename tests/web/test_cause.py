"""A cause of death as a place, and no action that is larger than its words."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest
import scene
from hosts import PREFIX, Client, make_app

from sloppyjobs import NO_RETRY, Jobs, storage
from sloppyjobs.storage import FakeClock
from sloppyjobs.views import DeadGroup

HTMX = {"HX-Request": "true"}
ODD = ["", "0", "-1", "5.0", "five", "1e1", "٥", "9999999999", " "]


def group_of(jobs: Jobs, name: str = "send-email") -> DeadGroup:
    return next(group for group in jobs.admin.dead_groups() if group.name == name)


def dead(jobs: Jobs, name: str = "send-email") -> int:
    return len(jobs.admin.list_jobs("dead", name=name, page_size=100))


def canary(client: Client, group: DeadGroup, count: str, **data: str) -> str:
    return unescape(client.post(f"/dead/{group.cause}/canary", {"count": count, **data}, headers=HTMX).text)


@pytest.mark.parametrize("typed", ODD)
@pytest.mark.parametrize("origin", ["dead", "cause"])
def test_an_odd_canary_is_refused_in_place_and_nothing_is_done(
    admin: Client, played: Jobs, typed: str, origin: str
) -> None:
    group = group_of(played)
    for headers in ({}, HTMX):
        answer = admin.post(f"/dead/{group.cause}/canary", {"count": typed, "from": origin}, headers=headers)
        assert answer.status_code == 422
        text = unescape(answer.text)
        assert f"Write a number from 1 to {group.count.value}." in text
        assert 'aria-invalid="true"' in text
        assert f'value="{typed}"' in text, "what was typed is kept"
        assert ("causes</h1>" in text) is (origin == "dead"), "the page that it was sent from"
    assert dead(played) == group.count.value
    assert list(played.admin.audit(group.cause)) == []


def test_a_canary_of_more_than_are_dead_is_refused(admin: Client, played: Jobs) -> None:
    group = group_of(played)
    answer = admin.post(f"/dead/{group.cause}/canary", {"count": str(group.count.value + 1)})
    assert answer.status_code == 422
    assert dead(played) == group.count.value


@pytest.mark.parametrize("typed", ODD)
def test_a_bulk_command_with_an_odd_limit_does_nothing(admin: Client, played: Jobs, typed: str) -> None:
    group = group_of(played)
    cause = {"cause": "1", "error_type": group.error_type, "error_frame": group.error_frame, "name": group.name}
    for path in ("/bulk/retry", "/bulk/delete", "/bulk/retry/preview"):
        assert admin.post(path, {**cause, "from": "dead", "limit": typed}).status_code == 422
    assert admin.get("/dead/retry", query_string={**cause, "limit": typed}).status_code == 422
    assert dead(played) == group.count.value


def test_a_selection_of_nothing_means_nothing(admin: Client, played: Jobs) -> None:
    assert admin.post("/bulk/delete/preview", {"name": "send-email", "status": "dead"}).status_code == 400
    assert admin.post("/bulk/delete", {"name": "send-email", "status": "dead", "from": "cause"}).status_code == 400


def test_a_canary_is_answered_without_a_promise(admin: Client, played: Jobs) -> None:
    group = group_of(played)
    answer = admin.post(f"/dead/{group.cause}/canary", {"count": "2", "from": "dead"})
    assert answer.headers["Location"] == f"{PREFIX}/dead/{group.cause}"
    text = unescape(admin.get(f"/dead/{group.cause}").text)
    assert '<div class="flash info">' in text
    assert "2 retried." in text
    assert "The result is shown here." in text
    assert "2 still running or waiting." in text
    assert "Retry canary" not in text, "nothing is offered until the result is known"
    assert "Retry the rest" in text
    assert "comes when all 2 are done" in text


def test_a_canary_that_died_again_says_do_not_continue(admin: Client, played: Jobs) -> None:
    group = group_of(played)
    canary(admin, group, "2")
    played.create_worker(recurring=False).run_until_idle()
    text = unescape(admin.get(f"/dead/{group.cause}").text)
    assert "2 died again." in text
    assert "Don’t continue. Fix the cause, deploy, then try another canary." in text
    assert 'class="panel why dead"' in text
    assert "All 2 died of this cause again" in " ".join(text.split())
    assert "Expect these to die too." in text
    assert text.count('<span class="tag">canary</span>') == 2
    listed = unescape(admin.get("/dead").text)
    assert "Last canary" in listed
    assert "2 died again." in listed


def test_a_canary_that_went_well_offers_the_rest(played: Jobs, admin: Client) -> None:
    group = group_of(played)
    canary(admin, group, "2")
    for claim in played.claim("w", queues=["emails"], limit=50):
        played.complete(claim, None)
    text = unescape(admin.get(f"/dead/{group.cause}").text)
    left = group.count.value - 2
    assert "2 succeeded." in text
    assert "The cause looks fixed. Retry the rest." in text
    assert 'class="panel why succeeded"' in text
    assert f"Retry the other {left}…" in text


def test_the_rest_is_asked_for_with_the_exact_number_and_a_rate(admin: Client, played: Jobs) -> None:
    group = group_of(played)
    number = group.count.value
    asked = unescape(admin.get(f"/dead/{group.cause}/rest", query_string={"rate": "60"}).text)
    assert f"Retry {number} jobs?" in asked
    assert "It stops by itself when 3 in a row die again." in asked
    assert dead(played) == number, "asking does nothing"
    for typed in ("", "0", "many", "6001"):
        refused = admin.post(f"/dead/{group.cause}/rest", {"rate": typed})
        assert refused.status_code == 422
        assert "Write a number from 1 to 6,000." in refused.text
        assert f'value="{typed}"' in refused.text
    assert played.admin.get_cause(group.cause).rest is None
    answer = admin.post(f"/dead/{group.cause}/rest", {"rate": "6000", "reason": "fixed"})
    assert answer.headers["Location"] == f"{PREFIX}/dead/{group.cause}"
    text = " ".join(unescape(admin.get(f"/dead/{group.cause}").text).split())
    assert f"0 of {number} retried, 6,000 per minute" in text
    assert "Retry canary" not in text
    again = admin.post(f"/dead/{group.cause}/rest", {"rate": "60"}, headers=HTMX)
    assert again.status_code == 409
    assert "running already" in again.text


def test_the_rest_is_stopped_by_a_button(admin: Client, played: Jobs) -> None:
    group = group_of(played)
    run = played.admin.retry_rest(group.cause, 60)
    assert 'name="run"' in admin.get(f"/dead/{group.cause}").text
    text = unescape(admin.post(f"/dead/{group.cause}/stop", {"run": run.id}, headers=HTMX).text)
    assert "Stopped." in text
    assert "stopped by admin" in text
    assert admin.post(f"/dead/{group.cause}/stop", {"run": "retry_x"}).status_code == 404


def test_a_rest_whose_jobs_die_again_says_why_it_stopped(tmp_path: Path) -> None:
    clock = FakeClock(datetime(2026, 3, 27, 14, tzinfo=UTC))
    jobs = Jobs(storage.from_url(f"sqlite:///{tmp_path / 'slow.db'}", clock=clock))
    jobs.storage.init()
    jobs.define("fail", lambda ctx, payload: 1 / 0, retry=NO_RETRY)
    jobs.enqueue_many([("fail", {})] * 5)
    worker = jobs.create_worker(recurring=False)
    worker.run_once()
    [group] = jobs.admin.dead_groups()
    jobs.admin.retry_rest(group.cause, 60)
    for _ in range(5):
        clock.advance(1)
        worker.run_once()
    text = " ".join(unescape(Client(make_app(jobs).test_client()).get(f"/dead/{group.cause}").text).split())
    jobs.storage.close()
    assert "Stopped by itself" in text
    assert "3 in a row died again." in text
    assert "3 of 5 were retried: 3 died again." in text
    assert "Retry canary" in text


def test_first_seen_is_kept_over_a_retry(admin: Client, played: Jobs) -> None:
    group = group_of(played)
    first = group.first_seen.isoformat(timespec="seconds").replace("+00:00", "Z")
    canary(admin, group, str(group.count.value))
    played.create_worker(recurring=False).run_until_idle()
    text = " ".join(unescape(admin.get(f"/dead/{group.cause}").text).split())
    assert f'<dt>First seen</dt> <dd><time class="nw" datetime="{first}"' in text
    assert f"{group.count.value}, after {2 * group.count.value} deaths in all" in text


def test_the_page_of_a_cause_has_its_jobs_trend_and_traceback(admin: Client, played: Jobs) -> None:
    group = group_of(played)
    answer = admin.get(f"/dead/{group.cause}")
    text = unescape(answer.text)
    assert f"<title>{group.error_type}, {group.count.value} dead" in text
    assert text.count("data-row") == group.count.value
    assert "Traceback (most recent call last)" in text
    assert scene.SECRET not in text
    assert "Show as table" in text
    assert f"last 48 hours, {group.count.value} deaths" in text
    assert f'href="{PREFIX}/dead/{group.cause}"' in admin.get("/dead").text


def test_a_cause_that_nobody_died_of_is_a_404_that_says_so(admin: Client) -> None:
    answer = admin.get(f"/dead/{'0' * 20}")
    assert answer.status_code == 404
    assert "no such cause" in answer.text
    assert admin.get("/dead/nonsense").status_code == 404


def test_a_cause_stays_a_place_when_its_last_job_is_deleted(admin: Client, played: Jobs) -> None:
    group = group_of(played)
    cause = {"cause": "1", "error_type": group.error_type, "error_frame": group.error_frame, "name": group.name}
    asked = unescape(admin.get("/dead/delete", query_string={**cause, "from": "cause"}).text)
    assert f"Delete {group.count.value} jobs?" in asked
    answer = admin.post("/bulk/delete", {**cause, "from": "cause"})
    assert answer.headers["Location"] == f"{PREFIX}/dead/{group.cause}"
    text = admin.get(f"/dead/{group.cause}").text
    assert "No job is dead of this cause now" in text
    assert f"0, after {group.count.value} deaths in all" in text


def test_a_selection_of_a_cause_returns_to_it(admin: Client, played: Jobs) -> None:
    group = group_of(played)
    fields = {"error_type": group.error_type, "error_frame": group.error_frame, "name": group.name, "from": "cause"}
    asked = unescape(admin.post("/bulk/retry/preview", {**fields, "id": [group.example_id]}).text)
    assert "Retry 1 job?" in asked
    assert "each with its full number of attempts again" in asked
    assert f'href="{PREFIX}/dead/{group.cause}"' in asked
    answer = admin.post("/bulk/retry", {**fields, "id": [group.example_id]})
    assert answer.headers["Location"] == f"{PREFIX}/dead/{group.cause}"
    assert dead(played) == group.count.value - 1


def test_who_sees_other_queues_sees_no_such_cause(as_role: Callable[[str | None], Client], played: Jobs) -> None:
    mails, invoices = group_of(played), group_of(played, "render-invoice-pdf")
    seer = as_role("emails")
    assert seer.get(f"/dead/{mails.cause}").status_code == 200
    assert seer.get(f"/dead/{invoices.cause}").status_code == 404
    assert seer.post(f"/dead/{invoices.cause}/canary", {"count": "1"}).status_code == 404
    assert seer.post(f"/dead/{invoices.cause}/rest", {"rate": "1"}).status_code in (404, 409)
    run = played.admin.retry_rest(invoices.cause, 1)
    assert seer.post(f"/dead/{invoices.cause}/stop", {"run": run.id}).status_code == 404
    assert dead(played, "render-invoice-pdf") == invoices.count.value


def test_who_may_only_look_is_offered_nothing(as_role: Callable[[str | None], Client], played: Jobs) -> None:
    group = group_of(played)
    viewer = as_role("viewer")
    text = viewer.get(f"/dead/{group.cause}").text
    for word in ("Retry canary", "Retry the rest", "Delete all", 'type="checkbox"'):
        assert word not in text
    for path in ("canary", "rest", "stop"):
        assert viewer.post(f"/dead/{group.cause}/{path}", {"count": "1", "rate": "1"}).status_code == 403


def test_hostile_names_are_text(jobs: Jobs) -> None:
    hostile = "<script>alert(1)</script>"
    jobs.declare(hostile)
    jobs.enqueue(hostile, max_attempts=1)
    [claim] = jobs.claim("<b>w</b>", queues=["*"])
    jobs.fail(claim, type(hostile, (Exception,), {})(hostile))
    client = Client(make_app(jobs).test_client())
    [group] = jobs.admin.dead_groups()
    for path in ("/dead", f"/dead/{group.cause}", f"/dead/{group.cause}/rest"):
        text = client.get(path).text
        assert hostile not in text
        assert "&lt;script&gt;" in text


def test_the_api_gives_the_id_of_a_cause_and_its_last_canary(admin: Client, played: Jobs) -> None:
    group = group_of(played)
    played.admin.retry_canary(group.cause, 1, actor="ada")
    answer = admin.get("/api/v1/dead", headers={"Authorization": "Bearer t0k3n"})
    assert answer.json is not None
    found = next(one for one in answer.json if one["cause"] == group.cause)
    assert found["canary"]["unfinished"] == 1


def test_the_jobs_of_a_cause_open_as_a_list_of_just_them(admin: Client, played: Jobs) -> None:
    group = group_of(played)
    text = admin.get(f"/dead/{group.cause}").text
    address = re.search(r'href="([^"]+)">Open as a job list', text)
    assert address is not None
    listed = admin.get(unescape(address[1]).removeprefix(PREFIX)).text
    assert listed.count('data-row id="row-') == group.count.value
    other = f"/jobs?status=dead&name=send-email&error_type=Other&error_frame={quote(group.error_frame or '')}"
    assert 'data-row id="row-' not in admin.get(other).text


def test_the_jobs_of_a_cause_show_their_redacted_payloads(admin: Client, played: Jobs) -> None:
    group = group_of(played, "render-invoice-pdf")
    assert "2026-03-01187" in admin.get(f"/dead/{group.cause}").text


def test_a_dead_job_and_the_overview_lead_to_the_cause(admin: Client, played: Jobs) -> None:
    group = max(played.admin.dead_groups(), key=lambda one: one.count.value)
    assert f"/dead/{group.cause}" in admin.get("/").text
    assert f"/dead/{group.cause}" in admin.get(f"/jobs/{group.example_id}").text
