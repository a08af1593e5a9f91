"""Handlers in processes of their own, which are killed when they must end."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from sloppyjobs import errors
from sloppyjobs.domain import payload
from sloppyjobs.domain.states import Failed, Outcome
from sloppyjobs.logs import running
from sloppyjobs.observe import traces
from sloppyjobs.observe.hooks import Hooks
from sloppyjobs.storage.ports.claims import Fence
from sloppyjobs.worker import executor
from sloppyjobs.worker.observe.captured_logs import CaptureHandler
from sloppyjobs.worker.runners import child
from sloppyjobs.worker.runners.find_jobs import Find
from sloppyjobs.worker.runners.messages import MessageServer
from sloppyjobs.worker.runners.threads import Finish
from sloppyjobs.worker.task import Task

IMPORT_SECONDS = 60.0
"""How long a process may import the application, before the time of its first handler begins to run."""
LAST_REPORTS_SECONDS = 5.0


class _Run:
    """A task in another process."""

    def __init__(self, task: Task) -> None:
        tracer = traces.tracer()
        self.task = task
        self.reports_received = threading.Event()
        self.span = (
            None if tracer is None else traces.RemoteSpan(tracer, task.claim, task.trace, task.definition.redact)
        )

    @property
    def carrier(self) -> Mapping[str, str] | None:
        """The trace that continues in the other process."""
        return None if self.span is None else self.span.carrier

    def end(self, outcome: Outcome) -> None:
        """The process has finished it."""
        if self.span is not None:
            self.span.end(outcome.failure if isinstance(outcome, Failed) else None)


class ProcessRunner:
    """A pool of processes, started on first use. A task whose signal is set loses its process."""

    def __init__(self, size: int, finish: Finish, hooks: Hooks, find: Callable[[], Find | None]) -> None:
        self._size = size
        self._finish = finish
        self._hooks = hooks
        self._find = find
        self._lock = threading.Lock()
        self._waiting: deque[Task] = deque()
        self._runs: dict[Fence, _Run] = {}
        self._server = MessageServer(self._handle)
        self._pool = self._new_pool()

    def submit(self, tasks: Sequence[Task]) -> None:
        """Take tasks; as many as there are processes begin at once."""
        with self._lock:
            self._waiting.extend(tasks)
        self._pull()

    @property
    def blocked(self) -> bool:
        """Never: what must end is killed."""
        return False

    def close(self) -> None:
        """Kill what still runs."""
        with self._lock:
            self._waiting.clear()
        self._pool.stop()
        self._pool.join()
        self._server.close()

    def _new_pool(self) -> Any:
        from pebble import ProcessPool  # noqa: PLC0415 - only for those who ask for it

        # Spawned, not forked: a fork of a process with threads and connections inherits their locks.
        spawn = multiprocessing.get_context("spawn")
        arguments = (self._server.address, _log_levels())
        return ProcessPool(max_workers=self._size, context=spawn, initializer=child.prepare, initargs=arguments)

    def _pull(self) -> None:
        while (run := self._next()) is not None:
            try:
                future = self._schedule(self._call(run))
            except Exception as error:
                self._end(run, executor.interpret_exception(run.task, error))
                continue
            run.task.signal.on_abort(future.cancel)
            future.add_done_callback(partial(self._done, run))

    def _next(self) -> _Run | None:
        with self._lock:
            while self._waiting and len(self._runs) < self._size:
                task = self._waiting.popleft()
                if task.begin():
                    task.grace = IMPORT_SECONDS
                    run = self._runs[task.fence] = _Run(task)
                    return run
        return None

    def _call(self, run: _Run) -> child.Call:
        task = run.task
        handler: Any = task.definition.handler
        retry = task.definition.retry
        find = self._find() if self._hooks.middlewares else None
        if self._hooks.middlewares and find is None:
            raise errors.JobsError(
                "middleware cannot surround a handler in a process of its own, because that process cannot import "
                "the jobs: give them a name at the top of a module"
            )
        return child.Call(
            module=handler.__module__,
            path=handler.__qualname__,
            claim=task.claim.to_json(),
            input=task.definition.input,
            retry=retry.to_json(),
            backoff=retry.backoff if callable(retry.backoff) else None,
            find=find,
            trace=run.carrier,
            version=task.definition.version,
            upcasts=dict(task.definition.upcasts),
        )

    def _schedule(self, call: child.Call) -> Any:
        try:
            return self._pool.schedule(child.execute, args=[call])
        except RuntimeError:
            # A pool whose idle processes were killed accepts no more calls.
            self._pool = self._new_pool()
            return self._pool.schedule(child.execute, args=[call])

    def _done(self, run: _Run, future: Any) -> None:
        if not future.cancelled() and future.exception() is None:
            # The outcome and the reports come on different connections; the last report must not be lost.
            run.reports_received.wait(LAST_REPORTS_SECONDS)
        self._end(run, _outcome(run.task, future))
        self._pull()

    def _end(self, run: _Run, outcome: Outcome) -> None:
        with self._lock:
            self._runs.pop(run.task.fence, None)
        run.end(outcome)
        run.task.signal.forget()
        self._finish(run.task, outcome)

    def _handle(self, fence: Fence, verb: str, arguments: tuple[Any, ...]) -> Any:
        """Do what a handler asks for."""
        run = self._runs.get(fence)
        if run is None:
            raise errors.StaleLease("the attempt has ended")
        context = run.task.context
        match verb:
            case "begin":
                run.task.handler_started()
            case "end":
                run.reports_received.set()
            case "log":
                context.log_line(*arguments)
            case "record":
                _log(run.task, *arguments)
            case "progress":
                percent, message, fields = arguments
                context.progress(percent, message, **({} if fields is None else payload.decode(fields)))
            case "parents":
                return context.parents
            case "known_steps" | "keep_step" | "ask_step":
                return context.report_step(verb, *arguments)
            case "add_member":
                name, value, options = arguments
                return context.batch.enqueue(name, value, **options)
            case "add_members":
                return context.batch.enqueue_many(*arguments)
            case "extend_lease":
                return context.extend_lease(*arguments)
            case "enqueue":
                name, value, options = arguments
                with traces.continuing(run.carrier):
                    return context.enqueue(name, value, **options)
        return None


def _outcome(task: Task, future: Any) -> Outcome:
    if future.cancelled():
        return executor.interpret_exception(task, errors.JobAborted(f"the process was ended: {task.signal.reason}"))
    error = future.exception()
    if error is not None:
        return executor.interpret_exception(task, _as_ended(error))
    outcome: Outcome = future.result()
    return outcome


def _as_ended(error: BaseException) -> BaseException:
    """The error of a process that ended before its handler did says how it ended."""
    from pebble import ProcessExpired  # noqa: PLC0415 - only for those who ask for it

    if not isinstance(error, ProcessExpired):
        return error
    code = error.exitcode
    try:
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
    except (TypeError, ValueError):
        how = "ended"
    advice = "; the system kills so when memory runs out" if code == -signal.SIGKILL else ""
    return errors.HandlerFailed(f"the process of the handler {how}, before the handler ended{advice}")


def _log(task: Task, fields: Mapping[str, Any], written: bool) -> None:
    """Log a record as if the handler ran here; one that its process has written is only captured."""
    record = logging.makeLogRecord(fields)
    logger = logging.getLogger(record.name)
    token = running.set(task)
    try:
        if written:
            for handler in logging.root.handlers:
                if isinstance(handler, CaptureHandler):
                    handler.handle(record)
        elif logger.isEnabledFor(record.levelno):
            logger.handle(record)
    finally:
        running.reset(token)


def _log_levels() -> dict[str, int]:
    """The levels that are set on loggers, by their names."""
    loggers = [one for one in list(logging.root.manager.loggerDict.values()) if isinstance(one, logging.Logger)]
    return {logger.name: logger.level for logger in (logging.root, *loggers) if logger.level != logging.NOTSET}
