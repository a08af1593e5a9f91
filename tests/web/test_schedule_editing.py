"""Schedules made and changed on their pages, and by the API."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import scene
from flask import Flask
from hosts import PREFIX, Client, make_app
from sqlalchemy import select

from sloppyjobs import Jobs, errors

API = f"{PREFIX}/api/v1"
BEARER = {"Authorization": "Bearer t0k3n"}
NEW = {
    "name": "digest/weekly", "job": "send-email", "kind": "cron", "when": "0 7 * * 1", "timezone": "Europe/Paris",
    "payload": f'{{"template": "digest", "code": "{scene.SECRET}"}}', "misfire": "catch-up-limited",
    "catch_up_limit": "3", "priority": "5", "queue": "", "reason": "asked for",
}  # fmt: skip
ADDRESS = "/recurring/digest~2Fweekly"


def _text(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def _stored(jobs: Jobs, name: str) -> Any:
    return jobs.storage.schedules.get(name)


def _form(jobs: Jobs, client: Client, address: str = ADDRESS) -> dict[str, str]:
    """What the page of a schedule's form sends when nothing is touched."""
    text = client.get(f"{address}/edit").text
    found = dict(re.findall(r'<input\s[^>]*?name="(\w+)"\s+value="([^"]*)"', text))
    for name, options in re.findall(r'<select id="field-\w+" name="(\w+)">(.*?)</select>', text, re.DOTALL):
        [found[name]] = re.findall(r'value="([^"]+)" selected', options)
    return {name: value for name, value in found.items() if name not in ("csrf_token", "form_key", "tz", "theme", "q")}


# Pages


def test_pages_without_the_applications_jobs_say_how_they_get_them(played: Jobs) -> None:
    app = make_app(Jobs(played.storage))
    page = _text(Client(app.test_client()).get("/new-schedule").text)
    assert "knows none of the application’s jobs" in page
    assert "SLOPPYJOBS_APP" in page
    sent = app.test_client().post(f"{API}/recurring", json={"name": "s", "job_name": "x", "every": 9}, headers=BEARER)
    assert (sent.status_code, "SLOPPYJOBS_APP" in sent.text) == (400, True)


def test_a_schedule_is_made_and_is_in_the_list_and_in_the_trail(admin: Client, played: Jobs) -> None:
    assert f'href="{PREFIX}/new-schedule"' in admin.get("/recurring").text
    sent = admin.post("/new-schedule", NEW)
    assert (sent.status_code, sent.headers["Location"]) == (303, f"{PREFIX}{ADDRESS}")
    made = played.admin.get_recurring("digest/weekly")
    assert (made.cron, made.timezone, made.queue, made.priority) == ("0 7 * * 1", "Europe/Paris", "emails", 5)
    assert (made.misfire, made.catch_up_limit, made.paused, made.declared) == ("catch-up-limited", 3, False, False)
    page = admin.get(ADDRESS).text
    assert "digest/weekly created." in page
    assert f'href="{PREFIX}{ADDRESS}/edit"' in page
    assert f'href="{PREFIX}{ADDRESS}"' in admin.get("/recurring").text
    entry = played.admin.audit("digest/weekly")[0]
    assert (entry.action, entry.actor, entry.reason) == ("create_recurring", "admin", "asked for")
    assert scene.SECRET in _stored(played, "digest/weekly").payload


@pytest.mark.parametrize(
    ("kind", "when", "found"),
    [("every", "5m", (300.0, None)), ("every", "90", (90.0, None)), ("once", "2040-01-31T09:00", (None, 8))],
)
def test_intervals_and_single_times_are_written_as_people_write_them(
    admin: Client, played: Jobs, kind: str, when: str, found: tuple[float | None, int | None]
) -> None:
    assert admin.post("/new-schedule", {**NEW, "kind": kind, "when": when, "paused": "1"}).status_code == 303
    made = played.admin.get_recurring("digest/weekly")
    assert (made.every, made.at and made.at.hour) == found
    assert made.paused
    assert f'value="{"300" if when == "5m" else when}"' in admin.get(f"{ADDRESS}/edit").text


def test_what_is_not_touched_stays_as_it_is(admin: Client, played: Jobs) -> None:
    admin.post("/new-schedule", {**NEW, "priority": ""})
    before = _stored(played, "digest/weekly")
    untouched = _form(played, admin)
    assert {"kind", "when", "timezone", "queue", "priority", "misfire", "catch_up_limit", "seen"} <= untouched.keys()
    assert admin.post(f"{ADDRESS}/edit", untouched).status_code == 303
    assert "Nothing was changed." in admin.get(ADDRESS).text
    assert len(played.admin.audit("digest/weekly")) == 1
    assert admin.post(f"{ADDRESS}/edit", {**untouched, "catch_up_limit": "9", "reason": "more"}).status_code == 303
    after = _stored(played, "digest/weekly")
    assert after.catch_up_limit == 9
    # The job's own queue and priority did not become the schedule's, and an empty payload keeps the stored one.
    assert (after.queue, after.priority, after.payload, after.cursor) == (None, None, before.payload, before.cursor)
    entry = played.admin.audit("digest/weekly")[0]
    assert (entry.action, entry.actor, entry.reason) == ("edit_recurring", "admin", "more")


def test_timing_queue_and_payload_are_changed(admin: Client, played: Jobs) -> None:
    admin.post("/new-schedule", NEW)
    changed = {"kind": "every", "when": "2h", "queue": "media", "payload": "[1]", "priority": ""}
    assert admin.post(f"{ADDRESS}/edit", {**_form(played, admin), **changed}).status_code == 303
    after = _stored(played, "digest/weekly")
    assert (after.every, after.cron, after.queue, after.payload) == (7200.0, None, "media", "[1]")
    assert after.priority is None
    assert "digest/weekly changed." in admin.get(ADDRESS).text


def test_somebody_elses_change_is_not_undone(admin: Client, played: Jobs) -> None:
    admin.post("/new-schedule", NEW)
    old = _form(played, admin)
    played.admin.edit_recurring("digest/weekly", cron="5 5 * * *", actor="ada")
    refused = admin.post(f"{ADDRESS}/edit", {**old, "priority": "7"})
    assert refused.status_code == 422
    assert "Somebody has changed this schedule meanwhile." in refused.text
    assert 'value="7"' in refused.text
    assert _stored(played, "digest/weekly").cron == "5 5 * * *"


@pytest.mark.parametrize(
    ("changed", "field", "why"),
    [
        ({"name": " "}, "name", "Write a name."),
        ({"name": "nightly-rollup"}, "name", "This name is taken."),
        ({"job": ""}, "job", "Write the name of a job."),
        ({"job": "nobody"}, "job", "No job of this name is defined here."),
        ({"kind": "sometimes"}, "kind", "Choose one from the list."),
        ({"when": ""}, "when", "Write five fields"),
        ({"when": "61 * * * *"}, "when", "Write"),
        ({"when": "0 3 30 2 *"}, "when", "This never fires."),
        ({"kind": "every", "when": "often"}, "when", "Write a length of time"),
        ({"kind": "every", "when": "0"}, "when", "at least 1 second"),
        ({"kind": "once", "when": "tomorrow"}, "when", "Write a date and a time"),
        ({"timezone": "Mars/Base"}, "timezone", "Write an IANA name"),
        ({"payload": "{"}, "payload", "Write JSON"),
        ({"payload": '{"a": "\\u0000"}'}, "payload", "payload"),
        ({"priority": "high"}, "priority", "Write a whole number"),
        ({"queue": "q" * 300}, "queue", "Must"),
        ({"misfire": "guess"}, "misfire", "Choose one of"),
        ({"catch_up_limit": "0"}, "catch_up_limit", "Write an integer from 1"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_cannot_work_is_refused_in_place(
    admin: Client, played: Jobs, changed: Mapping[str, str], field: str, why: str
) -> None:
    before = len(played.admin.list_recurring())
    refused = admin.post("/new-schedule", {**NEW, "form_key": "k" * 24, **changed})
    assert refused.status_code == 422
    assert why in _text(refused.text)
    assert f'aria-describedby="field-{field}-error"' in refused.text
    assert f'href="#field-{field}"' in refused.text
    assert 'value="asked for"' in refused.text
    assert len(played.admin.list_recurring()) == before
    keys = played.storage.tables.form_keys  # type: ignore[attr-defined]
    with played.storage.engine.connect() as connection:
        assert scene.SECRET not in str(connection.execute(select(keys)).all())


def test_every_wrong_field_is_named_at_once_and_a_long_payload_stays_whole(admin: Client) -> None:
    long = "[" + "1," * 5_000
    refused = admin.post("/new-schedule", {**NEW, "name": "", "when": "x", "payload": long})
    assert "3 fields need a change." in refused.text
    assert long in refused.text


def test_an_edit_that_cannot_work_changes_nothing(admin: Client, played: Jobs) -> None:
    admin.post("/new-schedule", NEW)
    before = _stored(played, "digest/weekly")
    refused = admin.post(f"{ADDRESS}/edit", {**_form(played, admin), "when": "61 * * * *", "reason": "kept"})
    assert refused.status_code == 422
    assert 'aria-describedby="field-when-error"' in refused.text
    assert 'value="61 * * * *"' in refused.text and 'value="kept"' in refused.text
    assert _stored(played, "digest/weekly") == before


def test_no_page_shows_a_payload_that_was_written(admin: Client, played: Jobs) -> None:
    admin.post("/new-schedule", {**NEW, "payload": f'{{"token": "{scene.SECRET}"}}'})
    for path in (ADDRESS, f"{ADDRESS}/edit", "/recurring", "/audit"):
        assert scene.SECRET not in admin.get(path).text, path
    assert 'name="payload"' in admin.get(f"{ADDRESS}/edit").text


def test_a_preview_says_when_it_would_fire_and_writes_nothing(admin: Client, played: Jobs) -> None:
    shown = admin.post("/new-schedule/preview", NEW)
    assert shown.status_code == 200
    assert "At 07:00 on Monday" in _text(shown.text)
    assert "In Europe/Paris" in _text(shown.text)
    assert shown.text.count('<tr role="row"') >= 5
    assert 'value="digest/weekly"' in shown.text
    wrong = {**NEW, "when": "0 3 30 2 *"}
    assert admin.post("/new-schedule/preview", wrong).status_code == 422
    typing = admin.post("/new-schedule/preview", wrong, headers={"HX-Request": "true"})
    assert typing.status_code == 200
    assert "This never fires." in typing.text
    edited = admin.post("/recurring/nightly-rollup/edit/preview", {"kind": "every", "when": "5m", "timezone": "UTC"})
    assert "Every 5 minutes" in edited.text
    with pytest.raises(errors.UnknownSchedule):
        played.admin.get_recurring("digest/weekly")
    assert played.admin.get_recurring("nightly-rollup").cron == "30 2 * * *"


def test_those_declared_in_code_say_so_and_are_read_only(admin: Client, played: Jobs, app: Flask) -> None:
    played.declare_recurring("from-code", "send-email", {}, cron="0 1 * * *")
    played.schedules.sync()
    page = admin.get("/recurring/from-code").text
    assert "in code, and changed there" in page
    assert "/recurring/from-code/edit" not in page
    form = admin.get("/recurring/from-code/edit").text
    assert "from-code is declared in code." in form
    assert 'id="schedule-form"' not in form
    assert admin.post("/recurring/from-code/edit", {"kind": "every", "when": "5m"}).status_code == 303
    assert "declared in code and changed there" in admin.get("/recurring/from-code").text
    api = app.test_client().patch(f"{API}/recurring/from-code", headers=BEARER, json={"every": 5})
    assert api.status_code == 409
    assert played.admin.get_recurring("from-code").cron == "0 1 * * *"


def test_who_may_not_is_offered_nothing_and_refused(as_role: Callable[[str | None], Client], played: Jobs) -> None:
    viewer = as_role("viewer")
    assert "new-schedule" not in viewer.get("/recurring").text
    assert "/edit" not in viewer.get("/recurring/nightly-rollup").text
    for path in ("/new-schedule", "/recurring/nightly-rollup/edit"):
        assert viewer.get(path).status_code == 403
        assert viewer.post(path, NEW).status_code == 403
        assert viewer.post(f"{path}/preview", NEW).status_code == 403
    assert len(played.admin.list_recurring()) == 4


def test_a_scope_is_kept_to(as_role: Callable[[str | None], Client], played: Jobs) -> None:
    scoped = as_role("emails")
    assert scoped.get("/recurring/nightly-rollup/edit").status_code == 404
    assert scoped.post("/recurring/nightly-rollup/edit", {"kind": "every", "when": "5m"}).status_code == 404
    for changed in ({"queue": "rollups"}, {"job": "rollup-daily-metrics"}, {"job": "nobody"}):
        refused = scoped.post("/new-schedule", {**NEW, **changed})
        assert refused.status_code == 422, changed
        assert 'aria-describedby="field-queue-error"' in refused.text
    assert "rollup-daily-metrics" not in scoped.get("/new-schedule").text
    assert scoped.post("/new-schedule", NEW).status_code == 303
    moved = scoped.post(f"{ADDRESS}/edit", {**_form(played, scoped), "queue": "rollups"})
    assert moved.status_code == 422
    assert _stored(played, "digest/weekly").queue is None


def test_a_form_without_the_token_or_sent_twice_does_no_harm(admin: Client, played: Jobs) -> None:
    sent = admin.client.post(f"{PREFIX}/new-schedule", data=NEW, headers=admin.headers)
    assert sent.status_code == 400
    # What was typed is there to be sent again.
    assert 'value="digest/weekly"' in sent.text and 'value="0 7 * * 1"' in sent.text
    assert len(played.admin.list_recurring()) == 4
    twice = [admin.post("/new-schedule", {**NEW, "form_key": "t" * 24}) for _ in range(2)]
    assert [one.status_code for one in twice] == [303, 303]
    assert len(played.admin.audit("digest/weekly")) == 1


# The API


def test_the_api_makes_and_changes_schedules(app: Flask, played: Jobs) -> None:
    client = app.test_client()

    def post(body: dict[str, Any]) -> Any:
        return client.post(f"{API}/recurring", headers=BEARER, json=body)

    def patch(name: str, body: dict[str, Any]) -> Any:
        return client.patch(f"{API}/recurring/{name}", headers=BEARER, json=body)

    new = {"name": "api", "job_name": "send-email", "payload": {"token": scene.SECRET}, "every": 60, "reason": "ci"}
    made = post({**new, "paused": True})
    assert (made.status_code, made.json["every"], made.json["paused"]) == (200, 60, True)
    assert scene.SECRET not in made.text
    entry = played.admin.audit("api")[0]
    assert (entry.action, entry.actor, entry.reason) == ("create_recurring", "api token", "ci")
    taken = post(new)
    assert (taken.status_code, "already" in taken.json["error"]["message"]) == (409, True)
    wrong: tuple[dict[str, Any], ...] = (
        {"job_name": "nobody"}, {"every": None}, {"cron": "0 0 * * *"}, {"every": "60"}, {"declared": True},
        {"name": None}, {"job_name": ["x"]}, {"timezone": 5}, {"paused": "no"}, {"payload": "\0"}, {"reason": 5},
    )  # fmt: skip
    for body in wrong:
        assert post({**new, "name": "other", **body}).status_code == 400, body
    changed = patch("api", {"cron": "0 2 * * *", "timezone": "Europe/Paris"})
    assert (changed.json["kind"], changed.json["timezone"], changed.json["paused"]) == ("cron", "Europe/Paris", True)
    assert scene.SECRET in _stored(played, "api").payload
    for body in ({"paused": False}, {"name": "x"}, {"cron": "x"}, {"queue": 5}):
        assert patch("api", body).status_code == 400, body
    assert patch("nobody", {"every": 5}).status_code == 404
    assert client.post(f"{API}/recurring", json=new).status_code == 401
    paths: Any = client.get(f"{API}/openapi.json", headers=BEARER).json["paths"]  # type: ignore[index]
    assert paths["/recurring"]["post"]["x-permission"] == "recurring.create"
    assert paths["/recurring/{name}"]["patch"]["x-permission"] == "recurring.edit"
