"""The pages and the API of the archive: search, one job, restore once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import scene
from flask import Flask
from hosts import PREFIX, Client

from sloppyjobs import Jobs, Status, storage
from sloppyjobs.storage import FakeClock
from sloppyjobs.storage.ports.operators import Command

BEARER = {"Authorization": "Bearer t0k3n"}


def _ids(text: str) -> list[str]:
    return re.findall(r'id="row-(job_\w+)"', text)


def test_the_archive_is_searched_and_hides_secrets(admin: Client, played: Jobs) -> None:
    rows = played.admin.search_archive().items
    assert _ids(admin.get("/archive").text) == [row.id for row in rows]
    for row in rows:
        assert _ids(admin.get(f"/archive?key={row.business_key}").text) == [row.id]
        assert _ids(admin.get(f"/archive?key={row.id}").text) == [row.id]
        page = admin.get(f"/archive/{row.id}").text
        assert row.id in page
        assert scene.SECRET not in page
    assert _ids(admin.get("/archive?name=refund-order").text) == [row.id for row in rows]
    assert "Nothing found" in admin.get("/archive?name=other").text
    assert "Nothing found" in admin.get("/archive?from=2031-01-01T00:00").text


def test_an_archived_job_shows_what_its_handler_logged(admin: Client, played: Jobs) -> None:
    past = Jobs(storage.from_url(played.storage.engine, clock=FakeClock("2024-05-01T10:00:00Z")))

    @past.define("note-down")
    def note(ctx: Any, payload: Any) -> None:
        ctx.log("warning", "the relay was slow", seconds=9)

    job = past.enqueue("note-down")
    past.create_worker(queues=("default",), recurring=False).run_once()
    now = played.storage.clock.now()
    past.storage.retention.soft_delete(Status.SUCCEEDED, now, 100, Command("cleanup"))
    past.storage.retention.purge(now, 100, archive=True)
    page = admin.get(f"/archive/{job.id}")
    assert page.status_code == 200
    assert "the relay was slow" in page.text
    assert "1 line" in page.text


def test_a_search_that_cannot_work_is_refused_in_place(admin: Client) -> None:
    for query, typed in (
        ("from=yesterday", "yesterday"),
        ("name=" + "x" * 200, "x" * 200),
        ("from=2026-03-02T00:00&to=2026-03-01T00:00", "2026-03-01T00:00"),
    ):
        page = admin.get(f"/archive?{query}")
        assert "datetime" not in re.findall(r'class="err".*?</p>', page.text, re.DOTALL)[0]
        assert page.status_code == 422
        assert f'value="{typed}"' in page.text
        assert 'aria-invalid="true"' in page.text


def test_a_job_is_restored_once_and_says_from_which(admin: Client, played: Jobs) -> None:
    old = played.admin.search_archive()[0]
    assert "Restore as a new job" in admin.get(f"/archive/{old.id}/restore").text
    done = admin.post(f"/archive/{old.id}/restore", {"reason": "asked for"})
    assert done.status_code == 303
    page = admin.get(f"/archive/{old.id}").text
    [new] = played.admin.list_jobs(business_key=old.business_key)
    assert "Restored as a new job." in page
    assert new.id in page
    assert f"/archive/{old.id}" in admin.get(f"/jobs/{new.id}").text
    assert "/restore" not in page, "what would be refused is not offered"
    asked = admin.get(f"/archive/{old.id}/restore").text
    assert "Nothing to restore" in asked
    assert "<button" not in asked[asked.index('id="ask-title"') : asked.index("</form>", asked.index("ask-title"))]
    admin.post(f"/archive/{old.id}/restore")
    assert f"It was restored already, as {new.id}, which is queued." in admin.get(f"/archive/{old.id}").text
    assert len(played.admin.list_jobs(business_key=old.business_key)) == 1
    played.admin.cancel(new.id)
    assert f"/archive/{old.id}/restore" in admin.get(f"/archive/{old.id}").text, "the restored job has ended"
    words = re.sub(r"<[^>]+>|\s+", " ", admin.get("/audit?action=restore").text)
    assert "asked for" in words
    assert re.search(r"Restored the archived job\s+job_", words)


def test_a_taken_key_is_said_in_place(admin: Client, played: Jobs) -> None:
    old = played.admin.search_archive()[0]
    played.declare("refund-order", queue="refunds")
    live = played.enqueue("refund-order", business_key=old.business_key)
    admin.post(f"/archive/{old.id}/restore")
    assert live.id in admin.get(f"/archive/{old.id}").text


def test_who_may_not_restore_sees_no_button(as_role: Callable[[str | None], Client], played: Jobs) -> None:
    old = played.admin.search_archive()[0]
    viewer = as_role("viewer")
    assert "/restore" not in viewer.get(f"/archive/{old.id}").text
    assert viewer.post(f"/archive/{old.id}/restore").status_code == 403


def test_a_scope_hides_what_was_archived_of_other_queues(as_role: Callable[[str | None], Client], played: Jobs) -> None:
    old = played.admin.search_archive()[0]
    scoped = as_role("emails")
    assert _ids(scoped.get("/archive").text) == []
    assert scoped.get(f"/archive/{old.id}").status_code == 404
    assert scoped.post(f"/archive/{old.id}/restore").status_code in (403, 404)
    assert played.admin.get_archived(old.id).restored_as is None


def test_the_address_of_a_job_leads_to_the_archive_when_it_is_there(
    admin: Client, as_role: Callable[[str | None], Client], played: Jobs
) -> None:
    old = played.admin.search_archive()[0]
    answer = admin.get(f"/jobs/{old.id}")
    assert (answer.status_code, answer.headers["Location"]) == (302, f"{PREFIX}/archive/{old.id}")
    assert as_role("emails").get(f"/jobs/{old.id}").status_code == 404
    assert as_role("nobody").get(f"/jobs/{old.id}").status_code == 403
    assert admin.get("/jobs/job_none").status_code == 404


def test_the_api_searches_shows_and_restores(app: Flask, played: Jobs) -> None:
    api = app.test_client()
    found = api.get(f"{PREFIX}/api/v1/archive?name=refund-order&page_size=1", headers=BEARER).json
    assert found is not None
    assert len(found["items"]) == 1
    assert found["next_cursor"]
    id = found["items"][0]["id"]
    assert api.get(f"{PREFIX}/api/v1/archive?nmae=x", headers=BEARER).status_code == 400
    one = api.get(f"{PREFIX}/api/v1/archive/{id}", headers=BEARER).json
    assert one is not None
    assert [event["event_type"] for event in one["events"]][-1] == "deleted"
    done = api.post(f"{PREFIX}/api/v1/archive/{id}/restore", headers=BEARER, json={"reason": "ci"})
    assert done.json is not None
    assert done.json["metadata"]["restored_from"] == id
    again = api.post(f"{PREFIX}/api/v1/archive/{id}/restore", headers=BEARER)
    assert again.status_code == 409
    assert api.get(f"{PREFIX}/api/v1/archive/job_none", headers=BEARER).status_code == 404
    entry = played.admin.audit(id)[0]
    assert (entry.action, entry.actor, entry.reason) == ("restore", "api token", "ci")
