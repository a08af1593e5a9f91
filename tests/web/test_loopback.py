"""Without authentication only this machine is answered: by the address of the connection, not by what a header says."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from flask.testing import FlaskClient
from served import gunicorn

import webui
from webui.security import HEADERS
from webui.standalone import NotConfigured

INSECURE = {"SLOPPYJOBS_WEBUI_INSECURE": "1", "SECRET_KEY": "tests"}


def _environ(url: str, **more: str) -> dict[str, str]:
    return {"SLOPPYJOBS_DATABASE_URL": url, **INSECURE, **more}


@pytest.fixture
def client(ready_sqlite_url: str) -> FlaskClient:
    return webui.create_app(_environ(ready_sqlite_url)).test_client()


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", "::1%lo"])
@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]", "[::1]:8000", "LocalHost."])
def test_this_machine_is_answered(client: FlaskClient, address: str, host: str) -> None:
    response = client.get("/queues", headers={"Host": host}, environ_base={"REMOTE_ADDR": address})
    assert response.status_code == 200


@pytest.mark.parametrize(
    "address", ["203.0.113.7", "192.168.1.2", "10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1", "", "x"]
)
@pytest.mark.parametrize("path", ["/queues", "/healthz", "/api/v1/jobs", "/nope"])
def test_another_machine_is_refused_whatever_host_it_names(client: FlaskClient, address: str, path: str) -> None:
    headers = {"Host": "127.0.0.1:8000", "X-Forwarded-For": "127.0.0.1", "X-Real-IP": "127.0.0.1"}
    for sent in ({"Host": "127.0.0.1:8000"}, headers):
        response = client.get(path, headers=sent, environ_base={"REMOTE_ADDR": address})
        assert response.status_code == 403
        assert "SLOPPYJOBS_WEBUI_PASSWORD" in response.text
        assert ("json" in response.mimetype) == path.startswith("/api/")
        for name, value in HEADERS.items():
            assert response.headers[name] == value


@pytest.mark.parametrize("name", ["X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "X-Real-IP"])
def test_what_a_proxy_has_forwarded_is_refused(client: FlaskClient, name: str) -> None:
    response = client.get("/queues", headers={"Host": "localhost", name: "127.0.0.1"})
    assert response.status_code == 403
    assert "proxy" in response.text


def test_a_name_that_leads_here_from_a_web_page_is_refused(ready_sqlite_url: str, client: FlaskClient) -> None:
    for host in ("rebound.example", "localhost.evil.example", "127.0.0.1.evil.example", "[::1].evil", "[::2]", ""):
        assert client.get("/queues", headers={"Host": host}).status_code == 400, host
    named = webui.create_app(_environ(ready_sqlite_url, SLOPPYJOBS_WEBUI_HOSTS="jobs.test")).test_client()
    assert named.get("/queues", headers={"Host": "jobs.test"}).status_code == 200
    assert named.get("/queues", headers={"Host": "localhost:8000"}).status_code == 200
    refused = named.get("/queues", headers={"Host": "jobs.test"}, environ_base={"REMOTE_ADDR": "10.0.0.1"})
    assert refused.status_code == 403


def test_without_authentication_there_can_be_no_proxy(ready_sqlite_url: str) -> None:
    with pytest.raises(NotConfigured, match="PROXIES"):
        webui.create_app(_environ(ready_sqlite_url, SLOPPYJOBS_WEBUI_PROXIES="1"))


def test_with_a_password_the_flag_changes_nothing(ready_sqlite_url: str) -> None:
    given = {"SLOPPYJOBS_WEBUI_USERNAME": "ops", "SLOPPYJOBS_WEBUI_PASSWORD": "s3cret"}
    client = webui.create_app(_environ(ready_sqlite_url, **given)).test_client()
    where = {"REMOTE_ADDR": "203.0.113.7"}
    assert client.get("/queues", headers={"Host": "jobs.example"}, environ_base=where).status_code == 401
    opened = client.get("/queues", auth=("ops", "s3cret"), headers={"Host": "jobs.example"}, environ_base=where)
    assert opened.status_code == 200


@pytest.mark.parametrize("bind", ["127.0.0.1:0", "[::1]:0"])
def test_a_real_server_on_a_loopback_address_is_answered(ready_sqlite_url: str, bind: str) -> None:
    with gunicorn(bind, _environ(ready_sqlite_url)) as url:
        with urlopen(f"{url}/queues") as response:
            assert response.status == 200
        with pytest.raises(HTTPError, match="403"):
            urlopen(Request(f"{url}/queues", headers={"X-Forwarded-For": "127.0.0.1"}))


def test_a_real_server_on_a_unix_socket_is_refused(tmp_path: Path, ready_sqlite_url: str) -> None:
    file = tmp_path / "web.sock"
    with gunicorn(f"unix:{file}", _environ(ready_sqlite_url)), socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(file))
        connection.sendall(b"GET /queues HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 403")
    assert b"over TCP" in answer
