"""Webhooks over a real server on this machine: signed, tried again, given up on, never redirected."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest

from sloppyjobs import FakeClock, Jobs, Retry, storage
from sloppyjobs.alerting import webhook
from sloppyjobs.alerting.webhook import WebhookFailed, post
from sloppyjobs.domain.redaction.redactor import Redactor

SECRET = "a secret of the receiver"


class Received(NamedTuple):
    """A request that came in."""

    path: str
    headers: dict[str, str]
    body: bytes


class Receiver(ThreadingHTTPServer):
    """Answers with the statuses it was given, then with 204."""

    def __init__(self, *statuses: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses = list(statuses)
        self.received: list[Received] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hooks/orders?channel=7"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append(Received(self.path, dict(self.headers), body))
        status = self.server.statuses.pop(0) if self.server.statuses else 204
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", self.server.url)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not worth a line."""


@pytest.fixture
def receiver() -> Iterator[Callable[..., Receiver]]:
    """Starts receivers; the test ends them."""
    made: list[Receiver] = []

    def start(*statuses: int) -> Receiver:
        made.append(Receiver(*statuses))
        threading.Thread(target=made[-1].serve_forever, daemon=True).start()
        return made[-1]

    yield start
    for one in made:
        one.shutdown()
        one.server_close()


@pytest.fixture
def clock(jobs_clock: FakeClock) -> FakeClock:
    return jobs_clock


def _dead(url: str, database: str, clock: FakeClock, **options: Any) -> Jobs:
    jobs = Jobs(storage.sqlite(database, clock=clock))
    jobs.declare("charge", queue="orders", retry=Retry(max_attempts=1))
    jobs.declare_alert("dead-orders", on="dead", deliver=url, **options)
    jobs.enqueue("charge")
    jobs.fail(jobs.claim("w", queues=("orders",))[0], ValueError("declined, password=hunter2-canary"))
    return jobs


def test_a_webhook_is_signed_and_says_what_happened(
    receiver: Callable[..., Receiver], ready_sqlite_url: str, clock: FakeClock
) -> None:
    target = receiver()
    jobs = _dead(target.url, ready_sqlite_url, clock, secret=SECRET)
    jobs.create_worker().run_once()
    [got] = target.received
    told = json.loads(got.body)
    assert (told["rule"], told["on"], told["name"], told["queue"], told["count"]) == (
        "dead-orders", "dead", "charge", "orders", 1,
    )  # fmt: skip
    assert "hunter2-canary" not in got.body.decode()
    timestamp = got.headers[webhook.TIMESTAMP_HEADER]
    expected = hmac.new(SECRET.encode(), timestamp.encode() + b"." + got.body, hashlib.sha256).hexdigest()
    assert got.headers[webhook.SIGNATURE_HEADER] == f"v1={expected}"
    assert (got.path, got.headers["Content-Type"]) == ("/hooks/orders?channel=7", "application/json")
    [alert] = jobs.admin.list_alerts()
    assert (alert.status, alert.target) == ("told", f"http://127.0.0.1:{target.server_port}")
    jobs.storage.close()


def test_a_receiver_that_fails_twice_is_tried_again(
    receiver: Callable[..., Receiver], ready_sqlite_url: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(webhook.SECRET_VARIABLE, SECRET)
    target = receiver(503, 500)
    jobs = _dead(target.url, ready_sqlite_url, clock)
    worker = jobs.create_worker()
    for status in ("retrying", "retrying", "told"):
        worker.run_once()
        [alert] = jobs.admin.list_alerts()
        assert alert.status == status
        clock.advance(3_600)
    assert (alert.tries, len(target.received)) == (3, 3)
    assert len({one.body for one in target.received}) == 1
    jobs.storage.close()


def test_a_redirect_is_not_followed(receiver: Callable[..., Receiver]) -> None:
    target = receiver(307, 301)
    for _ in range(2):
        with pytest.raises(WebhookFailed, match="redirects are not followed"):
            post(target.url, b"{}", SECRET)
    assert len(target.received) == 2


def test_a_receiver_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(WebhookFailed, match="TimeoutError") as refused:
            post(f"http://127.0.0.1:{port}/a-secret-path", b"{}", SECRET, timeout=0.2)
    assert "a-secret-path" not in str(refused.value)
    with pytest.raises(WebhookFailed, match="ConnectionRefusedError"):
        post(f"http://127.0.0.1:{port}/", b"{}", SECRET)


def test_without_a_secret_nothing_is_sent(receiver: Callable[..., Receiver], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(webhook.SECRET_VARIABLE, raising=False)
    target = receiver()
    with pytest.raises(WebhookFailed, match="SLOPPYJOBS_ALERT_SECRET") as failed:
        post(target.url, b"{}", None)
    assert target.received == []
    assert Redactor().text(str(failed.value)) == str(failed.value), "operators read the advice whole"


def test_a_coroutine_is_told_too(ready_sqlite_url: str, clock: FakeClock) -> None:
    told: list[str] = []

    async def tell(alert: Any) -> None:
        told.append(alert.text)

    jobs = Jobs(storage.sqlite(ready_sqlite_url, clock=clock))
    jobs.declare("charge", retry=Retry(max_attempts=1))
    jobs.declare_alert("dead", on="dead", deliver=tell)
    jobs.enqueue("charge")
    jobs.fail(jobs.claim("w")[0], ValueError("no"))
    jobs.create_worker().run_once()
    assert len(told) == 1
    assert jobs.admin.list_alert_rules()[0].target == "tell"
    jobs.storage.close()
