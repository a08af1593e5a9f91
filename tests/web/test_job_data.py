"""Who lacks ``job.view`` gets no id, payload or error of a job, whatever else is allowed: on no page, by no command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from flask.sessions import SecureCookieSessionInterface
from hosts import PREFIX, Client, RolePolicy
from werkzeug.routing import Rule

import webui
from sloppyjobs import Jobs, Retry
from webui.policy import COMMANDS
from webui.routes import PUBLIC

CANARY = "canary-5e1d"
"""In the name, the payload, the result, the error, the keys and the log lines of every job."""
JOB_ID = re.compile(r"job_[0-9a-z]{26}")
BEARER = {"Authorization": "Bearer t0k3n"}


def _allowed(action: str) -> bool:
    return action != "job.view"


class WithoutJobs(RolePolicy):
    """May everything but look at jobs."""

    def actor(self) -> Any:
        return "clerk"

    def can(self, actor: Any, action: str, resource: webui.Resource) -> bool:
        return _allowed(action)


class CanaryError(Exception):
    """What the jobs die of; its name counts as the text of an error."""


@pytest.fixture
def busy(ready_sqlite_url: str) -> Iterator[Jobs]:
    """Jobs of every kind that carry the canary, and what is written about them elsewhere."""
    jobs = Jobs(ready_sqlite_url)

    @jobs.define("fails", queue="emails", retry=Retry(max_attempts=1))
    def fails(ctx: Any, payload: Any) -> None:
        ctx.log("info", CANARY)
        raise CanaryError(f"{CANARY} is broken")

    @jobs.define("works", queue="emails")
    def works(ctx: Any, payload: Any) -> str:
        return CANARY

    for name in ("fails", "fails", "works", "works"):
        jobs.enqueue(name, {"of": CANARY}, correlation_id=CANARY)
    jobs.create_worker(queues=("emails",), recurring=False).run_once()
    jobs.declare(f"named-{CANARY}", queue="emails")
    jobs.enqueue(f"named-{CANARY}", {"of": CANARY}, idempotency_key=CANARY)
    held = jobs.enqueue("works", {"of": CANARY}, delay=3600)
    jobs.admin.pause(held.id, actor="ops", reason="wait")
    jobs.recurring("nightly", "works", {"of": CANARY}, every=300)
    jobs.admin.trigger_recurring("nightly", actor="ops")
    jobs.admin.bulk("pause", {"correlation_id": CANARY}, actor="ops")
    jobs.claim("claimer", queues=("emails",), limit=1, lease=600)
    yield jobs
    jobs.storage.close()


@pytest.fixture
def host(busy: Jobs) -> Flask:
    app = Flask("host")
    app.config.update(SECRET_KEY="tests", TESTING=True)
    tokens = webui.TokenPolicy("t0k3n", can=lambda actor, action, resource: _allowed(action))
    app.register_blueprint(webui.create_blueprint(busy, WithoutJobs(), api_policy=tokens), url_prefix=PREFIX)
    return app


def _ours(app: Flask, method: str) -> Iterator[Rule]:
    for rule in app.url_map.iter_rules():
        action = getattr(app.view_functions[rule.endpoint], "sloppyjobs_action", PUBLIC)
        if action != PUBLIC and method in (rule.methods or ()):
            yield rule


def _cause(jobs: Jobs) -> str:
    return jobs.admin.dead_groups()[0].cause


def _addresses(app: Flask, method: str, job: str, cause: str) -> Iterator[str]:
    for rule in _ours(app, method):
        about, commands = "emails", COMMANDS
        if "schedule" in rule.endpoint or "recurring" in rule.rule:
            about, commands = "nightly", ("pause", "resume", "trigger", "delete")
        elif "queue" in rule.endpoint:
            commands = ("pause", "resume")
        elif "workflow" in rule.endpoint:
            commands = ("cancel", "retry")
        elif "batch" in rule.endpoint:
            commands = ("seal", "cancel", "retry")
        elif "worker" in rule.endpoint:
            commands = ("quiet", "resume", "stop")
        for command in commands if "command" in rule.arguments else ("",):
            values = {"id": job, "name": about, "command": command, "anything": "nope", "cause": cause}
            with app.test_request_context():
                given = {name: values[name] for name in rule.arguments}
                yield app.url_map.bind("localhost").build(rule.endpoint, given)


def _assert_nothing_of_jobs(app: Flask, response: Any, asked: str) -> None:
    texts = [response.text, response.headers.get("Location", "")]
    cookie = response.headers.get("Set-Cookie", "")
    if cookie.startswith("session="):
        # Messages for the next page lie in the session, which the browser can read.
        signer = SecureCookieSessionInterface().get_signing_serializer(app)
        assert signer is not None
        texts.append(str(signer.loads(cookie.partition("=")[2].partition(";")[0])))
    for text in texts:
        shown = text.replace(asked, "")
        assert CANARY not in shown
        assert "CanaryError" not in shown
        assert not JOB_ID.search(shown)


def test_no_page_and_no_answer_shows_a_job(host: Flask, busy: Jobs) -> None:
    dead = busy.admin.list_jobs("dead")[0].id
    shown = 0
    for address in _addresses(host, "GET", dead, _cause(busy)):
        for headers in ({}, {"HX-Request": "true"}):
            response = host.test_client().get(address, headers={**BEARER, **headers})
            _assert_nothing_of_jobs(host, response, dead)
            shown += response.status_code == 200
    assert shown > 25


def test_no_command_answers_with_a_job(host: Flask, busy: Jobs) -> None:
    dead = busy.admin.list_jobs("dead")[0].id
    for address in _addresses(host, "POST", dead, _cause(busy)):
        for headers in ({}, {"HX-Request": "true"}):
            if "/api/" in address or address.endswith("/metrics"):
                body = {"filter": {"queue": "emails"}, "dry_run": not headers}
                response = host.test_client().post(address, headers={**BEARER, **headers}, json=body)
            else:
                client, path = Client(host.test_client()), address.removeprefix(PREFIX)
                form = {"queue": "emails", "matching": "1"} if "/bulk/" in path else {}
                for origin in ("", "dead", "queue", "schedule"):
                    response = client.post(path, {**form, "from": origin}, headers=headers)
                    assert response.status_code < 500, address
                    _assert_nothing_of_jobs(host, response, dead)
            assert response.status_code < 500, address
            _assert_nothing_of_jobs(host, response, dead)


def test_a_command_is_done_and_says_so_without_the_page_that_may_not_be_seen(host: Flask, busy: Jobs) -> None:
    first, second = (job.id for job in busy.admin.list_jobs("dead"))
    client = Client(host.test_client())
    plain = client.post(f"/jobs/{first}/retry")
    assert (plain.status_code, busy.get(first).status) == (200, "queued")
    assert "Queued again" in plain.text
    by_script = client.post(f"/jobs/{second}/retry", headers={"HX-Request": "true"})
    assert (by_script.status_code, busy.get(second).status) == (200, "queued")
    assert "Queued again" in by_script.text
    api = host.test_client().post(f"{PREFIX}/api/v1/jobs/{first}/pause", headers=BEARER)
    assert api.json == {"status": "paused"}


def test_a_bulk_preview_counts_without_a_sample(host: Flask) -> None:
    preview = Client(host.test_client()).post("/bulk/retry/preview", {"matching": "1", "status": "dead"})
    assert "Retry 2 jobs?" in preview.text
    assert "sample" not in preview.text


def test_pages_of_dead_jobs_name_the_permission_that_is_missing(host: Flask) -> None:
    for path, headers in (("/dead", {}), ("/api/v1/dead", BEARER)):
        refused = host.test_client().get(PREFIX + path, headers=headers)
        assert refused.status_code == 403
        assert "job.view" in refused.text
    text = Client(host.test_client()).get("/").text
    assert f'href="{PREFIX}/dead"' not in text
    assert f'href="{PREFIX}/jobs' not in text
    assert "2 dead jobs" in text
