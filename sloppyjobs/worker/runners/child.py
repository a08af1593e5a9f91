"""What runs in a process of its own: one handler at a time, wrapped in middleware as in the worker.

It sends messages to the worker: progress, log lines, log records, and jobs to enqueue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sloppyjobs import errors
from sloppyjobs.domain.model import Claim, Job
from sloppyjobs.domain.payload import decode
from sloppyjobs.domain.retry import Retry
from sloppyjobs.domain.states import Outcome
from sloppyjobs.domain.steps import Answer, Kept, StepKind
from sloppyjobs.enqueue.definitions import Definition, Handler
from sloppyjobs.enqueue.upcasts import Upcast
from sloppyjobs.internals import internals
from sloppyjobs.logs import json_fields, portable, stamp_handlers
from sloppyjobs.observe import traces
from sloppyjobs.observe.hooks import Hooks
from sloppyjobs.worker import executor
from sloppyjobs.worker.middleware import MiddlewareChain
from sloppyjobs.worker.runners.find_jobs import Find, imported
from sloppyjobs.worker.runners.messages import MessageClient
from sloppyjobs.worker.task import Task


class Call(NamedTuple):
    """An attempt on its way into another process."""

    module: str
    path: str
    claim: str
    input: Any
    retry: str
    backoff: Callable[[int], Any] | None
    find: Find | None
    """Finds the jobs whose middleware wraps the handler; None without middleware."""
    trace: Mapping[str, str] | None
    version: int
    upcasts: Mapping[int, Upcast]


class ForwardingHandler(logging.Handler):
    """Sends records that are logged while a handler runs to the worker, whose handlers write them."""

    def emit(self, record: logging.LogRecord) -> None:
        """Send the record, and whether this process writes it as well."""
        task, client = _child.task, _child.client
        # What modules log while they are imported, before the handler begins, is not about the job.
        if task is None or client is None or not _child.begun:
            return
        try:
            client.send(task.fence, "record", portable(record), self._written_here(record.name))
        except Exception:
            self.handleError(record)

    def _written_here(self, name: str) -> bool:
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return True
            logger = logger.parent
        return False


class _Child:
    """This process, if it was started to run handlers."""

    def __init__(self) -> None:
        self.client: MessageClient | None = None
        self.task: Task | None = None
        self.begun = False
        self.forwarding = ForwardingHandler()


_child = _Child()


def in_child() -> bool:
    """Whether this process was started to run handlers."""
    return _child.client is not None


def prepare(address: Any, levels: Mapping[str, int]) -> None:
    """When the process starts: connect to the worker, and set the log levels that it has."""
    _child.client = MessageClient(address)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def execute(call: Call) -> Outcome:
    """Run an attempt to its end."""
    assert _child.client is not None
    claim = Claim.from_json(call.claim)
    handler: Any = imported(call.module, call.path)
    definition = Definition(
        claim.job.name,
        handler.handler if isinstance(handler, Definition) else handler,
        _MessageReports().enqueue,
        input=call.input,
        retry=Retry.from_json(call.retry, call.backoff),
        isolation="process",
        version=call.version,
    )
    definition.upcasts.update(call.upcasts)
    task = _child.task = Task.of_claim(claim, definition, _MessageReports())
    try:
        if call.find is not None:
            task.handler = _wrapped_handler(call.find, definition)
        _forward()
        _child.client.send(task.fence, "begin")
        _child.begun = True
        with traces.continuing(call.trace):
            return executor.run(task)
    except Exception as error:
        return executor.interpret_exception(task, error)
    finally:
        _child.task, _child.begun = None, False
        _child.client.send(task.fence, "end")


def _wrapped_handler(find: Find, definition: Definition) -> Handler | None:
    wrap = MiddlewareChain(_hooks(find), traced=False).wrapper()
    return definition.handler if wrap is None else wrap(definition)


@lru_cache
def _hooks(find: Find) -> Hooks:
    # Before the application is made, which may look whether anybody handles its logs.
    _forward()
    try:
        hooks: Hooks = internals(find()).hooks
    except Exception as error:
        raise errors.JobsError(
            "the process cannot find the jobs again, whose middleware surrounds the handler: "
            f"{type(error).__name__}: {error}"
        ) from error
    stamp_handlers()
    return hooks


def _forward() -> None:
    """Send log records to the worker; an application that configures its logging may have removed the handler."""
    if _child.forwarding not in logging.root.handlers:
        logging.root.addHandler(_child.forwarding)


class _MessageReports:
    """Reports to the worker, by messages."""

    def extend_lease(self, claim: Claim, seconds: float | None) -> bool:
        return bool(self._client.call((claim.id, claim.attempt), "extend_lease", seconds))

    def progress(self, claim: Claim, percent: float | None, message: str | None, fields: str | None) -> None:
        self._client.send((claim.id, claim.attempt), "progress", percent, message, fields)

    def log(self, claim: Claim, level: str, message: str, fields: Mapping[str, Any]) -> None:
        self._client.send((claim.id, claim.attempt), "log", level, message, decode(json_fields(fields) or "{}"))

    def enqueue(self, name: str, payload: Any = None, **options: Any) -> Job:
        """In the worker, which has the definitions; so it is not part of a transaction here."""
        if options.get("session") is not None or options.get("connection") is not None:
            raise errors.InvalidOption(
                "session and connection do not reach out of a process; use jobs.enqueue, which has its own here"
            )
        task = _child.task
        assert task is not None
        job: Job = self._client.call(task.fence, "enqueue", name, payload, options)
        return job

    def add_member(self, claim: Claim, name: str, payload: Any, options: Mapping[str, Any]) -> Job:
        """In the worker, as ``enqueue``."""
        if options.get("session") is not None or options.get("connection") is not None:
            raise errors.InvalidOption("session and connection do not reach out of a process")
        job: Job = self._client.call((claim.id, claim.attempt), "add_member", name, payload, dict(options))
        return job

    def add_members(self, claim: Claim, items: Sequence[Any]) -> list[Job]:
        """In the worker, as ``enqueue``."""
        jobs: list[Job] = self._client.call((claim.id, claim.attempt), "add_members", list(items))
        return jobs

    def parents(self, claim: Claim) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._client.call((claim.id, claim.attempt), "parents")
        return found

    def known_steps(self, claim: Claim) -> Sequence[Kept]:
        found: Sequence[Kept] = self._client.call((claim.id, claim.attempt), "known_steps")
        return found

    def keep_step(self, claim: Claim, name: str, result: str, seconds: float, place: int) -> bool:
        return bool(self._client.call((claim.id, claim.attempt), "keep_step", name, result, seconds, place))

    def ask_step(self, claim: Claim, kind: StepKind, name: str, seconds: float | None, place: int) -> Answer | None:
        asked = (kind, name, seconds, place)
        answer: Answer | None = self._client.call((claim.id, claim.attempt), "ask_step", *asked)
        return answer

    @property
    def _client(self) -> MessageClient:
        assert _child.client is not None
        return _child.client
