"""The example: an application that was there before, with its own login, database and protection."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

ROOT = Path(__file__).parents[2]
TOKEN = re.compile(r'name="csrf_token" value="([^"]+)"')


@pytest.fixture(scope="module")
def module() -> Iterator[Any]:
    spec = importlib.util.spec_from_file_location("host_app", ROOT / "examples" / "host_app" / "app.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules["host_app"] = found
    spec.loader.exec_module(found)
    yield found
    del sys.modules["host_app"]


@pytest.fixture
def host(module: Any, tmp_path: Path) -> Iterator[Flask]:
    app = module.create_app(f"sqlite:///{tmp_path / 'shop.db'}")
    yield app
    with app.app_context():
        module.db.session.remove()
        module.db.engine.dispose()


def _post(client: FlaskClient, page: str, address: str, **data: str) -> Any:
    token = TOKEN.search(client.get(page).text)
    assert token is not None
    return client.post(address, data={"csrf_token": token[1], **data})


def _login(app: Flask, name: str) -> FlaskClient:
    client = app.test_client()
    assert _post(client, "/login", "/login", name=name, password="demo").status_code == 302
    return client


def test_a_stranger_is_sent_to_the_hosts_login(host: Flask) -> None:
    response = host.test_client().get("/staff/jobs/")
    assert response.status_code == 302
    assert response.headers["Location"] == "/login"


def test_a_customer_is_told_which_permission_is_missing(host: Flask) -> None:
    response = _login(host, "linus").get("/staff/jobs/")
    assert response.status_code == 403
    assert "overview.view" in response.text


def test_an_order_becomes_a_job_that_an_operator_steers(host: Flask) -> None:
    jobs = host.extensions["sloppyjobs"]
    client = _login(host, "ada")
    assert _post(client, "/", "/orders", email="buyer@example.org").status_code == 302
    job = jobs.admin.list_jobs("queued")[0]
    assert "send-receipt" in client.get("/staff/jobs/jobs").text
    paused = _post(client, f"/staff/jobs/jobs/{job.id}", f"/staff/jobs/jobs/{job.id}/pause")
    assert paused.status_code == 303
    assert jobs.get(job.id).status == "paused"
    assert jobs.admin.audit(job.id)[0].actor == "ada"


def test_a_viewer_sees_one_queue_and_no_buttons(host: Flask) -> None:
    client = _login(host, "grace")
    _post(client, "/", "/orders", email="buyer@example.org")
    text = client.get("/staff/jobs/jobs").text
    assert "send-receipt" in text
    assert 'type="checkbox"' not in text
    assert client.get("/staff/jobs/audit").status_code == 403


def test_the_hosts_messages_errors_and_files_are_its_own(host: Flask) -> None:
    client = _login(host, "ada")
    _post(client, "/", "/orders", email="buyer@example.org")
    assert "Thank you." not in client.get("/staff/jobs/queues").text
    assert "Thank you." in client.get("/").text
    assert "The shop has no such page" in client.get("/nowhere").text
    assert "no such page" in client.get("/staff/jobs/nowhere").text
    assert "Content-Security-Policy" not in client.get("/").headers
    with client.get("/static/shop.css") as file:
        assert file.status_code == 200
