"""Cross-site requests, hostile text, redirects, and a host that must not notice us."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from flask import Flask, Request, jsonify
from flask_wtf.csrf import CSRFError, CSRFProtect
from hosts import PREFIX, TOKEN, Client, RolePolicy, make_app

import webui
from sloppyjobs import Jobs

HOSTILE = "<script>alert(1)</script>'\"&{{7*7}}"
NAMES = ("a/b", "a\nb", "..", ".", "a.b", "quote'\"", "emoji 🦄", "a?b#c", "100%", "~2F", "/lead", "trail/", "a//b",
         "\\back", "right\u202eleft", "a/pause", "  spaced ", HOSTILE)  # fmt: skip


def test_a_post_without_a_token_is_refused(admin: Client, played: Jobs) -> None:
    dead = played.admin.list_jobs("dead")[0].id
    response = admin.client.post(f"{PREFIX}/jobs/{dead}/retry", headers=admin.headers)
    assert response.status_code == 400
    assert "expired" in response.text
    assert played.get(dead).status == "dead"


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost.evil.example"},
    ],
)
def test_a_post_from_elsewhere_is_refused_even_with_a_token(
    admin: Client, played: Jobs, headers: dict[str, str]
) -> None:
    dead = played.admin.list_jobs("dead")[0].id
    assert admin.post(f"/jobs/{dead}/retry", headers=headers).status_code == 403
    assert played.get(dead).status == "dead"


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "same-origin"}, {"Origin": "https://localhost"}, {"Origin": "http://localhost"}]
)
def test_a_post_from_here_is_accepted(admin: Client, played: Jobs, headers: dict[str, str]) -> None:
    dead = played.admin.list_jobs("dead")[0].id
    assert admin.post(f"/jobs/{dead}/retry", headers=headers).status_code == 303


def test_get_changes_nothing(admin: Client, played: Jobs) -> None:
    dead = played.admin.list_jobs("dead")[0].id
    before = played.admin.audit()[0].id
    for verb in ("retry", "cancel", "delete", "run", "pause", "resume"):
        assert admin.get(f"/jobs/{dead}/{verb}").status_code == 200
    for path in ("/dead/retry?cause=1", "/recurring/nightly-rollup/trigger", "/bulk/retry", "/queues/emails/pause"):
        admin.get(path)
    assert played.get(dead).status == "dead"
    assert played.admin.audit()[0].id == before


@pytest.mark.parametrize("target", ["//evil.example", "/\\evil", "javascript:alert(1)", "https://evil.example"])
def test_no_redirect_follows_what_was_sent(admin: Client, target: str) -> None:
    for data in ({"here": target}, {"here": f"{PREFIX}/jobs/{target}"}, {"next": target}):
        location = admin.post("/preferences", data).headers["Location"]
        assert location.startswith(f"{PREFIX}/"), location
    response = admin.client.post(
        f"{PREFIX}/preferences", data={"here": f"{PREFIX}/jobs"}, headers={**admin.headers, "Host": "evil.example"}
    )
    assert "evil" not in response.headers.get("Location", "")


@pytest.mark.parametrize("name", NAMES)
def test_names_of_any_kind_survive_their_url(jobs: Jobs, name: str) -> None:
    jobs.define("work", lambda ctx, payload: None)
    jobs.enqueue("work", {}, queue=name)
    jobs.recurring(name, "work", {}, cron="0 2 * * *")
    app = make_app(jobs)
    client = Client(app.test_client())
    with app.test_request_context():
        from flask import url_for

        queue, schedule = url_for("sloppyjobs.queue", name=name), url_for("sloppyjobs.schedule", name=name)
    for address in (queue, schedule):
        shown = client.client.get(address, headers=client.headers)
        assert shown.status_code == 200, address
        assert "<script>alert" not in shown.text
    assert client.post(f"{queue.removeprefix(PREFIX)}/pause").status_code == 303
    assert jobs.admin.get_queue(name).paused
    assert client.post(f"{schedule.removeprefix(PREFIX)}/pause").status_code == 303
    assert jobs.admin.get_recurring(name).paused
    assert client.get("/queues").status_code == client.get("/recurring").status_code == 200


def test_hostile_text_is_escaped_wherever_it_is_shown(jobs: Jobs) -> None:
    def fail(ctx: object, payload: object) -> None:
        ctx.log("error", HOSTILE, field=HOSTILE)  # type: ignore[attr-defined]
        raise ValueError(HOSTILE)

    jobs.define(HOSTILE, fail, queue=HOSTILE, retry=_once(), metadata={HOSTILE: HOSTILE})
    job = jobs.enqueue(HOSTILE, {HOSTILE: [HOSTILE, {HOSTILE: HOSTILE}]}, correlation_id=HOSTILE,
                       idempotency_key=HOSTILE, principal=HOSTILE)  # fmt: skip
    jobs.create_worker(id=HOSTILE, recurring=False).run_once()
    jobs.locks(HOSTILE).acquire(HOSTILE, ttl=60)
    jobs.recurring(HOSTILE, HOSTILE, {HOSTILE: HOSTILE}, every=60)
    client = Client(make_app(jobs).test_client())
    client.post(f"/jobs/{job.id}/retry", {"reason": HOSTILE})
    client.post(f"/jobs/{job.id}/retry", {"reason": HOSTILE})
    paths = ["/", "/jobs", f"/jobs/{job.id}", "/dead", "/queues", "/recurring", "/workers", "/locks", "/audit",
             "/limits", "/limits/payments-api", "/archive", "/batches", "/workflows", "/alerts"]  # fmt: skip
    paths += [f"/jobs/{job.id}/delete", "/jobs?name=" + HOSTILE.replace("&", "%26").replace("#", "%23")]
    for path in paths:
        text = client.get(path).text
        assert "<script>alert" not in text, path
        assert "{49" not in text, path


@pytest.mark.parametrize("text", ["%00", "a%00b", "%ff", "%ED%A0%80", "x" * 5000, "..%2f", "%0d%0aX:1", "٣"])
def test_nonsense_is_answered_and_never_breaks_a_page(admin: Client, text: str) -> None:
    questions = ("/jobs/{}", "/queues/{}", "/recurring/{}", "/jobs/{}/retry", "/jobs?queue={}", "/jobs?worker={}",
                 "/jobs?name={}&status=dead", "/jobs?schedule={}", "/jobs?idempotency_key={}", "/jobs?cursor={}",
                 "/jobs?status={}", "/jobs?created_from={}", "/jobs?range=1h&since={}", "/jobs?size={}", "/find?q={}",
                 "/audit?target={}", "/queues?cursor={}", "/archive?key={}", "/archive?name={}&from={}",
                 "/archive/{}", "/batches/{}", "/batches?status={}", "/batches?cursor={}", "/jobs?batch={}",
                 "/workflows?name={}&status={}", "/workflows/{}",
                 "/dead/retry?cause=1&error_type={}", "/?range={}",
                 "/dead/retry?cause=1&limit={}", "/assets/{}")  # fmt: skip
    for question in questions:
        assert admin.get(question.replace("{}", text)).status_code < 500, question
    meant = unquote(text)
    for path, data in (
        ("/queues/emails/pause", {"until_at": meant, "reason": meant}),
        ("/bulk/retry/preview", {"id": meant}),
        ("/bulk/retry", {"cause": "1", "error_type": meant}),
        ("/preferences", {"tz": meant, "here": f"{PREFIX}/queues/{meant}"}),
    ):
        assert admin.post(path, data).status_code < 500, path


def _once() -> object:
    from sloppyjobs import Retry

    return Retry(max_attempts=1)


class OwnRequest(Request):
    """A host's own request class."""


def _strict_host(jobs: Jobs) -> Flask:
    app = Flask("host")
    app.config.update(SECRET_KEY="x", TESTING=True, WTF_CSRF_SSL_STRICT=True)
    app.request_class = OwnRequest
    CSRFProtect(app)
    app.register_error_handler(404, lambda error: ("the host's own 404", 404))
    app.register_error_handler(CSRFError, lambda error: ("the host's own CSRF page", 400))

    @app.get("/static/thing")
    def static_thing() -> str:
        return "the host's"

    @app.post("/own")
    def own() -> object:
        return jsonify(ok=True)

    for name in ("one", "two"):
        blueprint = webui.create_blueprint(jobs, RolePolicy(), name, api_policy=webui.TokenPolicy("t0k3n"))
        app.register_blueprint(blueprint, url_prefix=f"/{name}")
    return app


def test_it_mounts_twice_beside_a_hosts_own_protection(played: Jobs) -> None:
    app = _strict_host(played)
    dead = [job.id for job in played.admin.list_jobs("dead")]
    for name, id in (("one", dead[0]), ("two", dead[1])):
        client = Client(app.test_client(), prefix=f"/{name}")
        assert f'href="/{name}/queues"' in client.get("/").text
        assert client.post(f"/jobs/{id}/retry").status_code == 303
        assert played.get(id).status == "queued"
    over_https = Client(app.test_client(), prefix="/one")
    secure = {"base_url": "https://localhost"}
    token = TOKEN.search(over_https.get("/locks", **secure).text)
    assert token is not None
    sent = over_https.client.post(
        f"/one/jobs/{dead[2]}/retry", data={"csrf_token": token[1]}, **secure,
        headers={**over_https.headers, "Referer": "https://localhost/one/"},
    )  # fmt: skip
    assert sent.status_code == 303


def test_the_api_works_beside_a_hosts_own_protection(played: Jobs) -> None:
    app = _strict_host(played)
    dead = played.admin.list_jobs("dead")[0].id
    headers = {"Authorization": "Bearer t0k3n"}
    assert app.test_client().post(f"/one/api/v1/jobs/{dead}/retry", headers=headers).status_code == 200
    assert app.test_client().post("/own").status_code == 400, "the host's routes stay protected"
    assert app.test_client().post(f"/two/jobs/{dead}/retry", headers={"X-Role": "admin"}).status_code == 400


def test_nothing_of_the_host_is_changed(played: Jobs) -> None:
    bare = Flask("host")
    app = Flask("host")
    before = (set(app.jinja_env.filters), set(app.jinja_env.globals), app.request_class, dict(app.url_map.converters))
    app.register_blueprint(webui.create_blueprint(played, RolePolicy()), url_prefix=PREFIX)
    after = (set(app.jinja_env.filters), set(app.jinja_env.globals), app.request_class, dict(app.url_map.converters))
    assert before == after
    for attribute in ("before_request_funcs", "after_request_funcs", "template_context_processors"):
        assert getattr(app, attribute).get(None, []) == getattr(bare, attribute).get(None, []) or (
            attribute == "template_context_processors"
        )
    assert None not in app.error_handler_spec or not app.error_handler_spec[None]


def test_the_hosts_own_pages_keep_their_headers_errors_and_static_files(played: Jobs) -> None:
    client = _strict_host(played).test_client()
    assert client.get("/nowhere").text == "the host's own 404"
    response = client.get("/static/thing")
    assert response.text == "the host's"
    assert "Content-Security-Policy" not in response.headers


def test_a_host_without_a_secret_key_is_told(played: Jobs) -> None:
    app = make_app(played)
    app.secret_key = None
    response = Client(app.test_client()).get("/queues")
    assert response.status_code == 500
    assert "SECRET_KEY" in response.text


def test_assets_are_hashed_immutable_and_of_their_own(admin: Client) -> None:
    import re

    text = admin.get("/").text
    found = re.findall(rf'"({PREFIX}/assets/[^"#]+)"', text)
    assert len(set(found)) >= 3
    for address in found:
        response = admin.client.get(address)
        assert response.status_code == 200
        assert "immutable" in response.headers["Cache-Control"]
        assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert admin.client.get(f"{PREFIX}/assets/sj.000000000000.css").headers["Cache-Control"] == "no-cache"
    for bad in ("../webui/ui.py", "..%2f..%2fpyproject.toml", "vendor/htmx.LICENSE.txt", "nope.css"):
        assert admin.client.get(f"{PREFIX}/assets/{bad}").status_code in (403, 404)
