"""The page and the API of queues in which priorities rise while jobs wait."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from hosts import PREFIX, Client

from sloppyjobs import Jobs

API = f"{PREFIX}/api/v1"
BEARER = {"Authorization": "Bearer t0k3n"}
HTMX = {"HX-Request": "true"}
STAY = "Priorities do not change while jobs wait."


def _text(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_priorities_are_let_rise_and_stay_on_the_page_of_a_queue(admin: Client, played: Jobs) -> None:
    assert STAY in admin.get("/queues/emails").text
    sent = admin.post("/queues/emails/age", {"every": "60", "most": "1,000", "reason": "slow ones"})
    assert sent.status_code == 303
    assert played.admin.queue_ageing("emails") == (60.0, 1_000)
    page = admin.get("/queues/emails").text
    assert "emails: Priorities rise by one every 60 s, by 1,000 at most." in page
    assert 'value="60"' in page
    assert 'value="1000"' in page
    entry = played.admin.audit("emails")[0]
    assert (entry.action, entry.actor, entry.reason) == ("set_queue_ageing", "admin", "slow ones")
    assert "priorities rise by one every 60 s, by 1,000 at most" in admin.get("/audit").text
    stopped = admin.post("/queues/emails/age", {"every": "", "most": "1000"}, headers=HTMX)
    assert stopped.status_code == 200
    assert STAY in stopped.text
    assert played.admin.queue_ageing("emails") is None
    assert "priorities do not change while jobs wait" in admin.get("/audit").text


def test_the_page_says_what_code_declares(admin: Client, played: Jobs) -> None:
    code = Jobs(played.storage, application="mailer")
    code.declare_queue("emails", age=60)
    code.declared_queues.sync()
    rule = "Priorities rise by one every 60 s, by 10 at most."
    assert f"{rule} Code declares so." in admin.get("/queues/emails").text
    admin.post("/queues/emails/age", {"every": "", "most": "10"})
    assert f"{STAY} Code declares something else." in admin.get("/queues/emails").text
    Jobs(played.storage, application="mailer").declared_queues.sync()
    assert f"{STAY} Their rise is no longer declared in code." in admin.get("/queues/emails").text


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("every", "often", "Write seconds, such as 60."),
        ("every", "0", "Must be at least 1 second."),
        ("every", "nan", "Must be finite and at most 100 years."),
        ("most", "", "Write a whole number, such as 10."),
        ("most", "0", "Must be from 1 to 1,000,000."),
    ],
)
def test_numbers_that_make_no_sense_are_refused_in_place(
    admin: Client, played: Jobs, field: str, value: str, why: str
) -> None:
    refused = admin.post("/queues/emails/age", {"every": "60", "most": "10", "reason": "kept", field: value})
    assert refused.status_code == 422
    assert why in _text(refused.text)
    assert 'id="ageing" open' in refused.text
    assert f'aria-describedby="ageing-{field}-error"' in refused.text
    assert 'value="kept"' in refused.text
    assert played.admin.queue_ageing("emails") is None


def test_who_may_not_change_priorities_sees_them_only(
    as_role: Callable[[str | None], Client], admin: Client, played: Jobs
) -> None:
    viewer, scoped = as_role("viewer"), as_role("emails")
    page = viewer.get("/queues/emails").text
    assert STAY in page
    assert "/queues/emails/age" not in page
    assert viewer.post("/queues/emails/age", {"every": "60", "most": "10"}).status_code == 403
    assert scoped.post("/queues/invoices/age", {"every": "60", "most": "10"}).status_code == 404
    assert admin.post("/queues/mistyped/age", {"every": "60", "most": "10"}).status_code == 404
    assert {played.admin.queue_ageing(name) for name in ("emails", "invoices", "mistyped")} == {None}
    assert scoped.post("/queues/emails/age", {"every": "60", "most": "10"}).status_code == 303
    assert played.admin.queue_ageing("emails") == (60.0, 10)


def test_a_form_without_the_token_changes_nothing(admin: Client, played: Jobs) -> None:
    form = {"every": "60", "most": "10"}
    sent = admin.client.post(f"{PREFIX}/queues/emails/age", data=form, headers=admin.headers)
    assert sent.status_code == 400
    assert played.admin.queue_ageing("emails") is None


def test_the_api_reads_and_changes_how_priorities_rise(app: Flask, played: Jobs) -> None:
    client = app.test_client()

    def post(queue: str, body: dict[str, Any]) -> Any:
        return client.post(f"{API}/queues/{queue}/age", headers=BEARER, json=body)

    def read() -> Any:
        found: Any = client.get(f"{API}/queues/emails", headers=BEARER).json
        return found["ageing_seconds"], found["ageing_most"]

    assert read() == (None, None)
    done = post("emails", {"every": 90, "reason": "ci"}).json
    assert (done["ageing_seconds"], done["ageing_most"]) == (90, 10)
    assert read() == (90, 10)
    entry = played.admin.audit("emails")[0]
    assert (entry.action, entry.actor, entry.reason) == ("set_queue_ageing", "api token", "ci")
    for body in ({}, {"every": 0}, {"every": "60"}, {"every": 60, "most": 0}, {"every": 60, "most": 1.5}):
        assert post("emails", body).status_code == 400, body
    assert read() == (90, 10)
    assert post("mistyped", {"every": 60}).status_code == 404
    assert post("emails", {"every": None}).status_code == 200
    assert read() == (None, None)
    document: Any = client.get(f"{API}/openapi.json", headers=BEARER).json
    assert document["paths"]["/queues/{name}/age"]["post"]["x-permission"] == "queue.age"


def test_the_page_of_a_queued_job_says_how_its_priority_rises(admin: Client, played: Jobs) -> None:
    job = played.enqueue("send-email", {"to": "ada"}, queue="emails")
    played.admin.set_queue_ageing("emails", 60, most=3)
    assert "rise by one every 60 s, by 3 at most." in _text(admin.get(f"/jobs/{job.id}").text)
