"""Signing out of the standalone application: the browser forgets the password, and can sign in again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask, request
from hosts import PREFIX, TOKEN, Client
from playwright.sync_api import Browser, Error, Page, expect
from werkzeug.serving import WSGIRequestHandler, make_server

import webui
from sloppyjobs import Jobs

CREDENTIALS = {"SLOPPYJOBS_WEBUI_USERNAME": "ops", "SLOPPYJOBS_WEBUI_PASSWORD": "s3cret", "SECRET_KEY": "tests"}
AUTH = ("ops", "s3cret")


@pytest.fixture
def alone(played: Jobs) -> Flask:
    return webui.create_app(CREDENTIALS, played)


def _sign_out(client: Any) -> Any:
    token = TOKEN.search(client.get("/queues", auth=AUTH).text)
    assert token is not None
    return client.post("/logout", data={"csrf_token": token[1]}, auth=AUTH)


def test_after_signing_out_the_password_is_asked_for_even_where_the_browser_still_sends_it(alone: Flask) -> None:
    client = alone.test_client()
    left = _sign_out(client)
    assert (left.status_code, left.headers["Location"]) == (303, "/signed-out")
    for _ in range(2):
        told = client.get("/signed-out", auth=AUTH)
        assert told.status_code == 401
        assert "Signed out" in told.text
        assert "Content-Security-Policy" in told.headers
        assert "ops" not in told.text
        assert "Basic" not in told.headers["WWW-Authenticate"], "a browser would ask for the password at once"
    asked = client.get("/queues", auth=AUTH)
    assert asked.status_code == 401
    assert asked.headers["WWW-Authenticate"].startswith("Basic")
    assert client.get("/queues", auth=AUTH).status_code == 200, "typed anew"
    again = client.get("/signed-out", auth=AUTH)
    assert (again.status_code, again.headers["Location"]) == (302, "/")


def test_strangers_and_wrong_passwords_learn_nothing_there(alone: Flask) -> None:
    for auth in (None, ("ops", "wrong")):
        assert alone.test_client().get("/signed-out", auth=auth).status_code == 401
    for _ in range(10):
        alone.test_client().get("/signed-out", auth=("ops", "wrong"))
    wrong = alone.test_client().get("/queues", auth=("ops", "wrong"))
    assert wrong.status_code == 429, "tries there are counted"


def test_nobody_is_signed_out_by_a_page_elsewhere(alone: Flask) -> None:
    client = alone.test_client()
    assert client.post("/logout", auth=AUTH).status_code == 400
    assert client.post("/logout", auth=AUTH, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert client.get("/logout", auth=AUTH).status_code == 405


def test_a_host_keeps_its_own_way_out(admin: Client, played: Jobs) -> None:
    assert "Sign out" not in admin.get("/").text
    assert admin.client.post(f"{PREFIX}/logout", headers=admin.headers).status_code == 404
    insecure = webui.create_app({"SLOPPYJOBS_WEBUI_INSECURE": "1", "SECRET_KEY": "tests"}, played)
    assert "Sign out" not in insecure.test_client().get("/queues").text


# In a browser


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """Requests are not worth a line."""


class Served:
    """The application, served; and which requests carried a password."""

    def __init__(self, app: Flask, port: int) -> None:
        self.host = f"127.0.0.1:{port}"
        self.passwords: dict[str, bool] = {}
        app.before_request(self._note)

    def _note(self) -> None:
        self.passwords[request.path] = "Authorization" in request.headers

    def open(self, page: Page, path: str) -> None:
        """Go there. Where a password is asked for, a browser without a window shows an error."""
        try:
            page.goto(f"http://{self.host}{path}")
        except Error as error:
            assert "ERR_INVALID_AUTH_CREDENTIALS" in str(error)


@pytest.fixture
def served(alone: Flask) -> Iterator[Served]:
    server = make_server("127.0.0.1", 0, alone, threaded=True, request_handler=_Quiet)
    made = Served(alone, server.server_port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_the_browser_forgets_the_password(browser: Browser, served: Served, scripts: bool) -> None:
    context = browser.new_context(java_script_enabled=scripts)
    context.set_default_timeout(20_000)
    page = context.new_page()
    # As typed into the browser's own dialog: it keeps them for the addresses of this realm.
    page.goto(f"http://ops:s3cret@{served.host}/queues")
    served.open(page, "/jobs")
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    assert served.passwords["/jobs"]
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Signed out")
    assert page.url == f"http://{served.host}/signed-out"
    for path in ("/dead", "/"):
        served.open(context.new_page(), path)
        assert not served.passwords[path], "the browser has forgotten it"
    page = context.new_page()
    page.goto(f"http://ops:s3cret@{served.host}/queues")
    served.open(page, "/recurring")
    expect(page.get_by_role("heading", level=1)).to_have_text("Recurring")
    context.close()
