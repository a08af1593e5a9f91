"""Deny by default; one gate for every route; read-only wins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from every_page import PAGES, Addresses
from flask import Flask
from hosts import PREFIX, Client, RolePolicy, make_app

import webui
from sloppyjobs import InvalidOption, Jobs
from sloppyjobs.testing.conformance.admin_scenes import live_worker
from webui.policy import ACTIONS
from webui.routes import PUBLIC, SIGNED_IN

BEARER = {"Authorization": "Bearer t0k3n"}
VALUES = {"id": "job_x", "name": "emails", "file": "sj.css", "command": "retry", "anything": "nope", "cause": "0" * 20}


def _routes(app: Flask) -> list[tuple[str, str, str]]:
    """Every rule of the blueprint, with an address and the action that its view carries."""
    found = []
    for rule in app.url_map.iter_rules():
        if not rule.endpoint.startswith("sloppyjobs."):
            continue
        view = app.view_functions[rule.endpoint]
        action = getattr(view, "sloppyjobs_action", None)
        assert action, f"{rule.endpoint} has no action: every route must name the permission that it needs"
        values = {name: VALUES[name] for name in rule.arguments}
        if "queue" in rule.endpoint or "schedule" in rule.endpoint:
            values |= {"command": "pause"} if "command" in values else {}
        if "worker" in rule.endpoint:
            values |= {"command": "quiet"} if "command" in values else {}
        with app.test_request_context():
            address = app.url_map.bind("localhost").build(rule.endpoint, values)
        method = next((one for one in ("POST", "PATCH") if one in (rule.methods or ())), "GET")
        found.append((method, address, action.format(**values)))
    return found


def test_every_route_names_a_known_action(app: Flask) -> None:
    routes = _routes(app)
    assert len(routes) > 40
    assert {action for _, _, action in routes} <= {*ACTIONS, PUBLIC, SIGNED_IN}


def test_without_a_policy_everything_is_403_and_says_what_to_do(played: Jobs) -> None:
    app = Flask("host")
    app.secret_key = "x"
    app.register_blueprint(webui.create_blueprint(played), url_prefix=PREFIX)
    for method, address, action in _routes(app):
        response = app.test_client().open(address, method=method)
        if action != PUBLIC:
            assert response.status_code == 403, address
            assert "policy=" in response.text, address


def test_nobody_is_sent_to_the_login_from_every_page(app: Flask) -> None:
    for method, address, action in _routes(app):
        response = app.test_client().open(address, method=method)
        if action != PUBLIC:
            assert response.status_code in (302, 401), address


def test_a_script_is_told_that_the_login_has_ended_and_is_not_sent_elsewhere(app: Flask) -> None:
    response = app.test_client().get(f"{PREFIX}/jobs", headers={"HX-Request": "true"})
    assert response.status_code == 401
    assert "Location" not in response.headers
    assert "HX-Refresh" not in response.headers
    assert "SJ-Page" not in response.headers


def test_an_actor_without_permissions_gets_403_everywhere(app: Flask) -> None:
    for method, address, action in _routes(app):
        if "/api/" in address or "/metrics" in address or action in (PUBLIC, SIGNED_IN):
            continue
        response = app.test_client().open(address, method=method, headers={"X-Role": "nobody"})
        assert response.status_code == 403, address
        assert action in response.text, address


def test_a_viewer_changes_nothing(app: Flask) -> None:
    for method, address, action in _routes(app):
        if method == "POST" and "/api/" not in address and action != SIGNED_IN:
            response = Client(app.test_client(), "viewer", "").client.post(address, headers={"X-Role": "viewer"})
            assert response.status_code == 403, address


def test_a_viewer_sees_no_buttons(as_role: Callable[[str | None], Client], played: Jobs) -> None:
    viewer = as_role("viewer")
    dead = played.admin.list_jobs("dead")[0].id
    for path in (f"/jobs/{dead}", "/dead", "/queues", "/queues/emails", "/recurring", "/recurring/nightly-rollup"):
        text = viewer.get(path).text
        for verb in ("retry", "delete", "pause", "resume", "trigger"):
            assert f'/{verb}"' not in text, (path, verb)
    assert 'type="checkbox"' not in viewer.get("/jobs").text


def test_no_page_has_a_form_or_a_word_about_buttons_for_a_viewer(
    as_role: Callable[[str | None], Client], played: Jobs
) -> None:
    viewer, addresses = as_role("viewer"), Addresses(played)
    for path in PAGES.values():
        page = viewer.get(addresses.fill(path)).text
        shown = page[page.find('<div id="live"') : page.find("</main>")]
        assert 'method="post"' not in shown, path
        assert "What the buttons do" not in shown, path


def test_a_role_may_do_what_it_is_given_and_no_more(as_role: Callable[[str | None], Client], played: Jobs) -> None:
    retrier = as_role("retrier")
    dead = played.admin.list_jobs("dead")[0].id
    assert "Retry" in retrier.get(f"/jobs/{dead}").text
    refused = retrier.post(f"/jobs/{dead}/delete")
    assert refused.status_code == 403
    assert "job.delete" in refused.text
    assert retrier.post(f"/jobs/{dead}/retry").status_code == 303
    assert played.get(dead).status == "queued"


@pytest.mark.parametrize("by_config", [True, False])
def test_read_only_wins_over_everything(played: Jobs, by_config: bool) -> None:
    app = make_app(played, read_only=not by_config)
    app.config["SLOPPYJOBS_WEBUI_READ_ONLY"] = by_config
    dead = played.admin.list_jobs("dead")[0].id
    client = Client(app.test_client())
    assert client.get(f"/jobs/{dead}").status_code == 200
    assert f"/jobs/{dead}/retry" not in client.get(f"/jobs/{dead}").text
    assert "read-only" in client.get("/").text
    for method, address, action in _routes(app):
        if method != "GET" and action != SIGNED_IN:
            headers = BEARER if "/api/" in address else {"X-Role": "admin"}
            response = app.test_client().open(address, method=method, headers=headers)
            assert response.status_code == 403, address
            assert "read-only" in response.text, address
    assert played.get(dead).status == "dead"


def test_a_scope_hides_other_queues_everywhere(as_role: Callable[[str | None], Client], played: Jobs) -> None:
    scoped = as_role("emails")
    other = played.admin.list_jobs("dead", name="render-invoice-pdf")[0]
    own = played.admin.list_jobs("dead", name="send-email")[0]
    assert scoped.get(f"/jobs/{own.id}").status_code == 200
    assert scoped.get(f"/jobs/{other.id}").status_code == 404
    assert scoped.post(f"/jobs/{other.id}/retry").status_code == 404
    assert played.get(other.id).status == "dead"
    assert "Nothing found" in scoped.get(f"/find?q={other.id}").text
    assert scoped.get("/queues/invoices").status_code == 404
    assert scoped.post("/queues/invoices/pause").status_code == 404
    assert scoped.get("/recurring/nightly-rollup").status_code == 404
    assert scoped.post("/recurring/nightly-rollup/trigger").status_code == 404
    for path in ("/", "/jobs", "/jobs?status=dead", "/dead", "/queues", "/recurring"):
        text = scoped.get(path).text
        assert "invoices" not in text, path
        assert "rollups" not in text, path
    preview = scoped.post("/bulk/retry/preview", {"id": other.id})
    assert "Nothing to retry" in preview.text


def test_a_forbidden_page_is_not_in_the_navigation(as_role: Callable[[str | None], Client]) -> None:
    text = as_role("emails").get("/jobs").text
    assert f'href="{PREFIX}/audit"' not in text
    assert f'href="{PREFIX}/queues"' in text


def test_the_overview_links_only_to_pages_that_may_be_seen(played: Jobs) -> None:
    class OverviewOnly(RolePolicy):
        def can(self, actor: object, action: str, resource: webui.Resource) -> bool:
            return action in ("overview.view", "job.view")

    live_worker(played, queues=("emails",))
    text = Client(make_app(played, OverviewOnly()).test_client()).get("/").text
    for words, path in (
        ("No worker for exports", "/queues/exports"),
        ("nightly-rollup", "/recurring/nightly-rollup"),
    ):
        assert words in text
        assert f'href="{PREFIX}{path}"' not in text


def test_a_policy_is_asked_once_for_the_same_thing(played: Jobs) -> None:
    asked: list[tuple[str, object]] = []

    class Counting(RolePolicy):
        def can(self, actor: object, action: str, resource: webui.Resource) -> bool:
            asked.append((action, resource))
            return True

    Client(make_app(played, Counting()).test_client()).get("/jobs")
    assert len(asked) == len(set(asked)) < 25


def test_actors_are_written_to_the_audit_trail(admin: Client, played: Jobs) -> None:
    dead = played.admin.list_jobs("dead")[0].id
    admin.post(f"/jobs/{dead}/retry", {"reason": "the relay is back"})
    entry = played.admin.audit(dead)[0]
    assert (entry.actor, entry.reason) == ("admin", "the relay is back")
    assert "the relay is back" in admin.get(f"/audit?target={dead}").text


def test_the_ready_made_policies_are_policies() -> None:
    for policy in (RolePolicy(), webui.BasicAuthPolicy("ops", "secret"), webui.TokenPolicy("x"), webui.AllowAll()):
        assert isinstance(policy, webui.Policy)
    with pytest.raises(ValueError, match="password"):
        webui.BasicAuthPolicy("ops", "")
    with pytest.raises(ValueError, match="token"):
        webui.TokenPolicy({})


class _Half:
    def actor(self) -> None: ...
    def can(self, *_: object) -> bool:
        return True


def test_what_is_no_policy_is_refused_at_once_and_not_by_every_request(jobs: Jobs) -> None:
    for given, words in (
        (_Half(), r"_Half has no scope\(\) and no on_unauthenticated\(\)"),
        (RolePolicy, "is a class"),
    ):
        with pytest.raises(InvalidOption, match=words):
            webui.create_blueprint(jobs, policy=given)  # type: ignore[arg-type]
        with pytest.raises(InvalidOption, match="api_policy"):
            webui.create_blueprint(jobs, api_policy=given)  # type: ignore[arg-type]


def test_what_are_no_jobs_is_refused_at_once_and_not_by_every_request(app: Flask) -> None:
    for given in (None, "sqlite:///app.db", app, Jobs):
        with pytest.raises(InvalidOption, match="jobs must be a Jobs or a SloppyJobs") as refused:
            webui.create_blueprint(given, webui.AllowAll())  # type: ignore[arg-type]
        assert refused.value.field == "jobs"


class _OneText(RolePolicy):
    def scope(self, actor: str) -> str:  # type: ignore[override]
        return "emails"


def test_a_scope_that_is_one_text_shows_nothing_and_not_the_queues_of_its_letters(played: Jobs) -> None:
    played.declare("say")
    seen = played.enqueue("say", queue="e")
    app = make_app(played, _OneText())
    app.config["PROPAGATE_EXCEPTIONS"] = False
    response = Client(app.test_client()).get("/jobs")
    assert response.status_code == 500
    assert seen.id not in response.text
    with pytest.raises(TypeError, match="a scope is a list of queues"):
        webui.TokenPolicy("token", scope="emails")


def test_basic_auth_lets_the_right_password_in_and_throttles_wrong_ones(played: Jobs) -> None:
    app = make_app(played, webui.BasicAuthPolicy("ops", "s3cret"))
    client = app.test_client()
    assert client.get(f"{PREFIX}/").status_code == 401
    assert "Basic" in client.get(f"{PREFIX}/").headers["WWW-Authenticate"]
    assert client.get(f"{PREFIX}/", auth=("ops", "s3cret")).status_code == 200
    for _ in range(10):
        client.get(f"{PREFIX}/", auth=("ops", "wrong"))
    throttled = client.get(f"{PREFIX}/", auth=("ops", "wrong"))
    assert throttled.status_code == 429
    assert int(throttled.headers["Retry-After"]) <= 60


class _Linking(webui.AllowAll):
    def links(self) -> list[Any]:
        return [
            webui.Link("Back to <the shop>", "/shop?a=1&b=2"),
            ("Log out", "https://sso.example.org/logout"),
            ("Script", "javascript:alert(1)"),
            ("Nowhere", "//example.org"),
            ("Data", "data:text/html,x"),
            ("Odd", "https:\\\\example.org"),
            ("", "/nameless"),
        ]


def test_a_policy_may_have_a_way_back_and_a_logout(jobs: Jobs, caplog: pytest.LogCaptureFixture) -> None:
    text = make_app(jobs, _Linking()).test_client().get(f"{PREFIX}/queues").text
    assert 'href="/shop?a=1&amp;b=2"' in text and "Back to &lt;the shop&gt;</a>" in text
    assert 'href="https://sso.example.org/logout"' in text
    for refused in ("javascript:", "//example.org", "data:text", "/nameless"):
        assert f'href="{refused}' not in text
    assert "'Script' is left out" in caplog.text


def test_a_policy_without_links_is_a_policy(jobs: Jobs) -> None:
    text = make_app(jobs, webui.AllowAll()).test_client().get(f"{PREFIX}/queues").text
    assert isinstance(webui.AllowAll(), webui.Policy) and 'rel="noreferrer"' not in text


class _Derived(webui.Policy):
    def actor(self) -> None: ...
    def can(self, *_: object) -> bool:
        return True


def test_a_policy_that_does_not_say_how_to_sign_in_answers_401(jobs: Jobs) -> None:
    app = Flask(__name__)
    app.secret_key = "kept"
    app.register_blueprint(webui.create_blueprint(jobs, policy=_Derived()), url_prefix=PREFIX)
    answer = app.test_client().get(f"{PREFIX}/")
    assert (answer.status_code, answer.text) == (401, "Sign in to see this page.\n")
