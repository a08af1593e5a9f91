"""The JSON mirror, its document, the metrics and the probes."""

from __future__ import annotations

from typing import Any

import pytest
import scene
from flask import Flask
from hosts import PREFIX, make_app

import webui
from sloppyjobs import Jobs, Retry

API = f"{PREFIX}/api/v1"
BEARER = {"Authorization": "Bearer t0k3n"}


class Api:
    """A client with a token."""

    def __init__(self, app: Flask, headers: dict[str, str] | None = None) -> None:
        self.client = app.test_client()
        self.headers = BEARER if headers is None else headers

    def get(self, path: str) -> Any:
        return self.client.get(API + path, headers=self.headers)

    def post(self, path: str, body: Any = None) -> Any:
        return self.client.post(API + path, headers=self.headers, json=body or {})


@pytest.fixture
def api(app: Flask) -> Api:
    return Api(app)


def test_only_bearer_tokens_count(app: Flask) -> None:
    for headers in ({}, {"X-Role": "admin"}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic b3BzOng="}):
        response = Api(app, headers).get("/jobs")
        assert response.status_code == 401
        assert "Bearer" in response.headers["WWW-Authenticate"]


def test_reads_answer_and_show_no_secret(api: Api, played: Jobs) -> None:
    dead = played.admin.list_jobs("dead", name="send-email")[0].id
    paths = ["/overview", "/stats", "/jobs", f"/jobs/{dead}", f"/jobs/{dead}/attempts", f"/jobs/{dead}/events",
             f"/jobs/{dead}/logs", f"/jobs/{dead}/explain", "/dead", "/queues", "/queues/emails", "/recurring",
             "/recurring/nightly-rollup", "/workers", "/locks", "/limits", "/limits/payments-api", "/audit", "/archive",
             "/alerts", "/alert-rules", "/workflows",
             f"/archive/{played.admin.search_archive()[0].id}", "/batches",
             f"/batches/{played.admin.list_batches()[0].id}"]  # fmt: skip
    for path in paths:
        response = api.get(path)
        assert response.status_code == 200, path
        assert response.mimetype == "application/json"
        assert scene.SECRET not in response.text, path
        assert '"payload":' not in response.text, path


def test_jobs_are_filtered_and_walked(api: Api) -> None:
    page = api.get("/jobs?status=dead&status=paused&page_size=2").json
    assert {job["status"] for job in page["items"]} <= {"dead", "paused"}
    following = api.get(f"/jobs?status=dead&status=paused&page_size=2&cursor={page['next_cursor']}").json
    assert following["items"]
    assert following["items"] != page["items"]


def test_a_job_is_commanded_by_the_tokens_name(api: Api, played: Jobs) -> None:
    dead = played.admin.list_jobs("dead")[0].id
    assert api.post(f"/jobs/{dead}/retry", {"reason": "ci"}).json["status"] == "queued"
    entry = played.admin.audit(dead)[0]
    assert (entry.actor, entry.reason) == ("api token", "ci")
    assert api.post(f"/jobs/{dead}/delete").status_code == 200
    lost = api.post(f"/jobs/{dead}/retry")
    assert lost.status_code == 409
    assert lost.json["error"]["code"] == "SLOPPY_E_JOBS_TRANSITION_INVALID"


def test_a_large_bulk_command_is_continued_by_its_cursor(
    api: Api, played: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webui.api.commands.AT_ONCE", 2)
    body = {"filter": {"status": "dead"}, "limit": 10_000}
    number = api.post("/bulk/retry", {**body, "dry_run": True}).json["done"]
    answer = api.post("/bulk/retry", body).json
    assert (answer["done"], answer["more"]) == (2, True)
    while answer["next_cursor"] is not None:
        answer = api.post("/bulk/retry", {**body, "cursor": answer["next_cursor"]}).json
    assert (answer["done"], answer["more"]) == (number, False)
    assert api.post("/bulk/retry", {**body, "cursor": "damaged"}).status_code == 400


def test_bulk_has_a_dry_run(api: Api, played: Jobs) -> None:
    body = {"filter": {"status": "dead"}, "dry_run": True}
    dry = api.post("/bulk/retry", body).json
    assert dry["done"] == dry["matched"] > 0
    assert api.post("/bulk/retry", {**body, "dry_run": False}).json["done"] == dry["done"]
    assert len(played.admin.list_jobs("dead")) == 0
    assert api.post("/bulk/delete", {}).status_code == 400
    assert api.post("/bulk/delete", {"filter": {}}).status_code == 400


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/bulk/delete", {"filter": {"status": "dead"}, "dryrun": True}, "did you mean 'dry_run'?"),
        ("/bulk/delete", {"filter": {"status": "dead"}, "dry_run": "false"}, "must be true or false"),
        ("/bulk/delete", {"filter": {"status": "dead"}, "x" * 9_000: 1}, "is no option of the body"),
        ("/queues/emails/pause", {"untill": "2099-01-01T00:00:00Z"}, "did you mean 'until'?"),
        ("/limits/payments-api/set", {"concurency": 1}, "did you mean 'concurrency'?"),
        ("/limits/other/set", {"concurrency": 1, "create": "no"}, "must be true or false"),
    ],
    ids=["a dry run", "no truth", "a long name", "an end", "a limit", "a new limit"],
)
def test_a_misspelt_field_is_refused_and_nothing_is_done(
    api: Api, played: Jobs, path: str, body: Any, said: str
) -> None:
    dead, audited = len(played.admin.list_jobs("dead")), len(played.admin.audit())
    refused = api.post(path, body)
    assert (refused.status_code, refused.json["error"]["code"]) == (400, "SLOPPY_E_JOBS_INVALID_OPTION")
    assert said in refused.json["error"]["message"].lower() and len(refused.text) < 2_000
    assert (len(played.admin.list_jobs("dead")), len(played.admin.audit())) == (dead, audited)
    assert not played.admin.get_queue("emails").paused


def test_a_worker_is_shown_and_commanded(api: Api, played: Jobs) -> None:
    id = scene.worker(played)
    shown = api.get(f"/workers/{id}").json
    assert (shown["done"], shown["failed"], len(shown["jobs"])) == (40_311, 322, 2)
    assert api.post(f"/workers/{id}/quiet", {"reason": "deploy"}).json["wanted"] == "quiet"
    assert api.post(f"/workers/{id}/resume").json["wanted"] is None
    assert api.post(f"/workers/{id}/stop").json["wanted"] == "stop"
    assert api.post(f"/workers/{id}/resume").status_code == 409
    assert api.get("/workers/nobody").json["error"]["code"] == "SLOPPY_E_JOBS_UNKNOWN_WORKER"
    assert played.admin.audit(id)[2].reason == "deploy"


def test_queues_and_schedules_are_commanded(api: Api, played: Jobs) -> None:
    assert api.post("/queues/emails/pause", {"until": "2099-01-01T00:00:00Z"}).json["paused"] is True
    assert api.post("/queues/emails/resume").json["paused"] is False
    assert api.post("/recurring/nightly-rollup/trigger").json["status"] == "queued"
    assert api.post("/recurring/nightly-rollup/pause").json["paused"] is True
    assert api.post("/recurring/nightly-rollup/delete").status_code == 200
    assert api.get("/recurring/nightly-rollup").status_code == 404


@pytest.mark.parametrize(
    "path", ["/jobs?status=nonsense", "/jobs?page_size=x", "/jobs?nope=1", "/jobs?cursor=forged", "/stats?minutes=0"]
)
def test_bad_questions_are_explained_as_json(api: Api, path: str) -> None:
    response = api.get(path)
    assert response.status_code == 400
    assert response.json["error"]["message"]


def test_unknown_things_are_404_as_json(api: Api) -> None:
    for path in ("/jobs/job_x", "/queues/nope", "/recurring/nope"):
        response = api.get(path)
        assert response.status_code == 404
        assert response.json["error"]["code"].startswith("SLOPPY_E_JOBS_UNKNOWN")


def test_a_bad_body_is_explained(api: Api, played: Jobs) -> None:
    dead = played.admin.list_jobs("dead")[0].id
    for data in (b"{", b"[]", b'{"reason": 5}'):
        response = api.client.post(f"{API}/jobs/{dead}/retry", data=data, headers=BEARER)
        assert response.status_code == 400
    assert played.get(dead).status == "dead"


def test_a_key_that_another_job_has_by_now_is_a_conflict(api: Api, played: Jobs) -> None:
    played.declare("keyed", retry=Retry(max_attempts=1))
    dead = played.enqueue("keyed", queue="keyed", business_key="account:42")
    [claim] = played.claim("worker-1", queues=("keyed",))
    played.fail(claim, "no")
    holder = played.enqueue("keyed", queue="keyed", business_key="account:42")
    response = api.client.post(f"{API}/jobs/{dead.id}/retry", json={}, headers=BEARER)
    assert response.json is not None
    assert (response.status_code, response.json["error"]["code"]) == (409, "SLOPPY_E_JOBS_KEY_CONFLICT")
    assert holder.id in response.json["error"]["message"]


def test_a_token_with_a_scope_sees_its_queues_only(played: Jobs) -> None:
    app = Flask("host")
    policy = webui.TokenPolicy({"mail": "m"}, scope=("emails",))
    app.register_blueprint(webui.create_blueprint(played, api_policy=policy), url_prefix=PREFIX)
    api = Api(app, {"Authorization": "Bearer m"})
    assert {job["queue"] for job in api.get("/jobs").json["items"]} == {"emails"}
    other = played.admin.list_jobs("dead", name="render-invoice-pdf")[0].id
    for path in (f"/jobs/{other}", f"/jobs/{other}/logs", "/queues/invoices", "/recurring/nightly-rollup"):
        assert api.get(path).status_code == 404, path
    assert api.post(f"/jobs/{other}/retry").status_code == 404
    assert api.post("/queues/invoices/pause").status_code == 404
    dead = {one["status"]: one["count"]["value"] for one in api.get("/overview").json["statuses"]}["dead"]
    assert dead == len(played.admin.list_jobs("dead", queue="emails")) < len(played.admin.list_jobs("dead"))
    assert api.get("/stats").json["total"]["dead"] == dead
    metrics = app.test_client().get(f"{PREFIX}/metrics", headers=api.headers).text
    assert f'sloppyjobs_jobs{{status="dead"}} {dead}.0' in metrics
    assert "invoices" not in metrics


def test_a_token_may_be_kept_from_commands(played: Jobs) -> None:
    policy = webui.TokenPolicy("r", can=lambda actor, action, resource: action.endswith(".view"))
    app = Flask("host")
    app.register_blueprint(webui.create_blueprint(played, api_policy=policy), url_prefix=PREFIX)
    api = Api(app, {"Authorization": "Bearer r"})
    dead = played.admin.list_jobs("dead")[0].id
    assert api.get("/jobs").status_code == 200
    assert api.post(f"/jobs/{dead}/retry").status_code == 403


def test_the_document_describes_every_route(api: Api, app: Flask) -> None:
    document = api.get("/openapi.json").json
    assert document["openapi"].startswith("3.1")
    assert document["servers"] == [{"url": API}]
    outside = ("sloppyjobs.openapi", "sloppyjobs.api_nowhere")
    rules = [r for r in app.url_map.iter_rules() if "/api/v1/" in r.rule and r.endpoint not in outside]
    operations = [one for path in document["paths"].values() for one in path.values()]
    assert len(operations) == len(rules)
    assert all(one["summary"] and one["x-permission"] for one in operations)
    assert "JobView" in document["components"]["schemas"]
    ids = [one["operationId"] for one in operations]
    assert len(ids) == len(set(ids))


def test_every_reference_in_the_document_resolves(api: Api) -> None:
    document = api.get("/openapi.json").json

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if "$ref" in node:
                name = node["$ref"].removeprefix("#/components/schemas/")
                assert name in document["components"]["schemas"], name
            for inner in node.values():
                walk(inner)
        elif isinstance(node, list):
            for inner in node:
                walk(inner)

    walk(document)


def test_metrics_are_our_own_and_need_the_token(app: Flask) -> None:
    client = app.test_client()
    assert client.get(f"{PREFIX}/metrics").status_code == 401
    text = client.get(f"{PREFIX}/metrics", headers=BEARER).text
    assert 'sloppyjobs_jobs{status="dead"}' in text
    assert 'sloppyjobs_queue_depth{queue="exports"} 6.0' in text
    assert "python_info" not in text


def test_probes_need_nobody_and_say_little(app: Flask, played: Jobs, tmp_path: Any) -> None:
    client = app.test_client()
    assert client.get(f"{PREFIX}/healthz").text == "ok\n"
    assert client.get(f"{PREFIX}/readyz").text == "ready\n"
    empty = make_app(Jobs(f"sqlite:///{tmp_path / 'empty.db'}")).test_client()
    assert empty.get(f"{PREFIX}/healthz").status_code == 200
    unready = empty.get(f"{PREFIX}/readyz")
    assert (unready.status_code, unready.text) == (503, "not ready\n")
