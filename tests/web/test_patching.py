"""Payloads patched by the form on a job's page, and by the API."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import scene
from flask import Flask
from hosts import PREFIX, Client
from sqlalchemy import select

from sloppyjobs import Jobs

BEARER = {"Authorization": "Bearer t0k3n"}


def _stored(jobs: Jobs, id: str) -> str:
    [found] = [job.payload for job in jobs.storage.inspection.jobs() if job.id == id]
    return found


def test_a_payload_is_patched_from_its_page(admin: Client, played: Jobs) -> None:
    dead = played.admin.list_jobs("dead", name="send-email")[0].id
    page = admin.get(f"/jobs/{dead}").text
    assert f'action="{PREFIX}/jobs/{dead}/patch"' in page
    assert (
        admin.post(f"/jobs/{dead}/patch", {"patch": '{"to": "new@example.org"}', "reason": "typo"}).status_code == 303
    )
    after = admin.get(f"/jobs/{dead}").text
    assert "Payload changed." in after
    assert '"to":"new@example.org"' in _stored(played, dead)
    assert scene.SECRET in _stored(played, dead)
    assert scene.SECRET not in after
    words = re.sub(r"<[^>]+>|\s+", " ", admin.get("/audit?action=patch_payload").text)
    assert "changed /to" in words
    assert "new@example.org" not in words


def test_a_patch_that_is_refused_stays_in_its_field_and_nowhere_else(admin: Client, played: Jobs) -> None:
    dead = played.admin.list_jobs("dead", name="send-email")[0].id
    before = _stored(played, dead)
    key = {"form_key": "a" * 24}
    for text in (f'{{"token": "{scene.SECRET}"', f'["{scene.SECRET}"]', "", '{"a": "\\u0000"}', "{}"):
        page = admin.post(f"/jobs/{dead}/patch", {"patch": text, "reason": "why", **key})
        assert page.status_code == 422, text
        assert 'aria-invalid="true"' in page.text
        assert html.escape(text, quote=True).replace("&quot;", "&#34;").replace("&#x27;", "&#39;") in page.text
        assert 'value="why"' in page.text
    assert _stored(played, dead) == before
    keys = played.storage.tables.form_keys  # type: ignore[attr-defined]
    with played.storage.engine.connect() as connection:
        assert scene.SECRET not in str(connection.execute(select(keys)).all())


def test_a_job_that_runs_has_no_form_and_says_so(admin: Client, played: Jobs) -> None:
    running = played.admin.list_jobs("processing")[0].id
    assert "/patch" not in admin.get(f"/jobs/{running}").text
    admin.post(f"/jobs/{running}/patch", {"patch": '{"a": 1}'})
    assert "patched" in admin.get(f"/jobs/{running}").text


def test_who_may_not_patch_has_no_form(as_role: Callable[[str | None], Client], played: Jobs) -> None:
    dead = played.admin.list_jobs("dead", name="render-invoice-pdf")[0].id
    assert "/patch" not in as_role("viewer").get(f"/jobs/{dead}").text
    assert as_role("viewer").post(f"/jobs/{dead}/patch", {"patch": '{"a": 1}'}).status_code == 403
    assert as_role("emails").post(f"/jobs/{dead}/patch", {"patch": '{"a": 1}'}).status_code in (403, 404)


def test_the_api_patches(app: Flask, played: Jobs) -> None:
    dead = played.admin.list_jobs("dead", name="send-email")[0].id
    api, address = app.test_client(), f"{PREFIX}/api/v1/jobs/{dead}/payload"
    done = api.patch(
        address, headers=BEARER, json={"merge_patch": {"cc": scene.SECRET, "password": "x"}, "reason": "ci"}
    )
    assert done.status_code == 200
    assert done.json is not None
    assert done.json["id"] == dead
    entry = played.admin.audit(dead)[0]
    assert (entry.action, entry.actor, entry.reason) == ("patch_payload", "api token", "ci")
    assert entry.detail == {"keys": ["/password", "/cc"]}
    for body, status in (({}, 400), ({"merge_patch": 1}, 400), ({"merge_patch": {"a": "\0"}}, 400)):
        assert api.patch(address, headers=BEARER, json=body).status_code == status, body
    running = played.admin.list_jobs("processing")[0].id
    lost = api.patch(f"{PREFIX}/api/v1/jobs/{running}/payload", headers=BEARER, json={"merge_patch": {"a": 1}})
    assert lost.status_code == 409
    assert api.patch(address, json={"merge_patch": {"a": 1}}).status_code == 401
