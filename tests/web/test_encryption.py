"""What the pages and the API show of encrypted jobs: previews with the key, and which key is missing without it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

import webui
from sloppyjobs import Jobs, Keyring
from sloppyjobs.testing import drain
from webui.standalone import NotConfigured, create_app

KEY = Keyring.generate()
TOKEN = "0123456789-a-random-token-in-real-life"
[KEY_ID] = Keyring([KEY]).ids


@pytest.fixture
def secret(tmp_path: Path) -> Any:
    jobs = Jobs(f"sqlite:///{tmp_path}/jobs.db", encryption=Keyring([KEY]))
    jobs.init()
    jobs.define("letter", _letter, version=2)
    jobs.enqueue("letter", {"to": "canary-88"})
    drain(jobs)
    jobs.recurring("nightly", "letter", {"to": "canary-88"}, every=3600)
    yield jobs
    jobs.storage.close()


def _letter(ctx: Any, payload: Any) -> Any:
    ctx.log("info", "canary-88 is written to")
    return payload


def _client(jobs: Jobs) -> Any:
    app = Flask("shop")
    app.config["SECRET_KEY"] = "a long random text in real life"
    app.register_blueprint(
        webui.create_blueprint(jobs, webui.AllowAll(), api_policy=webui.TokenPolicy({"tests": TOKEN}))
    )
    return app.test_client()


def _pages(jobs: Jobs) -> dict[str, str]:
    client = _client(jobs)
    [job] = jobs.admin.list_jobs()
    places = ("/jobs", f"/jobs/{job.id}", "/recurring/nightly", f"/api/v1/jobs/{job.id}", f"/api/v1/jobs/{job.id}/logs")
    found = {place: client.get(place, headers={"Authorization": f"Bearer {TOKEN}"}) for place in places}
    assert {answer.status_code for answer in found.values()} == {200}
    return {place.replace(job.id, "ID"): answer.get_data(as_text=True) for place, answer in found.items()}


def test_with_the_key_previews_are_shown(secret: Jobs) -> None:
    pages = _pages(secret)
    assert [place for place, text in pages.items() if "canary-88" not in text] == []
    assert "Payload version" in pages["/jobs/ID"]


def test_without_the_key_the_pages_name_it_and_show_nothing_stored(secret: Jobs) -> None:
    without = Jobs(secret.storage)
    pages = _pages(without)
    assert [place for place, text in pages.items() if "canary-88" in text or "$enc" in text] == []
    for place in ("/jobs/ID", "/recurring/nightly", "/api/v1/jobs/ID", "/api/v1/jobs/ID/logs"):
        assert f"ncrypted (key {KEY_ID} is not here)" in pages[place]


def test_the_result_of_a_step_is_encrypted_and_says_so(secret: Jobs) -> None:
    secret.define("in-steps", lambda ctx, _payload: ctx.step("first", lambda: "canary-88"))
    id = secret.enqueue("in-steps", {}).id
    drain(secret)
    page = _client(Jobs(secret.storage)).get(f"/jobs/{id}").get_data(as_text=True)
    steps = page.partition('id="steps"')[2].partition("</section>")[0]
    assert f"Encrypted (key {KEY_ID} is not here)" in steps


def test_a_page_and_the_api_say_which_keys_are_needed_and_what_is_left(secret: Jobs) -> None:
    def page(jobs: Jobs) -> str:
        return str(_client(jobs).get("/encryption").get_data(as_text=True))

    assert "Nothing is left to do." in page(secret)
    new = Keyring.generate()
    [new_id] = Keyring([new]).ids
    rotated = Jobs(secret.storage, encryption=Keyring([new, KEY]))
    text = page(rotated)
    assert "Decrypts only" in text and "Encrypts new texts" in text and "sloppyjobs rekey" in text
    assert KEY not in text and new not in text
    answer = _client(rotated).get("/api/v1/encryption", headers={"Authorization": f"Bearer {TOKEN}"}).get_json()
    assert (answer["keys"], answer["missing"]) == ([new_id, KEY_ID], [])
    assert answer["outdated"] == answer["needed"][KEY_ID] > 0
    cursor = None
    while (step := rotated.admin.rekey(cursor=cursor, actor="ada")).cursor is not None:
        cursor = step.cursor
    text = page(rotated)
    assert "Nothing is left to do." in text and "Finished" in text and "Started by" in text and "ada" in text
    assert "Keys are missing here" in page(secret)
    text = " ".join(page(Jobs(secret.storage)).split())
    assert "what it writes is stored unencrypted. Workers have keyrings of their own." in text
    assert "Jobs that need them die on a worker that lacks them" in text, "they live where workers have the keys"


def test_a_rekey_that_stopped_half_way_looks_stopped(secret: Jobs) -> None:
    rotated = Jobs(secret.storage, encryption=Keyring([Keyring.generate(), KEY]))
    rotated.admin.rekey(1, actor="ada")
    client = _client(rotated)

    def page() -> str:
        return " ".join(str(client.get("/encryption").get_data(as_text=True)).split())

    assert "Running" in page() and "Last moved" in page()
    rekeys = secret.storage.tables.rekeys  # type: ignore[attr-defined]
    with secret.storage.engine.begin() as connection:
        connection.execute(rekeys.update().values(moved_at=secret.storage.clock.now() - timedelta(minutes=5)))
    assert "Stopped" in page() and "It stopped before the end" in page()
    answer = client.get("/api/v1/encryption", headers={"Authorization": f"Bearer {TOKEN}"}).get_json()
    assert (answer["rekey"]["state"], answer["rekey"]["actor"]) == ("stopped", "ada")


def test_the_standalone_pages_take_keys_from_their_settings(secret: Jobs, tmp_path: Path) -> None:
    settings = {
        "SLOPPYJOBS_DATABASE_URL": f"sqlite:///{tmp_path}/jobs.db",
        "SLOPPYJOBS_WEBUI_INSECURE": "1",
        "SECRET_KEY": "a long random text in real life",
        "SLOPPYJOBS_ENCRYPTION_KEYS": KEY,
    }
    [job] = secret.admin.list_jobs()
    app = create_app(settings)
    assert "canary-88" in app.test_client().get(f"/jobs/{job.id}").get_data(as_text=True)
    with pytest.raises(NotConfigured, match=r"keys\[1\]") as refused:
        create_app({**settings, "SLOPPYJOBS_ENCRYPTION_KEYS": f"{KEY},hunter2"})
    assert KEY not in str(refused.value)
    assert "hunter2" not in str(refused.value)
