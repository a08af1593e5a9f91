"""Pages of queues, workers, schedules and the audit trail: what they say, and what they refuse."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import scene
from flask import Flask
from hosts import PREFIX, Client, RolePolicy, make_app

import webui
from sloppyjobs import Jobs
from sloppyjobs.domain.model import WorkerInfo

HTMX = {"HX-Request": "true"}
HOUR = timedelta(hours=1)


def _worker(jobs: Jobs, id: str, **given: object) -> None:
    known = {"hostname": "app-9", "pid": 99, "queues": ("media",), "names": (), "concurrency": 8, "heartbeat": 60.0}
    jobs.storage.workers.register(WorkerInfo(id=id, version="2.4.0", **{**known, **given}))  # type: ignore[arg-type]


def _text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


# Queues


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["without scripts", "with scripts"])
@pytest.mark.parametrize("origin", ["queues", "queue"])
def test_a_pause_until_the_past_is_refused_in_place_with_what_was_typed(
    admin: Client, played: Jobs, origin: str, headers: dict[str, str]
) -> None:
    typed = {"until": "60", "until_at": "2001-01-01T00:00", "reason": "relay maintenance", "from": origin}
    answer = admin.post("/queues/emails/pause", typed, headers=headers)
    assert answer.status_code == 422
    assert "Choose a time in the future." in answer.text
    [form] = re.findall(r'<details class="pop" id="pause-emails" open>.*?</details>', answer.text, re.DOTALL)
    assert 'value="2001-01-01T00:00"' in form
    assert 'value="relay maintenance"' in form
    assert '<option value="60" selected>' in form
    assert 'aria-invalid="true"' in form
    assert not played.admin.get_queue("emails").paused


@pytest.mark.parametrize("path", ["/queues/emails/pause", "/alerts/dead-invoices/mute"])
def test_a_time_that_means_for_ever_is_refused_in_place_with_the_way_to_say_it(admin: Client, path: str) -> None:
    answer = admin.post(path, {"until": "60", "until_at": "9999-12-31T23:59"})
    assert answer.status_code == 422
    assert re.search(r"For no end, leave this empty and choose “Until \w+ manually”\.", answer.text)


def test_an_unknown_length_of_a_pause_is_refused_and_pauses_nothing(admin: Client, played: Jobs) -> None:
    answer = admin.post("/queues/emails/pause", {"until": "for ever"})
    assert (answer.status_code, "Choose how long from the list." in answer.text) == (422, True)
    assert not played.admin.get_queue("emails").paused


def test_a_refused_pause_of_a_queue_beyond_the_first_page_shows_the_queue(admin: Client, played: Jobs) -> None:
    for number in range(60):
        played.admin.pause_queue(f"a-{number:02}", create=True)
    answer = admin.post("/queues/emails/pause", {"until_at": "2001-01-01T00:00", "from": "queues"})
    assert (answer.status_code, "<title>emails queue" in answer.text) == (422, True)


def test_a_pause_says_who_ordered_it_why_and_until_when(admin: Client, played: Jobs) -> None:
    until = datetime.now(UTC) + HOUR
    played.admin.pause_queue("emails", until, actor="ada", reason="mail limit")
    assert "mail limit, by ada" in _text(admin.get("/queues").text)
    page = _text(admin.get("/queues/emails").text)
    assert re.search(r"No new jobs start until (\w+ \d+ \w+, )?\d\d:\d\d:\d\d \(mail limit, by ada\)\.", page)
    played.admin.resume_queue("emails")
    assert "mail limit" not in admin.get("/queues").text


def test_a_pause_and_its_end_are_said_shortly(admin: Client) -> None:
    paused = admin.post("/queues/emails/pause", {"until": ""}, headers=HTMX).text
    assert "emails paused until it is resumed." in paused
    assert "Running jobs will finish." in paused
    assert "emails resumed." in admin.post("/queues/emails/resume", headers=HTMX).text


def test_the_list_of_queues_is_summed_up(admin: Client) -> None:
    page = admin.get("/queues").text
    assert re.search(r"<p>\d+ queues, \d+ queued, \d+ running\.</p>", page)
    assert "No worker for exports" in page
    assert "Until resumed manually" in page


def test_queues_without_a_worker_are_all_named_the_first_with_what_to_do(admin: Client, played: Jobs) -> None:
    for number in range(6):
        played.enqueue("export-orders", {}, queue=f"lonely-{number}")
    unserved = [queue.name for queue in played.admin.list_queues() if queue.depth and not queue.workers]
    page = _text(admin.get("/queues").text)
    assert page.count("Start a worker for it:") == 3
    assert f"No worker for {len(unserved) - 3} more queues {', '.join(unserved[3:])}" in page
    assert "lonely-5" in unserved[3:]


def test_a_worker_whose_application_has_no_version_shows_that_of_the_library_as_such(
    admin: Client, played: Jobs
) -> None:
    _worker(played, "one")
    _worker(played, "two", app_version="shop 119")
    page = _text(admin.get("/workers").text)
    assert "one sloppyjobs 2.4.0" in page
    assert "two shop 119" in page


def test_a_queue_lists_its_workers_with_what_they_run_from_it(admin: Client, played: Jobs) -> None:
    _worker(played, "app-2:3380")
    held = [job.id for job in played.admin.list_jobs("processing", queue="media")]
    page = admin.get("/queues/media").text
    assert "app-9:99" in page
    assert all(f"/jobs/{id}" in page.partition("Running from this queue")[2] for id in held)
    assert "app-9:99" not in admin.get("/queues/emails").text


def test_titles_say_what_kind_of_place_it_is(admin: Client) -> None:
    assert "<title>emails queue ·" in admin.get("/queues/emails").text
    assert "<title>nightly-rollup schedule ·" in admin.get("/recurring/nightly-rollup").text


# Workers


def test_a_worker_shows_what_it_runs_and_how_many_more(admin: Client, played: Jobs) -> None:
    _worker(played, "app-2:3380", running=2)
    page = admin.get("/workers").text
    for job in played.admin.list_jobs("processing", worker="app-2:3380"):
        assert f'/jobs/{job.id}"' in page
    _worker(played, "busy", queues=("rollups",), concurrency=20)
    for number in range(12):
        played.enqueue("rollup-daily-metrics", {"n": number})
    assert len(played.claim("busy", queues=("rollups",), limit=12, lease=600)) == 12
    assert "and 9 more" in _text(admin.get("/workers").text)


def test_a_worker_without_heartbeats_has_stopped_responding(
    admin: Client, played: Jobs, eventually: Callable[..., Any]
) -> None:
    _worker(played, "gone", heartbeat=0.001)
    eventually(lambda: "Stopped responding" in _text(admin.get("/workers").text))
    assert "Stale" not in _text(admin.get("/workers").text)


def test_who_may_not_see_jobs_is_not_told_what_workers_run(played: Jobs) -> None:
    class NoJobs(RolePolicy):
        def can(self, actor: object, action: str, resource: webui.Resource) -> bool:
            return action in ("worker.view", "queue.view", "recurring.view", "audit.view")

    client = Client(make_app(played, NoJobs()).test_client())
    _worker(played, "app-2:3380")
    id = played.admin.list_jobs("processing", worker="app-2:3380")[0].id
    for path in ("/workers", "/queues/media", "/recurring", "/recurring/nightly-rollup", "/audit"):
        assert id not in client.get(path).text, path
        assert "/jobs/job_" not in client.get(path).text, path


# Schedules


def test_schedules_say_in_words_when_they_fire(admin: Client) -> None:
    page = _text(admin.get("/recurring").text)
    for words in ("At 02:30 every day", "Every 5 minutes", "At 20:00 on Friday", "At 04:00 on Sunday"):
        assert words in page
    assert "30 2 * * *" in page


def test_a_schedule_shows_how_its_last_runs_ended_and_how_long_the_last_took(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'nights.db'}"
    scene.nights(url, datetime.now(UTC))
    jobs = Jobs(url)
    scene.define(jobs)
    jobs.admin.bulk("delete", {"schedule": "nightly-rollup"}, limit=2)
    client = Client(make_app(jobs).test_client())
    for path in ("/recurring", "/recurring/nightly-rollup"):
        page = client.get(path).text
        [strip] = re.findall(r'<ol class="outcomes".*?</ol>', page, re.DOTALL)
        kinds = re.findall(r'<li class="st (\w+)" title="[^"]+: ([^"]+)"', strip)
        found = [kind for kind, _ in kinds]
        assert {"succeeded", "skipped", "collapsed"} == set(found), "what retention deleted is shown as it ended"
        assert len(found) <= 12
        assert re.search("Succeeded took [0-9]", _text(page))
    jobs.storage.close()


def test_a_triggered_schedule_links_to_its_job(admin: Client, played: Jobs) -> None:
    told = admin.post("/recurring/nightly-rollup/trigger", follow_redirects=True).text
    newest = played.admin.list_jobs(schedule="nightly-rollup", page_size=1)[0].id
    assert re.search(rf'<a href="[^"]*/jobs/{newest}">\s*Triggered: {newest}', told)


def test_a_late_schedule_says_that_no_worker_runs_the_scheduler(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'nights.db'}"
    scene.nights(url, datetime.now(UTC) - timedelta(days=3))
    jobs = Jobs(url)
    client = Client(make_app(jobs).test_client())
    for path in ("/recurring", "/recurring/nightly-rollup"):
        assert "No worker is running the scheduler." in client.get(path).text
    jobs.storage.close()


def test_a_schedule_that_is_gone_from_code_says_so(admin: Client, played: Jobs) -> None:
    table = played.storage.tables.recurring
    with played.storage.database.writing() as connection:
        connection.execute(table.update().values(vanished_at=datetime.now(UTC)))
    for path in ("/recurring", "/recurring/nightly-rollup"):
        assert "No longer declared in code." in admin.get(path).text


# Audit


def test_the_audit_trail_is_narrowed_by_action_actor_target_and_time(admin: Client, played: Jobs) -> None:
    played.admin.pause_queue("emails", actor="ada", reason="mail limit")

    def shown(query: str) -> list[str]:
        page = admin.get(f"/audit?{query}").text
        return re.findall(r'<tr role="row" data-row id="row-audit_\d+">.*?</tr>', page, re.DOTALL)

    assert [("Paused the queue" in row) for row in shown("action=pause_queue")] == [True, True]
    assert len(shown("action=pause_queue&actor=ada")) == 1
    assert len(shown("target=emails")) == 1
    assert len(shown("range=1h&action=pause_queue")) == 2
    assert shown("to=2001-01-01T00:00") == []
    assert "No entry fits these filters." in admin.get("/audit?from=2999-01-01T00:00").text


@pytest.mark.parametrize(
    ("query", "field", "said"),
    [
        ("from=yesterday", "from", "Write a date and a time, such as 2026-03-27T14:02."),
        ("from=2026-03-02T00:00&to=2026-03-01T00:00", "to", "Choose a time after “From”."),
        ("range=1h&from=2026-03-02T00:00", "range", "Choose a range or “From”, not both."),
        ("range=1y", "range", "Choose one of the ranges in the list."),
        ("range=1h&to=2026-03-01T00:00", "to", "Choose a time within the range."),
        ("actor=" + "x" * 600, "actor", "characters"),
    ],
)
def test_a_filter_of_the_audit_trail_that_cannot_work_is_refused_in_place(
    admin: Client, query: str, field: str, said: str
) -> None:
    page = admin.get(f"/audit?target=emails&{query}")
    assert page.status_code == 422
    assert re.search(rf'name="{field}"[^>]*aria-invalid="true" aria-describedby="wrong-{field}"', page.text)
    assert said in page.text
    assert 'value="emails"' in page.text, "the other filters stay"


def test_the_audit_trail_speaks_in_sentences_with_links(admin: Client, played: Jobs) -> None:
    ids = [job.id for job in played.admin.list_jobs("dead")][:5]
    played.admin.bulk("retry", {"ids": ids}, actor="demo")
    page = admin.get("/audit").text
    text = _text(page)
    assert "Retried 5 jobs" in text
    assert "and 2 more" in text
    assert "Triggered the schedule nightly-rollup" in text
    assert "Paused the queue search" in text
    for raw in ("pause_queue<", "trigger_recurring<", "{'ids'", "filter "):
        assert raw not in page
    assert re.search(r"\d\d:\d\d:\d\d\.\d", text) is None


def test_the_api_tells_who_paused_a_queue_and_what_workers_run(app: Flask, played: Jobs) -> None:
    played.admin.pause_queue("emails", actor="ada", reason="mail limit")
    _worker(played, "app-2:3380")

    def read(path: str) -> Any:
        return app.test_client().get(f"{PREFIX}/api/v1{path}", headers={"Authorization": "Bearer t0k3n"}).json

    queue = read("/queues/emails")
    assert (queue["paused_by"], queue["pause_reason"]) == ("ada", "mail limit")
    [worker] = [one for one in read("/workers")["items"] if one["id"] == "app-2:3380"]
    held = [job.id for job in played.admin.list_jobs("processing", worker="app-2:3380")]
    assert sorted(job["id"] for job in worker["jobs"]) == sorted(held)
    assert [one["action"] for one in read("/audit?action=pause_queue")["items"]] == ["pause_queue", "pause_queue"]


def test_the_range_of_a_queue_governs_its_chart(admin: Client) -> None:
    text = admin.get("/queues/emails?range=6h").text
    assert re.search(r'href="[^"]*/queues/emails\?range=6h"\s+aria-current="true"', text)
    assert "over the last 6 hours" in text
    assert f'href="{PREFIX}/queue-runs/emails"' in text


def test_run_times_of_a_queue_are_percentiles_and_histograms_of_its_latest_runs(admin: Client) -> None:
    text = admin.get("/queue-runs/emails").text
    for title in ("Run time", "Waiting time"):
        assert re.search(rf'aria-label="{title} per [^"]*p50 [^"]*, p95 [^"]*,\s*p99 ', text)
    assert text.count("Show as table") == 4
    assert admin.get("/queue-runs/nowhere").status_code == 404


def test_a_queue_without_runs_says_when_there_will_be_some(admin: Client, played: Jobs) -> None:
    played.enqueue("send-email", {}, queue="brand-new")
    assert "No runs to measure" in admin.get("/queue-runs/brand-new").text
    assert played.admin.queue_runs("brand-new").runs == 0
    assert played.admin.queue_runs("emails", scope=["other"]).runs == 0
    assert 0 < played.admin.queue_runs("emails").runs <= 500
