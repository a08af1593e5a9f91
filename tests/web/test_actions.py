"""Commands: by form and redirect, or as a fragment; one job, a selection, a cause; races told in place."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from html import unescape

import pytest
import scene
from hosts import PREFIX, Client, make_app
from werkzeug.test import TestResponse

from sloppyjobs import FakeClock, Jobs, storage

HTMX = {"HX-Request": "true"}


def _dead(jobs: Jobs, name: str = "send-email") -> list[str]:
    return [job.id for job in jobs.admin.list_jobs("dead", name=name)]


def test_a_form_posts_redirects_and_tells(admin: Client, played: Jobs) -> None:
    id = _dead(played)[0]
    response = admin.post(f"/jobs/{id}/retry")
    assert response.status_code == 303
    assert response.headers["Location"] == f"{PREFIX}/jobs/{id}"
    assert "Queued again" in admin.get(f"/jobs/{id}").text
    assert "Queued again" not in admin.get(f"/jobs/{id}").text, "a message is shown once"


def test_a_script_gets_the_fragment_and_the_message_out_of_band(admin: Client, played: Jobs) -> None:
    id = _dead(played)[0]
    response = admin.post(f"/jobs/{id}/retry", headers=HTMX)
    assert response.status_code == 200
    assert "<html" not in response.text
    assert "hx-swap-oob" in response.text
    assert "Queued again" in response.text
    assert 'class="st pill queued"' in response.text
    assert "Queued again" not in admin.get("/jobs").text


def test_every_command_works_from_its_state(admin: Client, played: Jobs) -> None:
    scheduled = [job.id for job in played.admin.list_jobs("scheduled")]
    steps = (
        (scheduled[0], "pause", "paused"),
        (scheduled[0], "resume", "scheduled"),
        (scheduled[0], "run", "queued"),
        (scheduled[1], "cancel", "cancelled"),
        (scheduled[1], "delete", "deleted"),
    )
    for id, command, status in steps:
        assert admin.post(f"/jobs/{id}/{command}").status_code == 303
        assert played.get(id).status == status, command


def test_a_lost_race_is_shown_in_place(admin: Client, played: Jobs) -> None:
    id = _dead(played)[0]
    played.admin.delete(id)
    followed = admin.post(f"/jobs/{id}/retry", follow_redirects=True)
    assert followed.status_code == 200
    assert "This job changed before your action. Nothing was done." in followed.text
    assert "It was deleted, so it can&#39;t be retried." in followed.text
    fragment = admin.post(f"/jobs/{id}/retry", headers=HTMX)
    assert fragment.status_code == 409
    assert "This job changed before your action." in fragment.text
    assert 'class="st pill deleted"' in fragment.text


def test_a_confirm_page_asks_and_a_script_gets_the_same_for_a_dialog(admin: Client, played: Jobs) -> None:
    id = _dead(played)[0]
    page = admin.get(f"/jobs/{id}/delete")
    assert "<h1" in page.text
    assert "Delete send-email?" in page.text
    fragment = admin.get(f"/jobs/{id}/delete", headers=HTMX)
    assert "<html" not in fragment.text
    assert "<h2" in fragment.text


def test_a_selection_is_previewed_then_done_with_a_tally(admin: Client, played: Jobs) -> None:
    dead = _dead(played)[:3]
    fine = played.admin.list_jobs("succeeded")[0].id
    ids = [*dead, fine]
    preview = admin.post("/bulk/retry/preview", {"id": ids, "from": "jobs", "status": ""})
    assert preview.status_code == 200
    assert "Retry 3 jobs?" in preview.text
    assert all(played.get(id).status == "dead" for id in dead), "a preview changes nothing"
    done = admin.post("/bulk/retry", {"id": ids, "from": "jobs"}, follow_redirects=True)
    assert "3 retried, 1 skipped." in done.text
    assert all(played.get(id).status == "queued" for id in dead)
    assert played.get(fine).status == "succeeded"


def test_what_the_filters_match_is_taken_as_a_whole(admin: Client, played: Jobs) -> None:
    count = len(_dead(played))
    chosen = {"matching": "1", "status": "dead", "name": "send-email", "id": _dead(played)[0], "from": "jobs"}
    assert f"Retry {count} jobs?" in admin.post("/bulk/retry/preview", chosen).text
    done = admin.post("/bulk/retry", chosen)
    assert done.headers["Location"] == f"{PREFIX}/jobs?name=send-email&status=dead"
    assert _dead(played) == []


def _die(jobs: Jobs, name: str) -> str:
    """A job of this name that is dead of a ``LookupError``."""
    [claim] = jobs.claim("w", queues=[jobs.enqueue(name, max_attempts=1, queue="late").queue])
    jobs.fail(claim, LookupError("the same"))
    return claim.job.id


@pytest.mark.parametrize(
    "chosen",
    [
        {"matching": "1", "status": "dead", "queue": "late", "from": "jobs"},
        {"cause": "1", "error_type": "LookupError", "name": "export-orders", "from": "dead"},
    ],
    ids=["filters", "cause"],
)
def test_a_command_takes_no_more_jobs_than_its_question_named(
    admin: Client, played: Jobs, chosen: dict[str, str]
) -> None:
    asked = [_die(played, "export-orders") for _ in range(2)]
    page = admin.post("/bulk/retry/preview", chosen).text
    assert "Retry 2 jobs?" in page
    late = _die(played, "export-orders")
    done = admin.post("/bulk/retry", _hidden(page), follow_redirects=True).text
    assert "2 retried." in done
    assert "More jobs match. Do it again for the rest." in done
    assert played.get(late).status == "dead"
    assert {played.get(id).status for id in asked} == {"queued"}


def _hidden(page: str) -> dict[str, str]:
    """The hidden fields of the page's form."""
    return {name: unescape(value) for name, value in re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page)}


def test_a_large_bulk_command_goes_on_from_request_to_request(
    admin: Client, played: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webui.views.bulk.AT_ONCE", 2)
    ids = _dead(played)
    chosen = {"matching": "1", "status": "dead", "name": "send-email", "from": "jobs", "total": str(len(ids))}
    first = admin.post("/bulk/retry", {**chosen, "reason": "mended"})
    assert first.status_code == 200
    assert f"2 of {len(ids)} jobs so far" in " ".join(first.text.split())
    assert "Continue" in first.text
    assert re.search(r'href="[^"]*/jobs\?name=send-email&amp;status=dead">Stop here<', first.text)
    assert len(_dead(played)) == len(ids) - 2
    fields = _hidden(first.text)
    # The same twice, as by a page that is reloaded: it does the next part, and nothing twice.
    admin.post("/bulk/retry", fields)
    again = admin.post("/bulk/retry", fields)
    while again.status_code == 200:
        again = admin.post("/bulk/retry", _hidden(again.text), follow_redirects=False)
    assert again.headers["Location"] == f"{PREFIX}/jobs?name=send-email&status=dead"
    assert _dead(played) == []
    for id in ids:
        assert [event.event_type for event in played.admin.events(id)].count("retried") == 1
    assert {entry.reason for entry in played.admin.audit(target="bulk retry")} == {"mended"}


def test_a_script_continues_a_large_bulk_command_and_goes_to_the_list(
    admin: Client, played: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webui.views.bulk.AT_ONCE", 2)
    chosen = {"matching": "1", "status": "dead", "name": "send-email", "from": "jobs", "total": "9"}
    number = len(_dead(played))
    answer = admin.post("/bulk/retry", chosen, headers=HTMX)
    for _ in range(20):
        if "HX-Redirect" in answer.headers:
            break
        assert 'hx-trigger="load, submit"' in answer.text
        answer = admin.post("/bulk/retry", _hidden(answer.text), headers=HTMX)
    assert answer.headers["HX-Redirect"] == f"{PREFIX}/jobs?name=send-email&status=dead"
    assert f"{number} retried." in admin.get("/jobs").text
    assert _dead(played) == []


def test_everything_there_is_cannot_be_meant(admin: Client) -> None:
    assert admin.post("/bulk/delete/preview", {"matching": "1"}).status_code == 400
    assert admin.post("/bulk/delete", {"matching": "1"}).status_code == 400
    assert admin.post("/bulk/delete", {}).status_code == 400


def test_a_canary_is_retried_first_and_then_the_rest_of_the_cause(admin: Client, played: Jobs) -> None:
    count = len(_dead(played))
    group = next(group for group in played.admin.dead_groups() if group.example_name == "send-email")
    cause = {"cause": "1", "error_type": group.error_type, "error_frame": group.error_frame, "from": "dead"}
    fragment = admin.post("/bulk/retry", {**cause, "limit": "2"}, headers=HTMX)
    assert "2 retried." in fragment.text
    assert len(_dead(played)) == count - 2
    asked = admin.get("/dead/retry", query_string=cause)
    assert f"Retry {count - 2} jobs?" in asked.text
    assert admin.post("/bulk/retry", cause).headers["Location"] == f"{PREFIX}/dead"
    assert _dead(played) == []
    assert len(_dead(played, "render-invoice-pdf")) > 0, "another cause is left alone"


def test_a_cause_is_retried_for_its_job_and_not_for_others_that_failed_alike(admin: Client, played: Jobs) -> None:
    for name in ("export-orders", "send-email"):
        [claim] = played.claim("w", queues=[played.enqueue(name, max_attempts=1, queue="alike").queue])
        played.fail(claim, LookupError("the same"))
    page = admin.get("/dead").text
    assert "send-email: LookupError" in page
    assert "export-orders: LookupError" in page
    cause = {"cause": "1", "error_type": "LookupError", "name": "export-orders", "from": "dead"}
    assert "1 retried." in admin.post("/bulk/retry", cause, headers=HTMX).text
    assert [job.name for job in played.admin.list_jobs(queue="alike", status="dead")] == ["send-email"]


def test_one_dead_job_is_retried_from_its_cause(admin: Client, played: Jobs) -> None:
    id = _dead(played)[0]
    assert admin.post(f"/jobs/{id}/retry", {"from": "dead"}).headers["Location"] == f"{PREFIX}/dead"


def test_a_queue_is_paused_with_an_end_and_resumed(admin: Client, played: Jobs) -> None:
    response = admin.post("/queues/emails/pause", {"until": "15", "from": "queue", "reason": "relay"}, headers=HTMX)
    assert "emails paused until" in response.text
    queue = played.admin.get_queue("emails")
    assert queue.paused
    assert queue.paused_until is not None
    assert "Paused until" in admin.get("/queues").text
    assert admin.post("/queues/emails/resume").status_code == 303
    assert not played.admin.get_queue("emails").paused


def test_a_pause_that_ends_in_the_past_is_refused(admin: Client, played: Jobs) -> None:
    assert admin.post("/queues/emails/pause", {"until_at": "2001-01-01T00:00"}).status_code == 422
    assert not played.admin.get_queue("emails").paused


def test_an_end_is_reckoned_by_the_clock_of_the_jobs_and_not_by_that_of_the_host(ready_sqlite_url: str) -> None:
    clock = FakeClock("2060-01-01T12:00:00Z")
    jobs = Jobs(storage.sqlite(ready_sqlite_url, clock=clock))
    jobs.declare("send-email", queue="emails")
    jobs.enqueue("send-email")
    admin = Client(make_app(jobs).test_client())
    assert jobs.admin.now() == clock.now()
    assert admin.post("/queues/emails/pause", {"until": "15"}).status_code == 303
    assert jobs.admin.get_queue("emails").paused_until == clock.now() + timedelta(minutes=15)
    assert admin.post("/queues/emails/pause", {"until_at": "2059-12-31T00:00"}).status_code == 422
    jobs.storage.close()


def test_a_schedule_is_triggered_paused_resumed_and_deleted(admin: Client, played: Jobs) -> None:
    name = "nightly-rollup"
    before = len(played.admin.list_jobs(schedule=name))
    assert "stays as it is" in admin.get(f"/recurring/{name}/trigger").text
    told = admin.post(f"/recurring/{name}/trigger", {"from": "schedule"}, follow_redirects=True)
    assert f"{name} triggered." in told.text
    assert len(played.admin.list_jobs(schedule=name)) == before + 1
    admin.post(f"/recurring/{name}/pause")
    assert played.admin.get_recurring(name).paused
    admin.post(f"/recurring/{name}/resume")
    assert not played.admin.get_recurring(name).paused
    assert admin.post(f"/recurring/{name}/delete").headers["Location"] == f"{PREFIX}/recurring"
    assert admin.get(f"/recurring/{name}").status_code == 404


def test_a_poll_that_finds_nothing_new_costs_no_bytes(admin: Client, played: Jobs) -> None:
    id = _dead(played)[0]
    for path in (f"/jobs/{id}", "/jobs", "/queues", "/recurring", "/locks", "/audit", "/dead", "/"):
        for header, form in (("HX-PTag", "{}"), ("If-None-Match", '"{}"')):
            again = _poll_again(admin, path, header, form)
            assert again.status_code == 304, (path, header)
            assert again.data == b""
    tag = admin.get(f"/jobs/{id}", headers=HTMX).headers["HX-PTag"]
    played.admin.retry(id)
    assert admin.get(f"/jobs/{id}", headers={**HTMX, "HX-PTag": tag}).status_code == 200


def _poll_again(admin: Client, path: str, header: str, form: str) -> TestResponse:
    # A rate steps now and then, and a viewer wants to see that; it does not do so three times in a row.
    for _ in range(3):
        tag = admin.get(path, headers=HTMX).headers["HX-PTag"]
        again = admin.get(path, headers={**HTMX, header: form.format(tag)})
        if again.status_code == 304:
            break
    return again


def test_tokens_are_renewed_even_where_nothing_else_changes(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    tag = admin.get("/queues", headers=HTMX).headers["HX-PTag"]
    later = time.time() + 3000
    monkeypatch.setattr("webui.rendering.time.time", lambda: later)
    renewed = admin.get("/queues", headers={**HTMX, "HX-PTag": tag})
    assert renewed.status_code == 200
    assert "csrf_token" in renewed.text


def test_the_page_carries_the_tag_of_its_first_fragment(admin: Client) -> None:
    found = re.search(r'hx-ptag="(\w+)"', admin.get("/locks").text)
    assert found is not None
    assert admin.get("/locks", headers={**HTMX, "HX-PTag": found[1]}).status_code == 304


def test_the_overview_is_read_once_for_many_viewers(played: Jobs) -> None:
    client = Client(make_app(played).test_client())
    taken = {_taken(client.get("/").text) for _ in range(5)}
    assert len(taken) == 1


def _taken(text: str) -> str:
    return text.partition("As of ")[2][:40]


def test_a_repaired_cause_succeeds_after_a_retry(admin: Client, played: Jobs) -> None:
    assert scene.SECRET
    id = _dead(played, "render-invoice-pdf")[0]
    admin.post(f"/jobs/{id}/retry")
    assert "Why is it not running" in admin.get(f"/jobs/{id}").text
