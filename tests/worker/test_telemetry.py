"""One trace from the enqueue to the execution, where the application has configured tracing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from sloppyjobs import InvalidOption, Jobs, Retry, Worker
from sloppyjobs.observe.traces import TRACE
from sloppyjobs.testing import drain

Start = Callable[..., Worker]


@pytest.fixture
def database_url(ready_sqlite_url: str) -> str:
    return ready_sqlite_url


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Tracing, configured for the length of a test."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


def named(spans: InMemorySpanExporter, operation: str, job: str) -> list[ReadableSpan]:
    """The spans of an operation on jobs of that name."""
    wanted = {"messaging.operation.name": operation, "sloppyjobs.job.name": job}
    return [span for span in spans.get_finished_spans() if wanted.items() <= dict(span.attributes or {}).items()]


def exported(spans: InMemorySpanExporter) -> str:
    """Everything that leaves."""
    return "".join(span.to_json() for span in spans.get_finished_spans())


def test_functions_and_coroutines_continue_the_trace_of_their_enqueue(
    jobs: Jobs, start: Start, spans: InMemorySpanExporter
) -> None:
    seen: list[Any] = []

    @jobs.define("say", queue="loud", metadata={"team": "growth"})
    def say(ctx: Any, payload: Any) -> None:
        seen.append((dict(ctx.metadata), trace.get_current_span().get_span_context().trace_id))

    @jobs.define("later")
    async def later(ctx: Any, payload: Any) -> None:
        seen.append((dict(ctx.metadata), trace.get_current_span().get_span_context().trace_id))

    with trace.get_tracer("test").start_as_current_span("request") as request:
        said = jobs.enqueue("say")
        asked = jobs.enqueue("later", metadata={"a": 1})
    worker = start()
    jobs.wait(said.id, 60)
    jobs.wait(asked.id, 60)
    worker.stop()
    one = request.get_span_context().trace_id
    assert sorted(seen, key=str) == sorted([({"team": "growth"}, one), ({"a": 1}, one)], key=str)
    (sent,), (ran,) = named(spans, "send", "say"), named(spans, "process", "say")
    assert (sent.kind, ran.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert sent.parent is not None and sent.parent.span_id == request.get_span_context().span_id
    assert ran.parent is not None and ran.parent.span_id == sent.context.span_id
    assert [link.context.span_id for link in ran.links] == [sent.context.span_id]
    assert ran.attributes is not None
    assert (ran.attributes["messaging.message.id"], ran.attributes["messaging.destination.name"]) == (said.id, "loud")
    assert ran.attributes["sloppyjobs.job.attempt"] == 1
    assert (sent.name, ran.name) == ("send loud", "process loud")
    assert ran.attributes["messaging.operation.name"] == ran.attributes["messaging.operation.type"] == "process"
    assert "error.type" not in ran.attributes


def test_the_trace_is_not_part_of_the_metadata_that_producers_and_handlers_see(
    jobs: Jobs, spans: InMemorySpanExporter
) -> None:
    jobs.declare("say")
    assert jobs.enqueue("say").metadata == {}
    assert jobs.enqueue("say", metadata={"a": 1}).metadata == {"a": 1}
    with pytest.raises(InvalidOption, match="reserved"):
        jobs.enqueue("say", metadata={TRACE: {}})


def test_every_attempt_has_a_span_and_a_failure_is_seen(jobs: Jobs, spans: InMemorySpanExporter) -> None:
    @jobs.define("fail", retry=Retry(max_attempts=2, backoff="none"))
    def fail(ctx: Any, payload: Any) -> None:
        raise ValueError("oh")

    jobs.enqueue("fail")
    drain(jobs)
    ran = named(spans, "process", "fail")
    assert [span.status.status_code for span in ran] == [StatusCode.ERROR, StatusCode.ERROR]
    assert len({span.context.trace_id for span in [*ran, *named(spans, "send", "fail")]}) == 1


CANARY = "canary-7f3a9b"


class Refused(Exception):
    """An error of the application."""


def leak(ctx: Any, payload: Any) -> None:
    raise Refused(f"cannot log in with password={CANARY}, colour={CANARY}") from ValueError(f"--token {CANARY}")


@pytest.mark.parametrize("isolation", ["thread", "async", pytest.param("process", marks=pytest.mark.slow)])
def test_no_secret_leaves_in_a_span(jobs: Jobs, start: Start, spans: InMemorySpanExporter, isolation: str) -> None:
    async def leak_later(ctx: Any, payload: Any) -> None:
        leak(ctx, payload)

    handler = leak_later if isolation == "async" else leak
    jobs.define("leak", handler, isolation=isolation, redact=("colour",), retry=Retry(max_attempts=1))
    job = jobs.enqueue("leak", {"password": CANARY}, correlation_id=f"token={CANARY}", metadata={"secret": CANARY})
    worker = start(concurrency=1)
    jobs.wait(job.id, timeout=60)
    worker.stop()
    (ran,) = named(spans, "process", "leak")
    assert CANARY not in exported(spans)
    assert ran.attributes is not None and str(ran.attributes["error.type"]).endswith("Refused")
    assert ran.status.description is not None and ran.status.description.startswith("cannot log in with password=[")
    (event,) = ran.events
    assert event.attributes is not None and "in leak" in str(event.attributes["exception.stacktrace"])


def test_no_secret_leaves_in_the_span_of_an_enqueue_that_fails(jobs: Jobs, spans: InMemorySpanExporter) -> None:
    jobs.declare("leak")
    with jobs.storage.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE sloppy_jobs RENAME TO gone")
    with pytest.raises(Exception, match="sloppy_jobs"):
        jobs.enqueue("leak", {"password": CANARY}, correlation_id=f"token={CANARY}")
    (sent,) = named(spans, "send", "leak")
    assert sent.status.status_code is StatusCode.ERROR and "error.type" in (sent.attributes or {})
    assert CANARY not in exported(spans)


def test_many_jobs_are_sent_in_one_span(jobs: Jobs, spans: InMemorySpanExporter) -> None:
    jobs.define("say", lambda ctx, payload: None)
    jobs.enqueue_many([("say", n) for n in range(3)])
    drain(jobs)
    (sent,) = named(spans, "send", "say")
    assert sent.attributes is not None
    assert sent.attributes["messaging.batch.message_count"] == 3
    assert {span.context.trace_id for span in named(spans, "process", "say")} == {sent.context.trace_id}


def test_a_schedule_sends_its_jobs_in_a_span_and_a_trigger_in_the_trace_of_who_asked(
    jobs: Jobs, spans: InMemorySpanExporter
) -> None:
    jobs.define("say", lambda ctx, payload: dict(ctx.metadata))
    jobs.recurring("soon", "say", at=jobs.storage.clock.now())
    (fired,) = jobs.tick_recurring()
    assert (fired.metadata, jobs.get(fired.id).metadata, jobs.admin.get_job(fired.id).metadata) == ({}, {}, {})
    (sent,) = named(spans, "send", "say")
    assert sent.attributes is not None
    assert sent.attributes["sloppyjobs.schedule.id"] == fired.schedule_id
    assert sent.attributes["messaging.message.id"] == fired.id
    jobs.recurring("hourly", "say", every=3600)
    with trace.get_tracer("test").start_as_current_span("request") as request:
        asked = jobs.admin.trigger_recurring("hourly")
    drain(jobs)
    assert TRACE not in asked.metadata
    by_id = {
        span.attributes["messaging.message.id"]: span for span in named(spans, "process", "say") if span.attributes
    }
    assert by_id[fired.id].context.trace_id == sent.context.trace_id
    assert by_id[asked.id].context.trace_id == request.get_span_context().trace_id
    assert jobs.tick_recurring() == []
    assert len(named(spans, "send", "say")) == 2


def test_a_job_with_a_damaged_trace_begins_its_own(jobs: Jobs, spans: InMemorySpanExporter) -> None:
    jobs.define("say", lambda ctx, payload: dict(ctx.metadata))
    broken = jobs.enqueue("say")
    with jobs.storage.engine.begin() as connection:
        connection.exec_driver_sql("""UPDATE sloppy_jobs SET metadata = '{"_trace": {"traceparent": 5}, "a": 1}'""")
    drain(jobs)
    assert jobs.get(broken.id).result == {"a": 1}
    (ran,) = named(spans, "process", "say")
    assert ran.parent is None


def test_middleware_runs_inside_the_span(jobs: Jobs, spans: InMemorySpanExporter) -> None:
    @jobs.middleware
    def surround(ctx: Any, payload: Any, call_next: Any) -> Any:
        trace.get_current_span().set_attribute("seen", "yes")
        return call_next()

    jobs.define("say", lambda ctx, payload: None)
    jobs.enqueue("say")
    drain(jobs)
    (ran,) = named(spans, "process", "say")
    assert ran.attributes is not None and ran.attributes["seen"] == "yes"


def enqueue_further(ctx: Any, payload: Any) -> str:
    return str(ctx.enqueue("further").id)


def break_off(ctx: Any, payload: Any) -> None:
    os._exit(3)


@pytest.mark.slow
def test_a_handler_in_a_process_continues_the_trace_even_if_the_process_dies(
    jobs: Jobs, start: Start, spans: InMemorySpanExporter
) -> None:
    jobs.define("parent", enqueue_further, isolation="process")
    jobs.define("further", lambda ctx, payload: None)
    jobs.define("die", break_off, isolation="process", retry=Retry(max_attempts=1))
    parent, dying = jobs.enqueue("parent"), jobs.enqueue("die")
    worker = start(concurrency=1)
    jobs.wait(jobs.wait(parent.id, timeout=60).result, timeout=60)
    jobs.wait(dying.id, timeout=60)
    worker.stop()
    (sent,), (ran,) = named(spans, "send", "parent"), named(spans, "process", "parent")
    (sent_on,), (ran_on,) = named(spans, "send", "further"), named(spans, "process", "further")
    chain = [ran.parent, sent_on.parent, ran_on.parent]
    assert [one.span_id for one in chain if one] == [one.context.span_id for one in (sent, ran, sent_on)]
    (died,) = named(spans, "process", "die")
    assert died.status.status_code is StatusCode.ERROR
    assert [event.name for event in died.events] == ["exception"]


def test_without_a_configured_provider_nothing_is_traced_or_stored(jobs: Jobs) -> None:
    jobs.define("say", lambda ctx, payload: None)
    jobs.enqueue("say")
    drain(jobs)
    with jobs.storage.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT metadata FROM sloppy_jobs").scalar_one() is None


def test_the_library_does_not_import_tracing_by_itself() -> None:
    code = "import sys; from sloppyjobs import Jobs; Jobs('sqlite://').create_worker(); print(sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "opentelemetry" not in ran.stdout
