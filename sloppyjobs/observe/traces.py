"""OpenTelemetry spans from the enqueue to the execution, where the application has configured a tracer provider.

Nothing is imported here: who has configured tracing has imported it. Otherwise it costs one lookup in
``sys.modules``. The trace travels in the job's metadata under ``TRACE``. Errors in spans are redacted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import msgspec

from sloppyjobs import errors
from sloppyjobs.domain import failures, payload
from sloppyjobs.domain.model import Claim, Job, NewJob, Terms
from sloppyjobs.domain.redaction.redactor import Redactor
from sloppyjobs.domain.states import Failure

OPENTELEMETRY = "opentelemetry.trace"
"""Where this is not among ``sys.modules`` there is no tracer, and nobody need ask for one."""
TRACE = "_trace"
"""The key of a job's metadata under which its trace is stored; handlers do not see it."""

Write = Callable[[Sequence[NewJob]], list[Job]]


def tracer() -> Any:
    """The tracer of the configured provider; None where tracing is not installed, not imported or not configured."""
    trace: Any = sys.modules.get(OPENTELEMETRY)
    if trace is None:
        return None
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return _tracer_of(provider)


@lru_cache(maxsize=1)
def _tracer_of(provider: Any) -> Any:
    from sloppyjobs import __version__  # noqa: PLC0415 - the package imports its modules lazily

    return provider.get_tracer("sloppyjobs", __version__)


def produce(using: Any, new: Sequence[NewJob], write: Write) -> tuple[Sequence[NewJob], list[Job]]:
    """Write jobs inside a producer's span, and its trace with them; the jobs as asked for and as answered."""
    with _current(using, _producer(new), Redactor()) as span:
        traced = _with_trace(new, span)
        return traced, [without_trace(job) for job in write(traced)]


class ProducerSpan:
    """A producer's span of jobs that may not be written; it is exported only if it is ended."""

    def __init__(self, using: Any, new: Sequence[NewJob]) -> None:
        self._span = using.start_span(**_producer(new))
        self.jobs = _with_trace(new, self._span)

    def end(self) -> None:
        """The jobs were written."""
        self._span.end()


@contextmanager
def consuming(
    using: Any, claim: Claim, carrier: Mapping[str, str] | None, secret: Sequence[str] = ()
) -> Iterator[None]:
    """A consumer's span around a handler: a child of the enqueue's, and linked to it. ``secret`` keys are hidden."""
    redactor = Redactor(secret)
    with _current(using, _consumer(claim, carrier, redactor), redactor):
        yield


class RemoteSpan:
    """A consumer's span around a handler that runs in another process, which continues its ``carrier``."""

    def __init__(self, using: Any, claim: Claim, carrier: Mapping[str, str] | None, secret: Sequence[str] = ()) -> None:
        self._redactor = Redactor(secret)
        self._span = using.start_span(**_consumer(claim, carrier, self._redactor))
        self.carrier = _carrier_of(self._span)

    def end(self, failure: Failure | None) -> None:
        """The handler has ended; with a failure, if it did not end well."""
        if failure is not None:
            _record(self._span, failure, self._redactor)
        self._span.end()


@contextmanager
def _current(using: Any, options: dict[str, Any], redactor: Redactor) -> Iterator[Any]:
    """A span around a block. Tracing by itself would record what the block raises as it is."""
    with using.start_as_current_span(**options, record_exception=False, set_status_on_exception=False) as span:
        try:
            yield span
        except errors.Suspension:
            raise
        except BaseException as error:
            _record(span, failures.from_exception(error), redactor)
            raise


def _record(span: Any, failure: Failure, redactor: Redactor) -> None:
    """The failure as an event, as the span's status and as ``error.type``, without its secrets."""
    from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415

    message = redactor.text(failure.message)
    attributes = {
        "exception.type": failure.type,
        "exception.message": message,
        "exception.stacktrace": None if failure.traceback is None else redactor.text(failure.traceback),
    }
    span.add_event("exception", {name: text for name, text in attributes.items() if text is not None})
    span.set_attribute("error.type", failure.type or failure.code)
    span.set_status(Status(StatusCode.ERROR, message))


@contextmanager
def continuing(carrier: Mapping[str, str] | None) -> Iterator[None]:
    """Inside of a span of another process, where tracing is imported here."""
    if carrier is None or "opentelemetry.trace" not in sys.modules:
        yield
        return
    from opentelemetry import context  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    token = context.attach(TraceContextTextMapPropagator().extract(carrier))
    try:
        yield
    finally:
        context.detach(token)


def _consumer(claim: Claim, carrier: Mapping[str, str] | None, redactor: Redactor) -> dict[str, Any]:
    from opentelemetry.trace import Link, SpanKind, get_current_span  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    job = claim.job
    attributes = _attributes("process", job.name, job.queue, job.id)
    attributes["messaging.message.conversation_id"] = redactor.text(job.correlation_id or job.id)
    attributes["sloppyjobs.job.attempt"] = claim.attempt
    parent = None if carrier is None else TraceContextTextMapPropagator().extract(carrier)
    return {
        "name": f"process {job.queue}",
        "context": parent,
        "kind": SpanKind.CONSUMER,
        "attributes": attributes,
        "links": [] if parent is None else [Link(get_current_span(parent).get_span_context())],
    }


def carrier_in(metadata: Mapping[str, Any]) -> Mapping[str, str] | None:
    """The trace that came with a job, if one did; other values under its key are ignored."""
    found = metadata.get(TRACE)
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        return None
    return found


def without_trace(job: Job) -> Job:
    """The job without the trace in its metadata."""
    if TRACE not in job.metadata:
        return job
    return msgspec.structs.replace(job, metadata={key: value for key, value in job.metadata.items() if key != TRACE})


def _with_trace(new: Sequence[NewJob], span: Any) -> Sequence[NewJob]:
    carrier = _carrier_of(span)
    if not carrier:
        return new
    # Once for all jobs that share their terms, so that they go on sharing them.
    traced_terms = {id(job.terms): _with_carrier(job.terms, carrier) for job in new}
    return [NewJob(job.id, job.payload, traced_terms[id(job.terms)]) for job in new]


def _with_carrier(terms: Terms, carrier: Mapping[str, str]) -> Terms:
    known = {} if terms.metadata is None else payload.decode(terms.metadata)
    return msgspec.structs.replace(terms, metadata=payload.encode({**known, TRACE: carrier}, what="metadata"))


def _carrier_of(span: Any) -> dict[str, str]:
    from opentelemetry.trace import set_span_in_context  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, set_span_in_context(span))
    return carrier


def _producer(new: Sequence[NewJob]) -> dict[str, Any]:
    from opentelemetry.trace import SpanKind  # noqa: PLC0415

    first = new[0].terms
    attributes = _attributes("send", first.name, first.queue, new[0].id if len(new) == 1 else None)
    if len(new) > 1:
        attributes["messaging.batch.message_count"] = len(new)
    if first.schedule_id is not None:
        attributes["sloppyjobs.schedule.id"] = first.schedule_id
    return {"name": f"send {first.queue}", "kind": SpanKind.PRODUCER, "attributes": attributes}


def _attributes(operation: str, name: str, queue: str, job_id: str | None) -> dict[str, Any]:
    attributes = {
        "messaging.system": "sloppyjobs",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": queue,
        "sloppyjobs.job.name": name,
    }
    if job_id is not None:
        attributes["messaging.message.id"] = job_id
    return attributes
