"""What a handler is given: the job's identity, its signal, and ways to report."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, Unpack

import msgspec

from sloppyjobs import errors
from sloppyjobs.domain import options, payload
from sloppyjobs.domain.model import Claim, Job
from sloppyjobs.domain.payload import clean_text
from sloppyjobs.enqueue.option_types import CallOptions, Item
from sloppyjobs.worker.member_batch import MemberBatch

MESSAGE_LIMIT = 4_000
PROGRESS_LIMIT = 8_192
"""Bytes of JSON that the fields of a job's progress may have."""
LEVELS = ("debug", "info", "warning", "error", "critical")


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

    def wait(self, seconds: float | None = None) -> bool:
        """Sleep until aborted, or for so many seconds; True when aborted."""
        with _aborting:
            if self.reason is not None:
                return True
            if self._event is None:
                self._event = threading.Event()
        return self._event.wait(seconds)

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


class Context(msgspec.Struct, eq=False, gc=False):
    """The first argument of every handler."""

    _claim: Claim
    signal: Signal
    _reports: Reports

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

    def enqueue(self, name: str, payload: Any = None, **options: Unpack[CallOptions]) -> Job:
        """Enqueue a further job; it inherits the correlation id."""
        options.setdefault("correlation_id", self.correlation_id)
        return self._reports.enqueue(name, payload, **options)
