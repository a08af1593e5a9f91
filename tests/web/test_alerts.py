"""The page and the API of alerts: rules, what was told to whom, a test."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import scene
from flask import Flask
from hosts import PREFIX, Client, make_app

from sloppyjobs import Jobs

BEARER = {"Authorization": "Bearer t0k3n"}


@pytest.fixture
def played(played: Jobs) -> Jobs:
    """The scene, which may have been made a while ago, with workers that have just declared its rules."""
    rules = played.storage.tables.alert_rules  # type: ignore[attr-defined]
    with played.storage.engine.begin() as connection:
        connection.execute(rules.update().values(seen_at=played.storage.clock.now()))
    return played


def test_rules_and_deliveries_are_shown_without_secrets(admin: Client, played: Jobs) -> None:
    text = admin.get("/alerts").text
    for word in ("dead-invoices", "tell_billing", "https://hooks.internal", "Sent", "Retrying", "HTTP 503", "Quiet"):
        assert word in text, word
    assert scene.SECRET not in text
    one = admin.get("/alerts?rule=dead-invoices").text
    assert "Deliveries of dead-invoices" in one
    assert "HTTP 503" not in one
    job = played.admin.list_alerts("dead-invoices")[0].job_id
    assert f"/jobs/{job}" in one


def test_what_is_open_now_stands_first_with_what_became_of_it(admin: Client, played: Jobs) -> None:
    now = _open_now(admin)
    assert re.search(r"dead-invoices : .* \( .* , sent to tell_billing\)", now)
    assert re.search(r"dead-anything : .* \( .* , not sent to https://hooks.internal yet, will be tried again\)", now)
    assert "worker-gone" not in now
    assert _open_now(admin, "?rule=dead-invoices") == ""
    [told] = played.admin.list_alerts("dead-invoices")
    alerts = played.storage.tables.alerts  # type: ignore[attr-defined]
    with played.storage.engine.begin() as connection:
        row = connection.execute(alerts.select().where(alerts.c.job_id == told.job_id)).mappings().one()
        connection.execute(alerts.insert().values({**row, "cause": "another"}))
    assert _open_now(admin).count("dead-invoices :") == 2, "every cause of a rule"
    with played.storage.engine.begin() as connection:
        connection.execute(alerts.update().values(created_at=played.storage.clock.now() - timedelta(days=1)))
    assert _open_now(admin) == ""


def _open_now(admin: Client, query: str = "") -> str:
    panel = admin.get(f"/alerts{query}").text.partition(">Open now<")[2].partition("</section>")[0]
    return " ".join(re.sub(r"<[^>]+>", " ", panel).split())


def test_a_test_is_sent_from_the_page(admin: Client, played: Jobs) -> None:
    assert admin.post("/alerts/dead-invoices/test").status_code == 303
    assert "Test queued." in admin.get("/alerts").text
    sent = played.admin.list_alerts("dead-invoices")[0]
    assert (sent.test, sent.status) == (True, "pending")
    words = re.sub(r"<[^>]+>|\s+", " ", admin.get("/audit?action=test_alert").text)
    assert re.search(r"Sent a test of the alert\s+dead-invoices", words)
    assert admin.post("/alerts/none/test").status_code == 404


def test_a_rule_is_muted_and_unmuted_from_the_page(admin: Client, played: Jobs) -> None:
    assert admin.post("/alerts/dead-invoices/mute", {"until": "60", "reason": "year-end"}).status_code == 303
    text = " ".join(re.sub(r"<[^>]+>", " ", admin.get("/alerts").text).split())
    assert "Muted until" in text
    assert "year-end" in text
    assert "1 muted" in text
    rule = next(rule for rule in played.admin.list_alert_rules() if rule.name == "dead-invoices")
    assert rule.muted_until is not None
    assert timedelta(minutes=59) < rule.muted_until - played.storage.clock.now() <= timedelta(hours=1)
    words = re.sub(r"<[^>]+>|\s+", " ", admin.get("/audit?action=mute_alert").text)
    assert re.search(r"Muted the alert\s+dead-invoices\s+until", words)
    assert admin.post("/alerts/dead-invoices/unmute").status_code == 303
    assert "Muted until" not in admin.get("/alerts").text
    assert admin.post("/alerts/none/mute", {"until": ""}).status_code == 404


def test_a_mute_that_makes_no_sense_is_refused_in_place(admin: Client, played: Jobs) -> None:
    refused = admin.post("/alerts/dead-invoices/mute", {"until_at": "2020-01-01T00:00", "reason": "typed"})
    assert refused.status_code == 422
    assert "Choose a time in the future." in refused.text
    assert 'value="typed"' in refused.text
    assert "Choose how long from the list." in admin.post("/alerts/dead-invoices/mute", {"until": "7"}).text
    assert not any(rule.muted for rule in played.admin.list_alert_rules())


def test_what_a_muted_rule_found_is_listed_without_a_job(admin: Client, played: Jobs) -> None:
    alerts = played.storage.tables.alerts  # type: ignore[attr-defined]
    [told, *_] = played.admin.list_alerts("dead-invoices")
    with played.storage.engine.begin() as connection:
        connection.execute(
            alerts.update().where(alerts.c.job_id == told.job_id).values(state="muted", job_id="job_of_none")
        )
    text = admin.get("/alerts?rule=dead-invoices").text
    assert "job_of_none" not in text
    assert ">Muted<" in re.sub(r"\s*\n\s*", "", text)


def test_who_may_not_test_has_no_button(as_role: Callable[[str | None], Client]) -> None:
    viewer = as_role("viewer")
    assert "Send a test" not in viewer.get("/alerts").text
    assert viewer.post("/alerts/dead-invoices/test").status_code == 403
    for command in ("mute", "unmute"):
        assert f"/alerts/dead-invoices/{command}" not in viewer.get("/alerts").text
        assert viewer.post(f"/alerts/dead-invoices/{command}").status_code == 403
    assert as_role("emails").get("/alerts").status_code == 403


def test_a_rule_that_code_declares_no_more_is_shown_as_such(admin: Client, played: Jobs) -> None:
    rules = played.storage.tables.alert_rules  # type: ignore[attr-defined]
    with played.storage.engine.begin() as connection:
        old = played.storage.clock.now().replace(year=2020)
        connection.execute(rules.update().where(rules.c.name == "worker-gone").values(seen_at=old))
    page = admin.get("/alerts").text
    assert page.count("No longer declared in code") == 1
    assert "/alerts/dead-invoices/test" in page
    assert "/alerts/worker-gone/test" not in page, "nobody would send it"


def test_without_a_worker_the_page_does_not_say_that_rules_left_the_code(admin: Client, played: Jobs) -> None:
    rules = played.storage.tables.alert_rules  # type: ignore[attr-defined]
    with played.storage.engine.begin() as connection:
        connection.execute(rules.update().values(seen_at=played.storage.clock.now().replace(year=2020)))
    page = admin.get("/alerts").text
    assert page.count("Not watched: no worker is running") == 3
    assert "No longer declared in code" not in page
    played.storage.workers.register(played.create_worker(queues=("media",)).info())
    assert Client(make_app(played).test_client()).get("/alerts").text.count("No longer declared in code") == 3


def test_without_rules_the_page_says_what_to_do(jobs: Jobs) -> None:
    assert "declare_alert" in Client(make_app(jobs).test_client()).get("/alerts").text


def test_the_api_lists_and_tests(app: Flask, played: Jobs) -> None:
    api = app.test_client()
    rules = api.get(f"{PREFIX}/api/v1/alert-rules", headers=BEARER).json
    assert rules is not None
    assert [rule["name"] for rule in rules] == ["dead-anything", "dead-invoices", "worker-gone"]
    found = api.get(f"{PREFIX}/api/v1/alerts?rule=dead-invoices", headers=BEARER).json
    assert found is not None
    assert {alert["status"] for alert in found["items"]} == {"told"}
    sent = api.post(f"{PREFIX}/api/v1/alert-rules/dead-invoices/test", headers=BEARER, json={"reason": "ci"})
    assert sent.json is not None
    assert sent.json["test"]
    entry = played.admin.audit("dead-invoices")[0]
    assert (entry.action, entry.actor, entry.reason) == ("test_alert", "api token", "ci")
    assert api.post(f"{PREFIX}/api/v1/alert-rules/none/test", headers=BEARER).status_code == 404


def test_the_api_mutes_and_unmutes(app: Flask, played: Jobs) -> None:
    api, end = app.test_client(), (played.storage.clock.now() + timedelta(hours=2)).isoformat()

    def post(command: str, **given: str) -> Any:
        return api.post(f"{PREFIX}/api/v1/alert-rules/dead-invoices/{command}", headers=BEARER, json=given)

    muted = post("mute", until=end, reason="ci").json
    assert (muted["muted"], muted["muted_by"], muted["mute_reason"]) == (True, "api token", "ci")
    assert post("mute", until="yesterday").status_code == 400
    assert post("unmute").json["muted"] is False
    assert [entry.action for entry in played.admin.audit("dead-invoices")] == ["unmute_alert", "mute_alert"]
    assert api.post(f"{PREFIX}/api/v1/alert-rules/none/mute", headers=BEARER).status_code == 404
