"""The state machine as data, and ``decide``: what the end of an attempt means for its job.

Pure: no I/O, no clock. Storage executes what is decided here and decides nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from sloppyjobs import errors
from sloppyjobs.domain.tracebacks import Frame


class Status(StrEnum):
    """Where a job is in its life."""

    SCHEDULED = "scheduled"
    WAITING = "waiting"
    QUEUED = "queued"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RETRYING = "retrying"
    DEAD = "dead"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    DELETED = "deleted"


class WaitingFor(StrEnum):
    """What a waiting job waits for."""

    JOBS = "jobs"
    PERMIT = "permit"
    SLEEP = "sleep"
    SIGNAL = "signal"


class AttemptStatus(StrEnum):
    """How one execution of a job ended, or that it has not."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    CANCELLED = "cancelled"
    SNOOZED = "snoozed"
    RELEASED = "released"
    SUSPENDED = "suspended"


EDGES: Mapping[Status, frozenset[Status]] = {
    Status.SCHEDULED: frozenset({Status.QUEUED, Status.CANCELLED, Status.PAUSED}),
    Status.WAITING: frozenset({Status.QUEUED, Status.SCHEDULED, Status.CANCELLED, Status.PAUSED}),
    Status.QUEUED: frozenset({Status.PROCESSING, Status.CANCELLED, Status.DELETED, Status.PAUSED, Status.WAITING}),
    Status.PROCESSING: frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.WAITING}),
    Status.SUCCEEDED: frozenset({Status.DELETED}),
    Status.FAILED: frozenset({Status.RETRYING, Status.DEAD, Status.QUEUED}),
    Status.RETRYING: frozenset({Status.QUEUED, Status.CANCELLED, Status.PAUSED}),
    Status.DEAD: frozenset({Status.QUEUED, Status.DELETED}),
    Status.CANCELLED: frozenset({Status.DELETED}),
    Status.PAUSED: frozenset({Status.SCHEDULED, Status.QUEUED, Status.RETRYING, Status.WAITING, Status.CANCELLED}),
    Status.DELETED: frozenset(),
}

FINISHED = frozenset({Status.SUCCEEDED, Status.DEAD, Status.CANCELLED, Status.DELETED})
"""Nothing happens to such a job any more unless an operator acts."""

INITIAL = frozenset({Status.SCHEDULED, Status.QUEUED, Status.WAITING})


def allowed(source: Status, target: Status) -> bool:
    """Whether the state machine has this edge."""
    return target in EDGES[source]


def check(source: Status, target: Status, what: str) -> None:
    """Raise ``InvalidTransition``, naming both states, unless the edge exists."""
    if target not in EDGES[source]:
        accepted = ", ".join(sorted(EDGES[source])) or "nothing: it is final"
        raise errors.InvalidTransition(
            f"{what} is {source} and cannot become {target}; from {source} it can become {accepted}",
            status=source,
        )


class Failure(msgspec.Struct, frozen=True, gc=False):
    """Why an attempt did not succeed, as it is stored: already cleaned and truncated. ``frames`` are only logged."""

    code: str
    message: str
    type: str | None = None
    frame: str | None = None
    traceback: str | None = None
    frames: tuple[Frame, ...] = ()


class Succeeded(msgspec.Struct, frozen=True, gc=False):
    """The handler returned. ``result`` is JSON text."""

    result: str | None = None


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The handler raised or ran out of time; ``delay`` is what its retry policy answered."""

    failure: Failure
    delay: float
    retryable: bool = True
    timed_out: bool = False


class Lost(msgspec.Struct, frozen=True, gc=False):
    """The lease ran out: the worker died, hung, or lost its network."""

    failure: Failure


class Released(msgspec.Struct, frozen=True, gc=False):
    """A worker that shuts down returns the job to its queue; or one that cannot run it, as ``failure`` says.

    With a ``delay`` it is due again only then, because the same worker might take it at once.
    """

    failure: Failure | None = None
    delay: float = 0.0


class Snoozed(msgspec.Struct, frozen=True, gc=False):
    """The handler asks to be called again later; this attempt does not count."""

    delay: float


class Cancelled(msgspec.Struct, frozen=True, gc=False):
    """The handler found that the job is not wanted any more; or it had expired, as ``failure`` says."""

    reason: str
    failure: Failure | None = None


class Suspended(msgspec.Struct, frozen=True, gc=False):
    """The handler sleeps, or waits for a signal, for ``delay`` seconds at most; this attempt does not count."""

    delay: float
    message: str


Outcome = Succeeded | Failed | Lost | Released | Snoozed | Cancelled | Suspended


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What to write for a finished attempt: the edges to take from ``processing`` and the values to set."""

    path: tuple[Status, ...]
    attempt: AttemptStatus
    counts: bool = True
    delay: float = 0.0
    result: str | None = None
    failure: Failure | None = None
    message: str | None = None

    @property
    def retries(self) -> bool:
        """Whether the job is to be tried again after ``delay``, at once if that is zero."""
        return Status.RETRYING in self.path


_RELEASED = Failure(errors.RELEASED, "released by a worker that was shutting down")
_SUCCEEDED = Decision((Status.SUCCEEDED,), AttemptStatus.SUCCEEDED)
_RETRYING = (Status.FAILED, Status.RETRYING)
_DUE_AT_ONCE = (*_RETRYING, Status.QUEUED)


def decide(attempt: int, max_attempts: int, outcome: Outcome) -> Decision:
    """Decide what becomes of a job in ``processing`` whose attempt number ``attempt`` ended with ``outcome``."""
    match outcome:
        case Succeeded(result):
            if result is None:
                return _SUCCEEDED
            return Decision((Status.SUCCEEDED,), AttemptStatus.SUCCEEDED, result=result)
        case Failed(failure, delay, retryable, timed_out):
            ended = AttemptStatus.TIMED_OUT if timed_out else AttemptStatus.FAILED
            if retryable and attempt < max_attempts:
                # Without a delay it is due already: nobody needs to look for it and promote it.
                path = _RETRYING if delay > 0 else _DUE_AT_ONCE
                return Decision(path, ended, delay=delay, failure=failure)
            return Decision((Status.FAILED, Status.DEAD), ended, failure=failure)
        case Lost(failure):
            after = Status.QUEUED if attempt < max_attempts else Status.DEAD
            return Decision((Status.FAILED, after), AttemptStatus.LOST, failure=failure)
        case Released(failure, delay):
            after = Status.RETRYING if delay else Status.QUEUED
            why = failure or _RELEASED
            return Decision((Status.FAILED, after), AttemptStatus.RELEASED, counts=False, delay=delay, failure=why)
        case Snoozed(delay):
            return Decision(
                _RETRYING,
                AttemptStatus.SNOOZED,
                counts=False,
                delay=delay,
                failure=Failure(errors.SNOOZED, f"the handler asked to be called again in {delay:g} s"),
            )
        case Suspended(delay, message):
            return Decision((Status.WAITING,), AttemptStatus.SUSPENDED, counts=False, delay=delay, message=message)
        case Cancelled(reason, failure):
            return Decision((Status.CANCELLED,), AttemptStatus.CANCELLED, message=reason, failure=failure)


# The name of the event that records an edge. An operator's commands name their own.
_EVENT_OF_EDGE: Mapping[tuple[Status, Status], str] = {
    (Status.SCHEDULED, Status.QUEUED): "due",
    (Status.RETRYING, Status.QUEUED): "due",
    (Status.WAITING, Status.QUEUED): "unblocked",
    (Status.WAITING, Status.SCHEDULED): "unblocked",
    (Status.QUEUED, Status.PROCESSING): "claimed",
    (Status.QUEUED, Status.WAITING): "parked",
    (Status.PROCESSING, Status.WAITING): "suspended",
    (Status.FAILED, Status.RETRYING): "retry_scheduled",
    (Status.FAILED, Status.QUEUED): "requeued",
    (Status.DEAD, Status.QUEUED): "retried",
}


def event_type(source: Status | None, target: Status) -> str:
    """The ``event_type`` under which an edge is recorded; ``created`` for a new job."""
    if source is None:
        return "created"
    if source is Status.PAUSED and target is not Status.CANCELLED:
        return "resumed"
    return _EVENT_OF_EDGE.get((source, target), target.value)


_NAMED_BY_ATTEMPT = (AttemptStatus.SNOOZED, AttemptStatus.RELEASED, AttemptStatus.LOST, AttemptStatus.SUSPENDED)


def outcome_name(decision: Decision) -> str:
    """How an attempt ended: succeeded, retrying, dead, cancelled, snoozed, suspended, released or lost.

    Lost is one whose lease expired and whose job is queued again.
    """
    status = decision.path[-1]
    if decision.attempt in _NAMED_BY_ATTEMPT and status is not Status.DEAD:
        return decision.attempt.value
    return "retrying" if decision.retries else status.value
