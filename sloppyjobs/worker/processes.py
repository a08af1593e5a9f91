"""Handlers in processes of their own, which are killed when they must end."""

from __future__ import annotations

import importlib
import multiprocessing
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sloppyjobs import errors, payload
from sloppyjobs.definitions import Cancel, Definition, RetryLater, Snooze
from sloppyjobs.model import Claim, Job
from sloppyjobs.states import Outcome
from sloppyjobs.worker import executor
from sloppyjobs.worker.context import Context, Signal
from sloppyjobs.worker.runners import Finish
from sloppyjobs.worker.task import Task

Message = tuple[str, str, tuple[Any, ...]]


class ProcessRunner:
    """A pool of processes, started on first use. A task whose signal is set loses its process."""

    def __init__(self, size: int, finish: Finish) -> None:
        from pebble import ProcessPool  # noqa: PLC0415 - only for those who ask for it

        # Spawned, not forked: a fork of a process with threads and connections inherits their locks.
        spawning = multiprocessing.get_context("spawn")
        self._words: Any = spawning.SimpleQueue()
        self._pool = ProcessPool(max_workers=size, context=spawning, initializer=_listen_to, initargs=[self._words])
        self._finish = finish
        self._tasks: dict[str, tuple[Task, threading.Event]] = {}
        self._hearing = threading.Thread(target=self._hear, name="sloppyjobs-processes", daemon=True)
        self._hearing.start()

    def submit(self, tasks: Sequence[Task]) -> None:
        """Hand tasks to the pool."""
        for task in tasks:
            if not task.begin():
                continue
            handler: Any = task.definition.handler
            self._tasks[task.claim.id] = task, threading.Event()
            call = (handler.__module__, handler.__qualname__, task.claim.to_json())
            future = self._pool.schedule(_execute, args=call)
            task.signal.on_abort(future.cancel)
            future.add_done_callback(partial(self._done, task))

    def close(self) -> None:
        """Kill what still runs."""
        self._pool.stop()  # type: ignore[no-untyped-call]
        self._pool.join()
        self._words.put(None)
        self._hearing.join(timeout=1)

    def _done(self, task: Task, future: Any) -> None:
        _, heard = self._tasks[task.claim.id]
        if not future.cancelled() and future.exception() is None:
            # The result and the reports come by different pipes; the last report is not to be lost.
            heard.wait(timeout=1)
        self._tasks.pop(task.claim.id, None)
        self._finish(task, _outcome(task, future))

    def _hear(self) -> None:
        """What the handlers report, passed on to the worker."""
        while (message := self._words.get()) is not None:
            job_id, method, arguments = message
            task, heard = self._tasks.get(job_id, (None, None))
            if task is None or heard is None:
                continue
            if method == "end":
                heard.set()
            elif method == "log":
                level, text, fields = arguments
                task.context.log(level, text, **fields)
            elif method == "progress":
                task.context.progress(*arguments)
            elif method == "extend_lease":
                task.context.extend_lease(*arguments)


def _outcome(task: Task, future: Any) -> Outcome:
    if future.cancelled():
        return executor.raised(task, errors.JobAborted(f"the process was ended: {task.signal.reason}"))
    error = future.exception()
    if error is not None:
        return executor.raised(task, error)
    kind, value = future.result()
    match kind:
        case "retry":
            return executor.raised(task, RetryLater(*value))
        case "invalid":
            return executor.refused(errors.InvalidPayload(value))
        case "snooze":
            value = Snooze(value)
        case "cancel":
            value = Cancel(value)
    return executor.returned_value(task, value)


# In the child

_words_to_parent: Any = None


def _listen_to(words: Any) -> None:
    global _words_to_parent  # noqa: PLW0603 - set once, when the process starts
    _words_to_parent = words


class _Relay:
    """Reports from the child, over the pipe."""

    def extend_lease(self, claim: Claim, seconds: float | None) -> bool:
        _words_to_parent.put((claim.id, "extend_lease", (seconds,)))
        return True

    def progress(self, claim: Claim, percent: float, message: str | None) -> None:
        _words_to_parent.put((claim.id, "progress", (percent, message)))

    def log(self, claim: Claim, level: str, message: str, fields: Mapping[str, Any]) -> None:
        kept = {key: payload.clean_text(value, 500) for key, value in fields.items()}
        _words_to_parent.put((claim.id, "log", (level, message, kept)))

    def enqueue(self, name: str, payload: Any, **options: Any) -> Job:  # noqa: ARG002
        raise errors.JobsError('ctx.enqueue does not reach out of a process; use jobs.enqueue, or isolation="thread"')


def _execute(module: str, name: str, claim_json: str) -> tuple[str, Any]:
    claim = Claim.from_json(claim_json)
    handler = _resolve(module, name)
    schema = None
    if isinstance(handler, Definition):
        schema, handler = handler.input, handler.handler
    try:
        value = claim.payload if schema is None else payload.convert(claim.payload, schema)
    except errors.InvalidPayload as error:
        return "invalid", str(error)
    try:
        returned = handler(Context(claim, Signal(), _Relay()), value)
    except RetryLater as error:
        return "retry", (error.after, str(error))
    finally:
        _words_to_parent.put((claim.id, "end", ()))
    if isinstance(returned, Snooze):
        return "snooze", returned.seconds
    if isinstance(returned, Cancel):
        return "cancel", returned.reason
    return "value", returned


def _resolve(module: str, name: str) -> Any:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found
