"""Once is once: a form that is sent twice is done once, whoever repeats it, on both databases."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from flask import Flask
from flask_wtf import CSRFProtect
from hosts import PREFIX, TOKEN, Client, make_app
from sqlalchemy import update

import webui
from sloppyjobs import Jobs
from sloppyjobs.admin import Admin
from webui import sent_forms

KEY = re.compile(r'name="form_key" value="([^"]+)"')
GIVEN = "0123456789abcdef01234567"
HTMX = {"HX-Request": "true"}


@pytest.fixture
def nightly(database_url: str) -> Iterator[Jobs]:
    """A schedule that never fires by itself, on each database."""
    made = Jobs(database_url)
    made.declare("sync", queue="sync")
    made.recurring("nightly", "sync", {}, cron="0 0 1 1 *")
    yield made
    made.storage.close()


@pytest.fixture
def lite(jobs: Jobs) -> Jobs:
    """The same on SQLite alone, where the database does not matter."""
    jobs.declare("sync", queue="sync")
    jobs.recurring("nightly", "sync", {}, cron="0 0 1 1 *")
    return jobs


@pytest.fixture
def viewer(lite: Jobs) -> Client:
    return Client(make_app(lite).test_client())


@pytest.fixture
def host(nightly: Jobs) -> Flask:
    return make_app(nightly)


@pytest.fixture
def operator(host: Flask) -> Client:
    return Client(host.test_client())


def made_by(jobs: Jobs) -> int:
    return len(jobs.admin.list_jobs(schedule="nightly"))


def test_every_form_with_post_carries_a_key_of_its_own(viewer: Client) -> None:
    for path in ("/recurring", "/recurring/nightly", "/recurring/nightly/trigger"):
        text = viewer.get(path).text
        assert len(KEY.findall(text)) == text.count('method="post"') > 1
        assert len(set(KEY.findall(text))) == len(KEY.findall(text))


def test_a_poll_is_a_304_although_the_keys_differ(viewer: Client) -> None:
    first = viewer.get("/recurring", headers=HTMX)
    again = viewer.get("/recurring", headers={**HTMX, "HX-PTag": first.headers["HX-PTag"]})
    assert again.status_code == 304


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])
def test_a_form_that_is_sent_twice_is_done_once_and_answered_alike(
    operator: Client, nightly: Jobs, headers: dict[str, str]
) -> None:
    sent = {"form_key": GIVEN, "from": "schedule"}
    first = operator.post("/recurring/nightly/trigger", sent, headers=headers)
    shown = first.text if headers else operator.get("/recurring/nightly").text
    second = operator.post("/recurring/nightly/trigger", sent, headers=headers)
    again = second.text if headers else operator.get("/recurring/nightly").text
    assert made_by(nightly) == 1
    assert (second.status_code, second.headers.get("Location")) == (first.status_code, first.headers.get("Location"))
    assert "nightly triggered." in shown and "nightly triggered." in again


def test_without_a_key_a_form_is_done_each_time(operator: Client, nightly: Jobs) -> None:
    for _ in range(2):
        operator.post("/recurring/nightly/trigger")
    assert made_by(nightly) == 2


def test_other_entries_another_address_or_another_actor_make_another_form(host: Flask, nightly: Jobs) -> None:
    operator, colleague = Client(host.test_client()), Client(host.test_client(), "emails")
    operator.post("/recurring/nightly/trigger", {"form_key": GIVEN})
    operator.post("/recurring/nightly/trigger", {"form_key": GIVEN, "reason": "once more"})
    assert made_by(nightly) == 2
    operator.post("/recurring/nightly/pause", {"form_key": GIVEN})
    assert nightly.admin.get_recurring("nightly").paused
    assert colleague.post("/recurring/nightly/resume", {"form_key": GIVEN}).status_code == 404
    assert operator.post("/recurring/nightly/resume", {"form_key": GIVEN}).status_code == 303
    assert not nightly.admin.get_recurring("nightly").paused


def test_the_second_of_two_at_the_same_time_waits_for_the_first(
    host: Flask, nightly: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    trigger = Admin.trigger_recurring

    def slow(self: Admin, name: str, **by: Any) -> Any:
        begun.set()
        assert go_on.wait(30)
        return trigger(self, name, **by)

    waited = Admin.sent_form

    def waits(self: Admin, key: str) -> Any:
        go_on.set()
        return waited(self, key)

    monkeypatch.setattr(Admin, "trigger_recurring", slow)
    monkeypatch.setattr(Admin, "sent_form", waits)
    monkeypatch.setattr(sent_forms, "WAIT_SECONDS", 60.0)
    operator = Client(host.test_client())
    form = {"csrf_token": operator.token(), "form_key": GIVEN}
    cookie = operator.client.get_cookie("session")
    assert cookie is not None

    def send() -> tuple[int, str]:
        client = host.test_client()
        client.set_cookie("session", cookie.value)
        response = client.post(f"{PREFIX}/recurring/nightly/trigger", data=form, headers={**operator.headers, **HTMX})
        return response.status_code, response.text

    with ThreadPoolExecutor(2) as crowd:
        first = crowd.submit(send)
        assert begun.wait(30)
        second = crowd.submit(send)
        answers = [first.result(60), second.result(60)]
    assert made_by(nightly) == 1
    assert all(status == 200 and "nightly triggered." in text for status, text in answers)


def test_many_at_the_same_time_take_a_key_once(nightly: Jobs) -> None:
    with ThreadPoolExecutor(8) as crowd:
        found = list(crowd.map(lambda n: nightly.admin.claim_form("k" * 20, f"request-{n}"), range(24)))
    owners = {one.claimed_by for one in found}
    assert len(owners) == 1
    assert sum(one.claimed_by == f"request-{n}" for n, one in enumerate(found)) == 1


def test_one_that_waits_too_long_is_told_that_it_is_being_done(
    operator: Client, nightly: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    _claimed_by_somebody(operator, nightly, monkeypatch)
    monkeypatch.setattr(sent_forms, "WAIT_SECONDS", 0.0)
    sent = operator.post("/recurring/nightly/trigger", {"form_key": GIVEN})
    assert sent.status_code == 303
    assert "This was sent already and is still being done." in operator.get("/recurring/nightly").text
    assert made_by(nightly) == 0


def test_after_a_process_died_half_way_nobody_pretends_to_know(
    operator: Client, nightly: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    _claimed_by_somebody(operator, nightly, monkeypatch)
    keys = nightly.storage.tables.form_keys
    with nightly.storage.database.writing() as connection:
        past = nightly.storage.clock.now() - timedelta(seconds=61)
        connection.execute(update(keys).values(created_at=past))
    sent = operator.post("/recurring/nightly/trigger", {"form_key": GIVEN})
    assert sent.headers["Location"].startswith(f"{PREFIX}/recurring/nightly")
    text = operator.get("/recurring/nightly").text
    assert "It is not known whether this was done." in text and "The page shows the present state" in text
    assert made_by(nightly) == 0


def _claimed_by_somebody(operator: Client, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that took the key and was never heard of again."""
    with monkeypatch.context() as dying:
        dying.setattr(Admin, "trigger_recurring", _die)
        dying.setattr(Admin, "finish_form", lambda *_given: None)
        dying.setattr(Admin, "release_form", lambda *_given: None)
        with pytest.raises(RuntimeError, match="killed"):
            operator.post("/recurring/nightly/trigger", {"form_key": GIVEN})


def _die(*_given: Any, **_by: Any) -> None:
    raise RuntimeError("killed")


def test_a_refusal_is_answered_again_with_the_same_words(operator: Client, nightly: Jobs) -> None:
    job = nightly.enqueue("sync", {})
    nightly.admin.cancel(job.id)
    sent = {"form_key": GIVEN}
    first = operator.post(f"/jobs/{job.id}/pause", sent, headers=HTMX)
    second = operator.post(f"/jobs/{job.id}/pause", sent, headers=HTMX)
    assert first.status_code == second.status_code == 409
    told = [one.text.partition('id="flash"')[2] for one in (first, second)]
    assert "flash warn" in told[0] and told[0] == told[1]
    missing = [operator.post("/jobs/job_none/retry", {"form_key": GIVEN}) for _ in range(2)]
    assert [one.status_code for one in missing] == [404, 404]
    assert all("no such job" in one.text for one in missing)


def test_what_failed_without_being_done_may_be_sent_again(
    operator: Client, nightly: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sloppyjobs import errors

    def down(*_given: Any, **_by: Any) -> None:
        raise errors.StorageUnavailable("refused")

    with monkeypatch.context() as broken:
        broken.setattr(Admin, "trigger_recurring", down)
        assert operator.post("/recurring/nightly/trigger", {"form_key": GIVEN}).status_code == 503
    assert operator.post("/recurring/nightly/trigger", {"form_key": GIVEN}).status_code == 303
    assert made_by(nightly) == 1


def test_each_part_of_a_large_bulk_command_has_its_key(
    operator: Client, nightly: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webui.views.bulk.AT_ONCE", 2)
    ids = [nightly.enqueue("sync", {}).id for _ in range(5)]
    form: dict[str, Any] = {"form_key": GIVEN, "id": ids, "from": "jobs", "total": "5"}
    first = operator.post("/bulk/pause", form)
    again = operator.post("/bulk/pause", form)
    assert "2 of 5 jobs so far" in unescape(first.text) and "2 of 5 jobs so far" in unescape(again.text)
    assert KEY.findall(first.text) == KEY.findall(again.text), "whoever continues from both continues once"
    parts = re.search(r'<form\s+class="panel ask".*?</form>', again.text, re.DOTALL)
    assert parts is not None and operator.token() is not None
    fields = dict(re.findall(r'name="(cursor|form_key|total)" value="([^"]*)"', parts[0]))
    for _ in range(2):
        third = operator.post("/bulk/pause", {**form, **fields})
        assert "4 of 5 jobs so far" in unescape(third.text)
    assert len(nightly.admin.list_jobs("paused")) == 4
    assert TOKEN.search(again.text) is not None, "with a token that works"


def test_old_keys_are_removed(nightly: Jobs) -> None:
    for number in range(3):
        nightly.admin.claim_form(f"old-key-{number:016}", "somebody")
    keys = nightly.storage.tables.form_keys
    with nightly.storage.database.writing() as connection:
        past = nightly.storage.clock.now() - timedelta(days=1, seconds=1)
        connection.execute(update(keys).values(created_at=past))
    nightly.admin.claim_form("new-key-0000000000", "somebody")
    nightly.admin.purge()
    assert nightly.admin.sent_form("old-key-0000000000000001") is None
    assert nightly.admin.sent_form("new-key-0000000000") is not None


# Forms that have expired


def test_an_expired_form_is_told_in_place_and_gets_a_fresh_token(viewer: Client, lite: Jobs) -> None:
    headers = {**viewer.headers, **HTMX}
    data = {"csrf_token": "old", "form_key": GIVEN, "reason": "typed"}
    refused = viewer.client.post(f"{PREFIX}/recurring/nightly/trigger", data=data, headers=headers)
    assert refused.status_code == 400 and refused.headers["HX-Reswap"] == "none"
    assert "Your entries are kept: send it again. Nothing was changed." in refused.text
    assert "<main" not in refused.text and "<form" not in refused.text
    data["csrf_token"] = refused.headers["SJ-Token"]
    assert viewer.client.post(f"{PREFIX}/recurring/nightly/trigger", data=data, headers=headers).status_code == 200
    assert lite.admin.audit()[0].reason == "typed"


@pytest.mark.parametrize("path", ["/recurring/nightly/trigger", "/queues/sync/pause"])
def test_an_expired_form_without_a_script_is_shown_again_with_what_was_typed(
    viewer: Client, lite: Jobs, path: str
) -> None:
    lite.enqueue("sync", {})
    data = {"reason": 'because of "this"', "until": "60", "from": "queue"}
    refused = viewer.client.post(PREFIX + path, data=data, headers=viewer.headers)
    assert refused.status_code == 400
    text = unescape(refused.text)
    assert "The form has expired." in text and "Nothing was changed." in text
    assert f'action="{PREFIX}{path}"' in text and 'value="because of "this""' in text
    fields = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', refused.text.partition("<main")[2]))
    sent = viewer.client.post(PREFIX + path, data={**data, **fields}, headers=viewer.headers)
    assert sent.status_code == 303
    assert lite.admin.audit()[0].reason == 'because of "this"'


def test_an_expired_bulk_form_is_asked_again(viewer: Client, lite: Jobs) -> None:
    ids = [lite.enqueue("sync", {}).id for _ in range(3)]
    data = {"id": ids, "reason": "typed", "from": "jobs"}
    refused = viewer.client.post(f"{PREFIX}/bulk/pause", data=data, headers=viewer.headers)
    assert refused.status_code == 400
    assert "Pause 3 jobs?" in refused.text and 'value="typed"' in refused.text
    assert all(f'name="id" value="{id}"' in refused.text for id in ids)
    assert len(lite.admin.list_jobs("queued")) == 3


def test_beside_a_hosts_own_protection_the_form_is_kept_too(lite: Jobs) -> None:
    host = make_app(lite)
    CSRFProtect(host)
    viewer = Client(host.test_client())
    refused = viewer.client.post(
        f"{PREFIX}/recurring/nightly/trigger", data={"reason": "typed"}, headers=viewer.headers
    )
    assert refused.status_code == 400 and 'value="typed"' in refused.text
    nobody = host.test_client().post(f"{PREFIX}/recurring/nightly/trigger", headers={"X-Role": "viewer"})
    assert nobody.status_code == 403


def test_an_expired_form_shows_nothing_to_who_may_not_send_it(lite: Jobs) -> None:
    refused = make_app(lite).test_client().post(f"{PREFIX}/queues/sync/pause", headers={"X-Role": "viewer"})
    assert refused.status_code == 403 and "Send again" not in refused.text


# Preferences, and where they lead back to


@pytest.mark.parametrize(
    "here",
    [
        "/jobs?status=dead&queue=a%2Fb&order=created_at",
        "/recurring/nightly",
        "/",
        "/audit?actor=ops",
        "/jobs?name=a%2Fb",
    ],
)
def test_a_choice_leads_back_to_the_page_with_its_filters(viewer: Client, here: str) -> None:
    field = re.search(r'name="here" value="([^"]*)"', viewer.get(here).text)
    assert field is not None
    chosen = viewer.post("/preferences", {"tz": "Europe/Paris", "here": unescape(field[1])})
    led, wanted = urlsplit(chosen.headers["Location"]), urlsplit(PREFIX + here)
    assert led.path == wanted.path and sorted(parse_qsl(led.query)) == sorted(parse_qsl(wanted.query))


@pytest.mark.parametrize(
    ("here", "led"),
    [
        ("https://example.org/admin/jobs/jobs?status=dead", "/"),
        ("//example.org/admin/jobs/jobs", "/"),
        ("http://localhost/admin/jobs/jobs?status=dead&next=//example.org", "/jobs?status=dead"),
        ("/elsewhere", "/"),
        ("/admin/jobs/api/v1/jobs", "/"),
        ("/admin/jobs/preferences", "/"),
        ("/admin/jobs/nope", "/"),
        ("/admin/jobs/counts", "/"),
        ("javascript:alert(1)", "/"),
        ("http://[", "/"),
        ("/admin/jobs/recurring/nightly/trigger?from=schedule&x=1", "/recurring/nightly/trigger?from=schedule"),
        ("/admin/jobs/jobs/job_x/patch", "/jobs/job_x"),
        ("/admin/jobs/jobs/job_x/signal", "/jobs/job_x"),
        ("/admin/jobs/queues/emails/pause", "/queues/emails"),
        ("/admin/jobs/jobs/job_x/retry", "/jobs/job_x/retry"),
        ("/admin/jobs/bulk/retry/preview", "/"),
    ],
)
def test_a_choice_never_leads_where_somebody_says(viewer: Client, here: str, led: str) -> None:
    chosen = viewer.post("/preferences", {"theme": "dark", "here": here})
    assert chosen.headers["Location"] == PREFIX + led


def test_the_address_of_a_form_that_is_opened_leads_to_its_page(viewer: Client) -> None:
    for path, page in (
        ("/queues/emails/pause", "/queues/emails"),
        ("/queues/emails/age", "/queues/emails"),
        ("/jobs/job_x/patch", "/jobs/job_x"),
    ):
        assert viewer.get(path).headers.get("Location") == PREFIX + page, path
    assert viewer.get("/jobs/job_x").status_code == 404
    assert viewer.get("/nope/patch").status_code == 404


def test_a_choice_on_the_answer_to_a_form_leads_back_to_the_page_before(viewer: Client, lite: Jobs) -> None:
    lite.enqueue("sync", {})
    asked = viewer.post("/bulk/cancel/preview", {"matching": "1", "status": "queued", "from": "jobs"}).text
    field = re.search(r'name="here" value="([^"]*)"', asked)
    assert field is not None
    sent = {"theme": "dark", "here": unescape(field[1])}
    current = f"http://localhost{PREFIX}/bulk/cancel/preview"
    back = f"{PREFIX}/jobs?status=queued"
    assert viewer.post("/preferences", sent).headers["Location"] == back
    scripted = viewer.post("/preferences", sent, headers={"HX-Request": "true", "HX-Current-URL": current})
    assert scripted.headers["HX-Redirect"] == back
    for odd in ("http://[", "/elsewhere", f"{PREFIX}/jobs"):
        scripted = viewer.post("/preferences", sent, headers={"HX-Request": "true", "HX-Current-URL": odd})
        assert scripted.headers["HX-Refresh"] == "true"


def test_a_form_of_another_page_leads_back_by_the_referrer(viewer: Client) -> None:
    headers = {"Referer": f"http://localhost{PREFIX}/jobs?status=queued"}
    chosen = viewer.post("/preferences", {"theme": "dark"}, headers=headers)
    assert chosen.headers["Location"] == f"{PREFIX}/jobs?status=queued"


def test_the_policy_is_still_asked_first(lite: Jobs) -> None:
    app = make_app(lite, webui.AllowAll())
    assert app.test_client().post(f"{PREFIX}/recurring/nightly/trigger").status_code == 400
    assert made_by(lite) == 0
