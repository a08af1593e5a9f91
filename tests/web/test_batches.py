"""The pages and the API of batches: progress, dead jobs, callbacks; seal, cancel, retry."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import scene
from hosts import PREFIX, Client

from sloppyjobs import Batch, Jobs

BEARER = {"Authorization": "Bearer t0k3n"}


def _filled(jobs: Jobs, *, queue: str = "exports", number: int = 3) -> Batch:
    with jobs.batch("exports", on_complete=("export-orders", {}), metadata={"token": scene.SECRET}) as batch:
        batch.enqueue_many([("export-orders", place, {"queue": queue, "max_attempts": 1}) for place in range(number)])
    return batch


def _post(admin: Client, path: str, body: Any) -> Any:
    return admin.client.post(f"{PREFIX}/api/v1{path}", headers=BEARER, json=body)


def test_batches_are_listed_and_shown_without_secrets(admin: Client, played: Jobs) -> None:
    batches = played.admin.list_batches()
    page = admin.get("/batches").text
    assert re.findall(r'id="row-(batch_\w+)"', page) == [one.id for one in batches]
    for one in batches:
        text = admin.get(f"/batches/{one.id}").text
        assert one.name in text
        assert scene.SECRET not in text
    assert "2 dead" in admin.get(f"/batches/{played.admin.list_batches(status='failed')[0].id}").text
    assert "fewer jobs succeeded than were needed" in page
    assert "week-end refunds" in admin.get("/batches?status=succeeded").text
    assert "No such batch" in admin.get("/batches?status=cancelled").text
    assert admin.get("/batches?status=odd").status_code == 404
    assert admin.get("/batches/batch_none").status_code == 404


def test_a_batch_whose_jobs_were_purged_says_so(admin: Client, played: Jobs) -> None:
    failed = played.admin.list_batches(status="failed")[0]
    page = admin.get(f"/batches/{failed.id}").text
    assert "2 died. Their jobs were purged." in page
    assert page.count("called, its job was purged") == 1
    asked = admin.get(f"/batches/{failed.id}/cancel").text
    assert "There is nothing to cancel." in asked
    assert "Retry the dead" not in page
    assert "status=dead" not in page
    assert "Cancel the rest</button>" not in asked


def test_a_batch_says_what_it_takes_to_end_it(admin: Client, played: Jobs) -> None:
    stream = next(one for one in played.admin.list_batches() if one.status == "open")
    assert "It ends when it is sealed." in admin.get(f"/batches/{stream.id}").text
    batch = _filled(played)
    page = admin.get(f"/batches/{batch.id}").text
    assert "no job can be added from outside. It ends when 3 more jobs have ended." in page


def test_a_job_names_its_batch_and_jobs_are_listed_by_it(admin: Client, played: Jobs) -> None:
    batch = _filled(played)
    [first, *_] = played.admin.list_jobs(batch=batch.id)
    page = admin.get(f"/jobs/{first.id}").text
    assert f'(<a href="{PREFIX}/batches/{batch.id}">{batch.id}</a>)' in page, "in the verdict"
    listed = admin.get(f"/jobs?batch={batch.id}").text
    assert len(set(re.findall(r'id="row-(job_\w+)"', listed))) == 3


def test_a_batch_is_cancelled_from_its_page(admin: Client, played: Jobs) -> None:
    batch = _filled(played)
    assert "3 jobs that have not ended will be cancelled" in re.sub(
        r"\s+", " ", admin.get(f"/batches/{batch.id}/cancel").text
    )
    assert admin.post(f"/batches/{batch.id}/cancel", {"reason": "wrong file"}).status_code == 303
    page = admin.get(f"/batches/{batch.id}").text
    assert "exports cancelled." in page
    assert "wrong file" in page
    assert played.admin.get_batch(batch.id).status == "cancelled"
    assert re.search(r"Jobs per second</dt>\s*<dd>\s*–", page), "a cancel ends all at once"
    admin.post(f"/batches/{batch.id}/cancel")
    assert "has ended" in admin.get(f"/batches/{batch.id}").text
    words = re.sub(r"<[^>]+>|\s+", " ", admin.get("/audit?action=cancel_batch").text)
    assert "Cancelled the batch exports" in words


def test_dead_jobs_are_retried_and_a_stream_is_sealed(admin: Client, played: Jobs) -> None:
    batch = _filled(played, queue="only-here", number=1)
    [claim] = played.claim("w", queues=("only-here",))
    played.fail(claim, ValueError("no"))
    page = admin.get(f"/batches/{batch.id}").text
    assert "Dead in this batch" in page
    assert claim.id in page
    admin.post(f"/batches/{batch.id}/retry")
    assert played.admin.get_batch(batch.id).status == "running"
    opened = played.open_batch("stream")
    admin.post(f"/batches/{opened.id}/seal")
    assert "stream sealed." in admin.get(f"/batches/{opened.id}").text
    assert played.admin.get_batch(opened.id).status == "succeeded"


def test_the_api_reads_and_commands(admin: Client, played: Jobs) -> None:
    batch = _filled(played)
    seen = admin.get(f"/api/v1/batches/{batch.id}", headers=BEARER).json
    assert (seen["total"], seen["status"], seen["metadata"]) == (3, "running", {"token": "[redacted]"})
    assert admin.get("/api/v1/batches?status=running", headers=BEARER).json["items"][0]["id"] == batch.id
    done = _post(admin, f"/batches/{batch.id}/cancel", {"reason": "no"})
    assert (done.status_code, done.json["status"]) == (200, "cancelled")
    assert _post(admin, f"/batches/{batch.id}/retry", {}).status_code == 409
    assert admin.get("/api/v1/batches/batch_none", headers=BEARER).status_code == 404


def test_who_may_not_command_sees_no_buttons(as_role: Callable[[str | None], Client], played: Jobs) -> None:
    batch = _filled(played)
    viewer = as_role("viewer")
    assert "/cancel" not in viewer.get(f"/batches/{batch.id}").text
    assert viewer.post(f"/batches/{batch.id}/cancel").status_code == 403


def test_a_scope_hides_batches_of_other_queues(as_role: Callable[[str | None], Client], played: Jobs) -> None:
    batch = _filled(played)
    scoped = as_role("emails")
    assert batch.id not in scoped.get("/batches").text
    assert scoped.get(f"/batches/{batch.id}").status_code == 404
