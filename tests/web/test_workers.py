"""The page of one worker, and what operators can ask of it there."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest
import scene
from hosts import Client

from sloppyjobs import Jobs
from webui.views.workers import pace

HTMX = {"HX-Request": "true"}


def _text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def test_the_page_tells_what_a_worker_runs_and_what_it_says_of_itself(admin: Client, played: Jobs) -> None:
    page = admin.get(f"/workers/{scene.worker(played)}")
    text = _text(page.text)
    for told in ("app-2:3380 Live", "2 of 6 slots in use", "40,311", "322 (0.8 %)", "412 MB", "app-2, process 3380"):
        assert told in text, told
    for job in played.admin.list_jobs("processing", worker="app-2:3380"):
        assert f"/jobs/{job.id}" in page.text
    assert "/queues/media" in page.text
    assert "/job-types/resize-image" in page.text


def test_jobs_that_a_worker_holds_ready_are_told_from_those_that_run(admin: Client, played: Jobs) -> None:
    id = scene.worker(played)
    for _ in range(6):
        played.enqueue("resize-image", {"src": "more.tif"})
    assert len(played.claim(id, queues=("media",), limit=6, lease=600)) == 6
    text = _text(admin.get(f"/workers/{id}").text)
    assert "6 of 6 slots in use" in text
    assert "It holds 8 jobs: 6 run, the others start when a slot is free." in text


def test_a_job_that_was_taken_since_the_last_heartbeat_uses_a_slot(admin: Client, played: Jobs) -> None:
    id = scene.worker(played)
    played.enqueue("resize-image", {"src": "more.tif"})
    assert len(played.claim(id, queues=("media",), limit=1, lease=600)) == 1
    page = _text(admin.get(f"/workers/{id}").text)
    assert "3 of 6 slots in use" in page
    assert "when a slot is free" not in page
    assert "3 of 6 slots in use" in _text(admin.get("/workers").text)
    assert "3 / 6" in _text(admin.get("/workers").text)
    assert "3 / 6" in _text(admin.get("/queues/media").text)


def test_the_rate_of_a_worker_counts_from_its_start_and_not_within_its_first_minute(played: Jobs) -> None:
    worker = played.admin.get_worker(scene.worker(played))
    assert (worker.done, worker.failed) == (40_311, 322)
    for minutes, told in ((0.5, ""), (10, "4,063.3 per min"), (40_633, "1.0 per min")):
        started = worker.heartbeat_at - timedelta(minutes=minutes)
        assert pace(msgspec.structs.replace(worker, started_at=started)) == told
    assert pace(msgspec.structs.replace(worker, done=None, failed=None)) == ""


def test_lists_jobs_and_attempts_link_to_the_worker(admin: Client, played: Jobs) -> None:
    scene.worker(played)
    running = played.admin.list_jobs("processing", worker="app-2:3380")[0].id
    for page in ("/workers", "/jobs?status=processing", f"/jobs/{running}", "/queues/media"):
        assert "/workers/app-2:3380" in admin.get(page).text, page


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["without scripts", "with scripts"])
def test_a_worker_is_quieted_resumed_and_stopped(admin: Client, played: Jobs, headers: dict[str, str]) -> None:
    id = scene.worker(played)
    seen = []
    for command in ("quiet", "resume", "stop"):
        asked = admin.get(f"/workers/{id}/{command}")
        assert f'action="/admin/jobs/workers/{id}/{command}"' in asked.text
        answer = admin.post(f"/workers/{id}/{command}", {"reason": "deploy"}, headers=headers)
        assert answer.status_code == (200 if headers else 303)
        seen.append((played.admin.get_worker(id).wanted, _buttons(admin.get(f"/workers/{id}").text, id)))
    assert seen == [("quiet", ["resume", "stop"]), (None, ["quiet", "stop"]), ("stop", [])]
    assert {entry.reason for entry in played.admin.audit(id)} == {"deploy"}


def test_the_list_says_what_a_worker_will_be_told_and_when_it_was_heard_of(admin: Client, played: Jobs) -> None:
    id = scene.worker(played)
    assert re.search(r"app-2:3380 .* Live media, exports .* \d+ s ago", _text(admin.get("/workers").text))
    for command, told in (
        ("quiet", "Takes no new jobs after its next heartbeat"),
        ("resume", ""),
        ("stop", "Begins to stop with its next heartbeat"),
    ):
        getattr(played.admin, f"{command}_worker")(id)
        for path in ("/workers", f"/workers/{id}"):
            text = _text(admin.get(path).text)
            assert told in text
            assert ("next heartbeat" in text) == bool(told), (path, command)


def _buttons(html: str, id: str) -> list[str]:
    return list(dict.fromkeys(re.findall(rf"/workers/{id}/(quiet|resume|stop)", html)))


def test_a_worker_that_has_stopped_cannot_be_asked_anything(admin: Client, played: Jobs) -> None:
    id = scene.worker(played)
    played.storage.workers.stop(id)
    assert _buttons(admin.get(f"/workers/{id}").text, id) == []
    assert "It has stopped." in admin.get(f"/workers/{id}/stop").text
    answer = admin.post(f"/workers/{id}/stop", headers=HTMX)
    assert (answer.status_code, "has stopped" in answer.text) == (409, True)


def test_a_quiet_worker_is_shown_as_such(admin: Client, played: Jobs) -> None:
    info = played.create_worker(id=scene.worker(played)).info()
    played.admin.quiet_worker(info.id)
    assert "Takes no new jobs after its next heartbeat" in admin.get(f"/workers/{info.id}").text
    played.storage.workers.heartbeat(msgspec.structs.replace(info, status="quiet"))
    for page in ("/workers", f"/workers/{info.id}"):
        assert "Quiet" in _text(admin.get(page).text)


def test_a_worker_that_is_not_known_is_404(admin: Client, played: Jobs) -> None:
    page = admin.get("/workers/nobody")
    assert (page.status_code, "no such worker" in page.text) == (404, True)


def test_who_may_only_look_has_no_buttons_and_is_refused(as_role: Callable[[str], Client], played: Jobs) -> None:
    id, viewer = scene.worker(played), as_role("viewer")
    assert _buttons(viewer.get(f"/workers/{id}").text, id) == []
    assert viewer.post(f"/workers/{id}/stop").status_code == 403
    assert played.admin.get_worker(id).wanted is None
