"""Whatever is asked, the answer is ours: with our headers, as JSON on the API, and never a stack trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

import pytest
from flask import Flask
from hosts import PREFIX, Client, RolePolicy, make_app
from werkzeug.datastructures import ImmutableMultiDict
from werkzeug.routing import Rule

import webui
from sloppyjobs import Jobs
from webui.blueprint import ROUTES
from webui.routes import PUBLIC
from webui.security import HEADERS

BEARER = {"Authorization": "Bearer t0k3n"}
CREDENTIALS = {"SLOPPYJOBS_WEBUI_USERNAME": "ops", "SLOPPYJOBS_WEBUI_PASSWORD": "s3cret", "SECRET_KEY": "tests"}
ODD = ("endpoint", "self", "_method", "_external", "_anchor", "_scheme", "id", "name", "command", "anything", "file",
       "values", "ui", "look", "route", "template", "cursor", "status", "range", "limit", "from", "page", "%00",
       "a%5Bb%5D", "%F0%9F%A6%84", "__class__", "")  # fmt: skip
"""Names of query parameters that mean something to Python, to Flask, or to nobody."""


def _ours(app: Flask) -> Iterator[Rule]:
    for rule in app.url_map.iter_rules():
        if rule.endpoint.startswith("sloppyjobs."):
            yield rule


def _address(app: Flask, rule: Rule, job: str) -> str:
    about = "nightly-rollup" if "schedule" in rule.endpoint or "recurring" in rule.rule else "emails"
    own = {"queue": "pause", "schedule": "trigger", "worker": "quiet"}
    command = next((command for word, command in own.items() if word in rule.endpoint), "retry")
    values = {"id": job, "name": about, "command": command, "anything": "nope", "file": "sj.css", "cause": "0" * 20}
    with app.test_request_context():
        return app.url_map.bind("localhost").build(rule.endpoint, {name: values[name] for name in rule.arguments})


def _is_api(address: str) -> bool:
    return "/api/" in address or address.endswith("/metrics")


def _assert_ours(response: Any, about: object) -> None:
    for name, value in HEADERS.items():
        assert response.headers.get(name) == value, (about, name)
    assert "Traceback" not in response.text, about


def _assert_json_error(response: Any, about: object) -> None:
    assert response.mimetype == "application/json", about
    error = response.json["error"]
    assert error["code"], about
    assert error["title"], about
    assert error["message"], about


# Query parameters


class Watched(ImmutableMultiDict[str, str]):
    """Query parameters that know which of them were looked at."""

    looked_at: ClassVar[set[str]] = set()

    def __getitem__(self, name: str) -> str:
        self.looked_at.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.looked_at.add(str(name))
        return super().__contains__(name)

    def getlist(self, name: str, *rest: Any) -> list[str]:
        self.looked_at.add(name)
        return super().getlist(name, *rest)

    def __iter__(self) -> Iterator[str]:
        self.looked_at.update(super().__iter__())
        return super().__iter__()

    def items(self, *rest: Any, **more: Any) -> Any:
        self.looked_at.update(super().__iter__())
        return super().items(*rest, **more)


def _parts(look: Callable[[tuple[str, ...]], set[str]]) -> None:
    """Ask with each of the names that are looked at alone, and with all others together.

    A page may refuse what it looks at before it looks at the next; of the others none keeps it from another.
    """
    alone: list[str] = []
    others = ODD
    while found := look(others):
        alone += sorted(found)
        others = tuple(name for name in others if name not in found)
    for name in alone:
        look((name,))


@pytest.mark.parametrize("value", ["1", "", "http://evil.example"])
def test_no_query_parameter_breaks_any_address(app: Flask, played: Jobs, value: str) -> None:
    app.request_class = type("Request", (app.request_class,), {"parameter_storage_class": Watched})
    dead = played.admin.list_jobs("dead")[0].id
    looked_at: set[str] = set()
    for rule in _ours(app):
        address = _address(app, rule, dead)
        headers = BEARER if _is_api(address) else {"X-Role": "admin"}
        method = "GET" if "GET" in (rule.methods or ()) else "POST"

        def look(names: tuple[str, ...]) -> set[str]:
            asked = f"{address}?" + "&".join(f"{name}={value}&{name}=2" for name in names)  # noqa: B023
            Watched.looked_at.clear()
            response = app.test_client().open(asked, method=method, headers=headers)  # noqa: B023
            assert response.status_code < 500, (method, asked)  # noqa: B023
            looked_at.update(Watched.looked_at)
            return {name for name in names if unquote(name) in Watched.looked_at}

        _parts(look)
    assert looked_at >= {"cursor", "from", "limit", "range", "status"}, "what pages look at is seen here"


@pytest.mark.parametrize("name", ["_external", "_scheme", "_anchor", "_method"])
def test_a_page_links_to_itself_without_what_was_smuggled_in(admin: Client, played: Jobs, name: str) -> None:
    dead = played.admin.list_jobs("dead")[0].id
    for path in ("/jobs", f"/jobs/{dead}", "/dead", "/queues", "/queues/emails", "/recurring", "/audit", "/"):
        text = admin.get(f"{path}?{name}=smuggled", headers={"Host": "evil.example"}).text
        assert "evil.example" not in text, path
        assert "smuggled" not in text, path


def test_a_page_keeps_what_it_understands_when_it_links_to_itself(admin: Client) -> None:
    text = admin.get("/jobs?status=dead&queue=emails&nonsense=1").text
    assert f'hx-get="{PREFIX}/jobs?status=dead&amp;queue=emails"' in text
    assert f'hx-get="{PREFIX}/?range=24h"' in admin.get("/?range=24h&endpoint=1").text


def test_what_a_page_understands_never_meets_what_its_address_names(app: Flask) -> None:
    for route in ROUTES:
        assert not {f"<path:{name}>" for name in route.query} & set(route.rule.split("/")), route.rule
        assert not set(route.query) & {"endpoint", "self", "id", "command"}, route.rule


# Errors


def test_a_deeply_nested_body_is_refused_in_words(app: Flask) -> None:
    for body in ("[" * 100_000, '{"a":' * 100_000, '{"filter":' + "[" * 50_000 + "]" * 50_000 + "}"):
        response = app.test_client().post(f"{PREFIX}/api/v1/bulk/retry", data=body, headers=BEARER)
        assert response.status_code == 400
        _assert_json_error(response, body[:10])


METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")


@pytest.fixture(params=["mounted", "standalone"])
def served(request: pytest.FixtureRequest, played: Jobs) -> Flask:
    """The blueprint in a host, and the application of its own."""
    if request.param == "mounted":
        return make_app(played)
    return webui.create_app({**CREDENTIALS, "SLOPPYJOBS_WEBUI_TOKEN": "t0k3n"}, played)


def test_every_method_on_every_address_is_answered_by_us(served: Flask, played: Jobs) -> None:
    dead = played.admin.list_jobs("dead")[0].id
    seen = set()
    for rule in _ours(served):
        address = _address(served, rule, dead)
        for method in METHODS:
            response = served.test_client().open(address, method=method)
            _assert_ours(response, (method, address))
            seen.add(response.status_code)
            view = served.view_functions[rule.endpoint]
            if _is_api(address) and response.status_code >= 400 and method != "HEAD":
                _assert_json_error(response, (method, address))
                assert response.status_code == 401, (method, address)
                assert "Bearer" in response.headers["WWW-Authenticate"]
            assert view.sloppyjobs_action == PUBLIC or response.status_code >= 300  # type: ignore[attr-defined]
    assert {200, 401} <= seen


def test_the_wrong_method_is_405_and_says_which_are_right(served: Flask) -> None:
    prefix = PREFIX if served.name == "host" else ""
    who = {"headers": {"X-Role": "admin"}} if prefix else {"auth": ("ops", "s3cret")}
    page = served.test_client().open(f"{prefix}/jobs", method="PUT", **who)  # type: ignore[arg-type]
    assert (page.status_code, page.headers["Allow"]) == (405, "GET")
    assert page.mimetype == "text/html"
    pausing = served.test_client().open(f"{prefix}/preferences", **who)  # type: ignore[arg-type]
    assert (pausing.status_code, pausing.headers["Allow"]) == (405, "POST")
    api = served.test_client().delete(f"{prefix}/api/v1/jobs", headers=BEARER)
    assert (api.status_code, api.headers["Allow"]) == (405, "GET")
    _assert_json_error(api, "405")
    for response in (page, pausing, api):
        _assert_ours(response, response.request.path)


def test_an_unknown_address_of_the_api_is_json(served: Flask) -> None:
    prefix = PREFIX if served.name == "host" else ""
    for method in ("GET", "POST"):
        response = served.test_client().open(f"{prefix}/api/v1/nope", method=method, headers=BEARER)
        assert response.status_code == 404
        _assert_json_error(response, method)
        _assert_ours(response, method)
        assert served.test_client().open(f"{prefix}/api/v1/nope", method=method).status_code == 401


def test_a_request_that_is_too_large_is_413_in_our_words(played: Jobs) -> None:
    app = webui.create_app({**CREDENTIALS, "SLOPPYJOBS_WEBUI_TOKEN": "t0k3n"}, played)
    much = "x" * (2 << 20)
    api = app.test_client().post("/api/v1/bulk/retry", data=much, headers=BEARER)
    assert api.status_code == 413
    _assert_json_error(api, "413")
    page = app.test_client().post("/queues/emails/pause", data={"reason": much}, auth=("ops", "s3cret"))
    assert page.status_code == 413
    assert "too large" in page.text
    for response in (api, page):
        _assert_ours(response, "413")


def test_a_fault_of_ours_is_a_page_without_a_trace(played: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app(played)
    app.config.update(TESTING=False, PROPAGATE_EXCEPTIONS=False)

    def broken(*_args: object, **_options: object) -> None:
        raise ValueError("canary in the fault")

    monkeypatch.setattr("sloppyjobs.admin.Admin.list_locks", broken)
    page = Client(app.test_client()).get("/locks")
    api = app.test_client().get(f"{PREFIX}/api/v1/locks", headers=BEARER)
    assert (page.status_code, api.status_code) == (500, 500)
    assert "log" in page.text
    _assert_json_error(api, "500")
    for response in (page, api):
        _assert_ours(response, "500")
        assert "canary" not in response.text


def test_a_host_name_that_is_not_trusted_gets_our_headers(tmp_path: Path, played: Jobs) -> None:
    app = webui.create_app({**CREDENTIALS, "SLOPPYJOBS_WEBUI_HOSTS": "jobs.example"}, played)
    response = app.test_client().get("/", headers={"Host": "evil.example"})
    assert response.status_code == 400
    _assert_ours(response, "host")
    assert "SLOPPYJOBS_WEBUI_HOSTS" in response.text
    _assert_json_error(app.test_client().get("/api/v1/jobs", headers={"Host": "evil.example"}), "host")


# The API takes bearer tokens only


class SessionPolicy(RolePolicy):
    """A host's own login, passed as ``api_policy`` by mistake."""

    def actor(self) -> Any:
        return "admin"


@pytest.fixture
def by_session(played: Jobs) -> Flask:
    app = Flask("host")
    app.config.update(SECRET_KEY="tests", TESTING=True)
    app.register_blueprint(
        webui.create_blueprint(played, SessionPolicy(), api_policy=SessionPolicy()), url_prefix=PREFIX
    )
    return app


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Cookie": "session=abc"},
        {"Authorization": "Basic b3BzOng="},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "Token x"},
        {"Origin": "https://evil.example", "Content-Type": "text/plain"},
    ],
)
def test_without_a_bearer_token_no_policy_opens_the_api(
    by_session: Flask, played: Jobs, headers: dict[str, str]
) -> None:
    dead = played.admin.list_jobs("dead")[0].id
    sent = by_session.test_client().post(f"{PREFIX}/api/v1/jobs/{dead}/retry", headers=headers)
    assert sent.status_code in (401, 403)
    _assert_json_error(sent, headers)
    for path in ("/api/v1/jobs", "/metrics", "/api/v1/openapi.json"):
        assert by_session.test_client().get(PREFIX + path, headers=headers).status_code == 401
    assert played.get(dead).status == "dead"


@pytest.mark.parametrize(
    "headers",
    [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.example"}],
)
def test_a_command_to_the_api_from_another_site_is_refused(
    app: Flask, by_session: Flask, played: Jobs, headers: dict[str, str]
) -> None:
    dead = played.admin.list_jobs("dead")[0].id
    for host in (app, by_session):
        sent = host.test_client().post(f"{PREFIX}/api/v1/jobs/{dead}/retry", headers={**BEARER, **headers})
        assert sent.status_code == 403
        assert sent.json["error"]["code"] == "FOREIGN_ORIGIN"
        assert host.test_client().get(f"{PREFIX}/api/v1/jobs", headers={**BEARER, **headers}).status_code == 200
    assert played.get(dead).status == "dead"


def test_a_token_may_hold_any_character_that_a_header_can(played: Jobs) -> None:
    app = Flask("host")
    app.register_blueprint(
        webui.create_blueprint(played, api_policy=webui.TokenPolicy("a=b,c d/+==")), url_prefix=PREFIX
    )
    headers = {"Authorization": "bearer a=b,c d/+=="}
    assert app.test_client().get(f"{PREFIX}/api/v1/jobs", headers=headers).status_code == 200


def test_a_redirect_to_a_login_is_401_on_the_api(played: Jobs) -> None:
    app = Flask("host")
    app.register_blueprint(webui.create_blueprint(played, api_policy=RolePolicy()), url_prefix=PREFIX)
    response = app.test_client().get(f"{PREFIX}/api/v1/jobs", headers=BEARER)
    assert response.status_code == 401
    assert "Location" not in response.headers
    _assert_json_error(response, "login")
