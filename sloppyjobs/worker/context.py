"""What a handler is given: the job's identity, its signal, and ways to report."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, Unpack, overload

import msgspec

from sloppyjobs import errors
from sloppyjobs.domain import options, payload
from sloppyjobs.domain.model import Claim, Job
from sloppyjobs.domain.payload import clean_text
from sloppyjobs.domain.steps import Answer, Kept, StepKind, decode_result
from sloppyjobs.enqueue.option_types import CallOptions, Item
from sloppyjobs.storage.ports import on_behalf_of_task
from sloppyjobs.worker.member_batch import MemberBatch
from sloppyjobs.worker.steps import StepLog

MESSAGE_LIMIT = 4_000
PROGRESS_LIMIT = 8_192
"""Bytes of JSON that the fields of a job's progress may have."""
LEVELS = ("debug", "info", "warning", "error", "critical")


P = ParamSpec("P")
R = TypeVar("R")

_aborting = threading.Lock()


# Thousands of signals, contexts and tasks are made in a second. The garbage collector need not track them, because
# ``forget`` breaks the only reference cycle.
class Signal(msgspec.Struct, eq=False, gc=False):
    """Tells a handler to stop. It is up to the handler to observe it."""

    reason: str | None = None
    # Made when needed: most handlers never wait for the signal, and few have listeners.
    _event: threading.Event | None = None
    _listeners: list[Callable[[], None]] | None = None

    @property
    def aborted(self) -> bool:
        """Whether the handler should stop."""
        return self.reason is not None

    def wait(self, seconds: float | timedelta | None = None) -> bool:
        """Sleep until aborted, or for so many seconds (not at all where they are negative); True when aborted."""
        longest = None if seconds is None else options.seconds("seconds", seconds, least=-options.LONGEST)
        with _aborting:
            if self.reason is not None:
                return True
            if self._event is None:
                self._event = threading.Event()
        return self._event.wait(longest)

    def raise_if_aborted(self) -> None:
        """Raise ``JobAborted`` when the handler should stop."""
        if self.reason is not None:
            raise errors.JobAborted(f"the job was aborted: {self.reason}")

    def abort(self, reason: str) -> None:
        """Set the signal; only the first reason counts."""
        with _aborting:
            if self.reason is not None:
                return
            self.reason = reason
            listeners, self._listeners = self._listeners or [], None
            if self._event is not None:
                self._event.set()
        for listener in listeners:
            listener()

    def on_abort(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` when the signal is set; at once if it is."""
        with _aborting:
            if self.reason is None:
                self._listeners = [*(self._listeners or ()), listener]
                return
        listener()

    def forget(self) -> None:
        """The handler has ended: drop the listeners."""
        self._listeners = None


class Reports(Protocol):
    """Where a running handler reports to."""

    def extend_lease(self, claim: Claim, seconds: float | None) -> bool:
        """Extend the lease; False when the attempt is not ours any more."""
        ...

    def progress(self, claim: Claim, percent: float | None, message: str | None, fields: str | None) -> None:
        """Store how far the job is; ``fields`` are JSON."""
        ...

    def log(self, claim: Claim, level: str, message: str, fields: Mapping[str, Any]) -> None:
        """Store a log line."""
        ...

    def enqueue(self, name: str, payload: Any, **options: Any) -> Job:
        """Enqueue a further job."""
        ...

    def parents(self, claim: Claim) -> Mapping[str, Any]:
        """The results of the jobs that this one has waited for."""
        ...

    def add_member(self, claim: Claim, name: str, payload: Any, options: Mapping[str, Any]) -> Job:
        """Enqueue a further job of the same batch."""
        ...

    def add_members(self, claim: Claim, items: Sequence[Item]) -> list[Job]:
        """Enqueue further jobs of the same batch."""
        ...

    def known_steps(self, claim: Claim) -> Sequence[Kept]:
        """What earlier attempts have kept."""
        ...

    def keep_step(self, claim: Claim, name: str, result: str, seconds: float, place: int) -> bool:
        """Keep the result of a step, as JSON; False when the attempt is not ours any more."""
        ...

    def ask_step(self, claim: Claim, kind: StepKind, name: str, seconds: float | None, place: int) -> Answer | None:
        """Begin a sleep or a wait for a signal, or see what has become of it; None when the attempt is not ours."""
        ...


class JobContext(msgspec.Struct, eq=False, gc=False):
    """What every handler is given, be it a function or a coroutine."""

    _claim: Claim
    signal: Signal
    _reports: Reports
    step_log: StepLog | None = None
    """The steps that the handler has asked for; None for most, who ask for none."""

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self._claim.job.id

    @property
    def name(self) -> str:
        """The name under which the job is defined."""
        return self._claim.job.name

    @property
    def queue(self) -> str:
        """The queue that the job came from."""
        return self._claim.job.queue

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._claim.attempt

    @property
    def fence(self) -> int:
        """A number that grows with every attempt: pass it on to systems that can refuse older ones."""
        return self._claim.attempt

    @property
    def correlation_id(self) -> str:
        """The correlation id; a job that was given none starts its own."""
        return self._claim.job.correlation_id or self._claim.job.id

    @property
    def occurrence_at(self) -> datetime | None:
        """For which instant the job's schedule fired, however late it runs; None for a job of no schedule."""
        return self._claim.job.occurrence_at

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata of the definition and of the enqueue, merged."""
        return self._claim.job.metadata

    @property
    def parents(self) -> Mapping[str, Any]:
        """The results of the jobs that this one has waited for, by their ids and by their names; read when asked for.

        None for a parent that has no result. A name that several parents have is a ``KeyError``.
        """
        return self._reports.parents(self._claim)

    @property
    def batch(self) -> MemberBatch:
        """The batch that the job belongs to, to add further jobs to it; ``UnknownBatch`` where it belongs to none."""
        if self._claim.job.batch_id is None:
            raise errors.UnknownBatch(f"job {self.job_id} is not a member of a batch")
        return MemberBatch(self._claim, self._reports)

    @property
    def _log_of_steps(self) -> StepLog:
        if self.step_log is None:
            self.step_log = StepLog(self._claim, self.signal, self._reports)
        return self.step_log

    def extend_lease(self, seconds: float | timedelta | None = None) -> bool:
        """Hold the job for so many seconds from now; by default as long as the worker's lease.

        Running jobs are renewed by themselves; this is for handlers that keep the process from doing so.
        """
        wanted = None if seconds is None else options.seconds("seconds", seconds, zero=False)
        return self._reports.extend_lease(self._claim, wanted)

    def progress(self, percent: float | None, message: str | None = None, **fields: Any) -> None:
        """Say how far the job is: from 0 to 100, or None where that is not known.

        ``fields`` are anything that is JSON, 8 KiB in all; ``InvalidPayload`` says what is not. Every call replaces
        percent, message and fields. ``jobs.get(id)`` shows them as ``progress``, ``progress_message`` and
        ``progress_fields`` until the next attempt begins.
        """
        number = None if percent is None else options.percent("percent", percent)
        text = None if message is None else clean_text(message, MESSAGE_LIMIT)
        encoded = payload.encode(fields, PROGRESS_LIMIT, what="progress") if fields else None
        self._reports.progress(self._claim, number, text, encoded)

    def log(self, level: str, message: str, **fields: Any) -> None:
        """Store a log line with the job; ``fields`` that are not JSON are stored as text."""
        self.log_line(level, message, fields)

    def log_line(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        """As ``log``; here the fields may have any name."""
        options.one_of("level", level, LEVELS)
        self._reports.log(self._claim, level, clean_text(message, MESSAGE_LIMIT), fields)

    def report_step(self, verb: Literal["known_steps", "keep_step", "ask_step"], *arguments: Any) -> Any:
        """Do what the handler's steps ask for in another process: one of the verbs of ``Reports``."""
        return getattr(self._reports, verb)(self._claim, *arguments)

    def enqueue(self, name: str, payload: Any = None, **options: Unpack[CallOptions]) -> Job:
        """Enqueue a further job; it inherits the correlation id."""
        options.setdefault("correlation_id", self.correlation_id)
        return self._reports.enqueue(name, payload, **options)


def _check_function(function: object) -> None:
    if not callable(function):
        raise options.refuse(
            "function", function, "must be a function: step('charge', charge, order), not charge(order)"
        )


class Context(JobContext, eq=False, gc=False):
    """The first argument of a handler that is a function."""

    def step(self, name: str, function: Callable[P, R], /, *arguments: P.args, **named: P.kwargs) -> R:
        """Call ``function`` once for this job: its result is kept as JSON, and later attempts get it back.

        What it returns comes back as JSON has it, in the first attempt too, in the type that the function is annotated
        to return. A function that raises fails the attempt; steps that are done stay done. Raises ``InvalidPayload``
        where the result is not JSON, ``InvalidStep`` where a stored one does not fit or the name was used before in
        this attempt, and ``StaleLease`` where the attempt has ended meanwhile.
        """
        steps = self._log_of_steps
        _check_function(function)
        kept = steps.recall(name)
        if kept is not None:
            return decode_result(name, kept.result, function)  # type: ignore[no-any-return]
        started = time.monotonic()
        value = function(*arguments, **named)
        return steps.keep(name, function, value, time.monotonic() - started)  # type: ignore[no-any-return]

    def sleep(self, name: str, seconds: float | timedelta) -> None:
        """Sleep once for this job, for so many seconds from the first call on. The worker is free meanwhile.

        The attempt ends here and is not counted; a later one begins the handler anew, passes over steps that are done,
        and gets beyond this call when the time is over.
        """
        self._log_of_steps.sleep(name, seconds)

    def wait_for(self, name: str, timeout: float | timedelta | None = None) -> Any:
        """The value of the signal of this name, which ``jobs.signal`` sends. The worker is free meanwhile.

        As ``sleep``. A signal that came before is there at once. ``SignalTimeout`` where none has come within
        ``timeout`` seconds from the first call on.
        """
        return self._log_of_steps.wait_for(name, timeout)


class AsyncContext(JobContext, eq=False, gc=False):
    """The first argument of a handler that is a coroutine: as ``Context``, and steps, sleeps and waits are awaited."""

    @overload
    async def step(
        self, name: str, function: Callable[P, Awaitable[R]], /, *arguments: P.args, **named: P.kwargs
    ) -> R: ...
    @overload
    async def step(self, name: str, function: Callable[P, R], /, *arguments: P.args, **named: P.kwargs) -> R: ...

    async def step(self, name: str, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        """As ``Context.step``; ``function`` may be a coroutine function. Any other one runs on the event loop."""
        steps = self._log_of_steps
        _check_function(function)
        kept = await _in_thread(steps.recall, name) if steps.must_read else steps.recall(name)
        if kept is not None:
            return decode_result(name, kept.result, function)
        started = time.monotonic()
        value = function(*arguments, **named)
        if inspect.isawaitable(value):
            value = await value
        return await _in_thread(steps.keep, name, function, value, time.monotonic() - started)

    async def sleep(self, name: str, seconds: float | timedelta) -> None:
        """As ``Context.sleep``."""
        await _in_thread(self._log_of_steps.sleep, name, seconds)

    async def wait_for(self, name: str, timeout: float | timedelta | None = None) -> Any:
        """As ``Context.wait_for``."""
        return await _in_thread(self._log_of_steps.wait_for, name, timeout)


async def _in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    """Call ``work`` in a thread that acts for this task: where the task has to commit first, it is told so."""
    with on_behalf_of_task():
        return await asyncio.to_thread(work, *arguments)
