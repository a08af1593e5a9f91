"""One secret in every place of a job, searched for in everything that leaves: pages, API, metrics, spans and logs."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from hosts import PREFIX, Client, make_app
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import generate_latest
from pydantic import BaseModel, Field, ValidationError
from sqlalchemy import create_engine
from sqlalchemy.exc import IntegrityError

from sloppyjobs import Jobs, Retry

CANARY = "c4naryInTheMine"
LINK = re.compile(r'(?:href|action|hx-get)="([^"#]+)"')


class Login(BaseModel):
    """What a validator refuses."""

    password: str = Field(max_length=3)


def database_error() -> str:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE users (name TEXT, api_key TEXT UNIQUE)")
        insert = "INSERT INTO users (name, api_key) VALUES (?, ?)"
        connection.exec_driver_sql(insert, ("ann", CANARY))
        with pytest.raises(IntegrityError) as raised:
            connection.exec_driver_sql(insert, ("bob", CANARY))
    engine.dispose()
    return f"{raised.value}\nDETAIL:  Key (api_key)=({CANARY}) already exists."


def validation_error() -> str:
    with pytest.raises(ValidationError) as raised:
        Login(password=CANARY)
    return f"{raised.value}\n{raised.value.errors()}"


def texts() -> list[str]:
    """The secret as errors, logs and messages hold it."""
    return [
        database_error(),
        validation_error(),
        f"Command '['pg_dump', '--password', '{CANARY}']' returned non-zero exit status 1.",
        f"GET https://ann:{CANARY}@pay.example/x?api%5Fkey={CANARY} headers [('Authorization', '{CANARY}')]",
        f"password: two words {CANARY}",
        f"<password>{CANARY}</password>",
    ]


def values() -> dict[str, Any]:
    """The secret as payloads, results and metadata hold it."""
    return {
        "password_prod": CANARY,
        "env": [{"name": "DB_PASSWORD", "value": CANARY}],
        "headers": [["Authorization", CANARY]],
        "argv": ["tool", "--token", CANARY],
        "colour": CANARY,
        "texts": texts(),
        "long": "x" * 1_995 + f" password={CANARY} " + "y" * 9_000,
    }


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


@pytest.fixture
def leaky(jobs: Jobs, spans: InMemorySpanExporter) -> Jobs:
    """Jobs that carry the canary everywhere: some dead, some succeeded, some waiting, and a schedule."""

    def define(name: str, handler: Any) -> None:
        jobs.define(name, handler, retry=Retry(max_attempts=1), redact=("colour",), metadata={"secret": CANARY})

    def fail(ctx: Any, payload: Any) -> None:
        text = payload["texts"][payload["number"]]
        ctx.log("error", text, password=CANARY, note=text)
        ctx.progress(50, text[:200])
        raise RuntimeError(text)

    define("fail", fail)
    define("succeed", lambda ctx, payload: payload)
    for number, text in enumerate(texts()):
        jobs.enqueue(
            "fail", {**values(), "number": number}, correlation_id=f"password={CANARY}", principal=f"pw={CANARY}"
        )
        jobs.enqueue("succeed", {"text": text}, idempotency_key=f"token={CANARY}{number}")
    worker = jobs.create_worker(recurring=False)
    while worker.run_once():
        pass
    waiting = jobs.enqueue("succeed", values(), delay=3_600)
    jobs.admin.pause(waiting.id, actor="ada", reason=f"password={CANARY}")
    jobs.recurring("nightly", "succeed", values(), every=3_600)
    return jobs


def pages(client: Client) -> Iterator[tuple[str, str]]:
    """Every page that a link leads to."""
    waiting, seen = ["/"], set()
    while waiting and len(seen) < 400:
        path = waiting.pop()
        if path in seen or path.startswith("/assets"):
            continue
        seen.add(path)
        text = client.get(path).get_data(as_text=True)
        yield path, text
        links = (unescape(link) for link in LINK.findall(text))
        waiting += [link.removeprefix(PREFIX) or "/" for link in links if link.startswith(PREFIX)]


def test_the_canary_is_on_no_page(leaky: Jobs) -> None:
    shown = dict(pages(Client(make_app(leaky).test_client())))
    assert len(shown) > 20 and sum("[redacted]" in text for text in shown.values()) > 5
    assert [path for path, text in shown.items() if CANARY in unescape(text)] == []


def test_the_canary_is_in_no_answer_of_the_api(leaky: Jobs) -> None:
    client = make_app(leaky).test_client()
    headers = {"Authorization": "Bearer t0k3n"}
    described = client.get(f"{PREFIX}/api/v1/openapi.json", headers=headers).json
    assert described is not None
    ids = [job.id for job in leaky.admin.list_jobs(page_size=200)]
    asked = 0
    for path, verbs in described["paths"].items():
        if "get" not in verbs:
            continue
        for id in ids if "{" in path else [""]:
            url = re.sub(r"\{[^}]*\}", "nightly" if "recurring" in path else id, path)
            for address in (url, f"{PREFIX}/api/v1{url}"):
                answer = client.get(address, headers=headers)
                asked += answer.status_code == 200
                assert CANARY not in answer.get_data(as_text=True), address
    assert asked > len(ids)


def test_the_canary_is_in_no_metric_span_or_log_line(
    leaky: Jobs, spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    client = make_app(leaky).test_client()
    metrics = client.get(f"{PREFIX}/metrics", headers={"Authorization": "Bearer t0k3n"})
    assert metrics.status_code == 200 and CANARY not in metrics.get_data(as_text=True)
    assert CANARY.encode() not in generate_latest()
    exported = "".join(span.to_json() for span in spans.get_finished_spans())
    assert "exception" in exported and CANARY not in exported
    own = [record for record in caplog.records if record.name.startswith("sloppyjobs")]
    assert CANARY not in "".join(logging.Formatter().format(record) for record in own)
