"""What runs in a process of its own: one handler at a time, with everything around it as in the worker.

Its words go to the worker by a line: progress, log lines, log records, and jobs to enqueue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from sloppyjobs import errors
from sloppyjobs.domain.model import Claim, Job
from sloppyjobs.domain.payload import decode
from sloppyjobs.domain.retry import Retry
from sloppyjobs.domain.states import Outcome
from sloppyjobs.enqueue.definitions import Definition, Handler
from sloppyjobs.internals import internals
from sloppyjobs.logs import json_fields, portable, stamp_handlers
from sloppyjobs.observe import traces
from sloppyjobs.observe.hooks import Hooks
from sloppyjobs.worker import executor
from sloppyjobs.worker.middleware import Surroundings
from sloppyjobs.worker.runners.find_jobs import Find, imported
from sloppyjobs.worker.runners.messages import Line
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
    """Finds the jobs whose middleware surrounds the handler; None where nothing does."""
    trace: Mapping[str, str] | None


class Forwarding(logging.Handler):
    """Sends what is logged while a handler runs to the worker, which knows where it is to be written."""

    def emit(self, record: logging.LogRecord) -> None:
        """Send the record, and whether this process writes it as well."""
        task, line = _child.task, _child.line
        # What modules say while they are imported, before the handler begins, is not about the job.
        if task is None or line is None or not _child.begun:
            return
        try:
            line.tell(task.fence, "record", portable(record), self._written_here(record.name))
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
        self.line: Line | None = None
        self.task: Task | None = None
        self.begun = False
        self.forwarding = Forwarding()


_child = _Child()


def in_child() -> bool:
    """Whether this process was started to run handlers."""
    return _child.line is not None


def prepare(address: Any, levels: Mapping[str, int]) -> None:
    """When the process starts: call the worker, and log from the levels on that it logs from."""
    _child.line = Line(address)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def execute(call: Call) -> Outcome:
    """Run an attempt to its end."""
    assert _child.line is not None
    claim = Claim.from_json(call.claim)
    handler: Any = imported(call.module, call.path)
    definition = Definition(
        claim.job.name,
        handler.handler if isinstance(handler, Definition) else handler,
        _Relay().enqueue,
        input=call.input,
        retry=Retry.from_json(call.retry, call.backoff),
        isolation="process",
    )
    task = _child.task = Task.hold(claim, definition, _Relay())
    try:
        if call.find is not None:
            task.handler = _surrounded(call.find, definition)
        _forward()
        _child.line.tell(task.fence, "begin")
        _child.begun = True
        with traces.continuing(call.trace):
            return executor.run(task)
    except Exception as error:
        return executor.raised(task, error)
    finally:
        _child.task, _child.begun = None, False
        _child.line.tell(task.fence, "end")


def _surrounded(find: Find, definition: Definition) -> Handler | None:
    around = Surroundings(_hooks(find), traced=False).around()
    return definition.handler if around is None else around(definition)


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
    """Send log records to the worker; an application that configures its logging may have thrown the handler out."""
    if _child.forwarding not in logging.root.handlers:
        logging.root.addHandler(_child.forwarding)


class _Relay:
    """Reports to the worker."""

    def extend_lease(self, claim: Claim, seconds: float | None) -> bool:
        return bool(self._line.ask((claim.id, claim.attempt), "extend_lease", seconds))

    def progress(self, claim: Claim, percent: float | None, message: str | None, fields: str | None) -> None:
        self._line.tell((claim.id, claim.attempt), "progress", percent, message, fields)

    def log(self, claim: Claim, level: str, message: str, fields: Mapping[str, Any]) -> None:
        self._line.tell((claim.id, claim.attempt), "log", level, message, decode(json_fields(fields) or "{}"))

    def enqueue(self, name: str, payload: Any = None, **options: Any) -> Job:
        """In the worker, which has the definitions; so it is not part of a transaction here."""
        if options.get("session") is not None or options.get("connection") is not None:
            raise errors.InvalidOption(
                "session and connection do not reach out of a process; use jobs.enqueue, which has its own here"
            )
        task = _child.task
        assert task is not None
        job: Job = self._line.ask(task.fence, "enqueue", name, payload, options)
        return job

    @property
    def _line(self) -> Line:
        assert _child.line is not None
        return _child.line
