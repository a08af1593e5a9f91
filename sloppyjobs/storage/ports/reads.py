"""What reads answer with: counts, lists, and what goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from sloppyjobs.domain.ageing import Ageing
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.states import Status

WINDOW = 1_000
"""Entries that are read where the index does not know the queue."""

Scope = Sequence[str] | None
"""Names of queues; None for all of them."""


class Count(NamedTuple):
    """How many were counted, and whether there are, or may be, more."""

    number: int
    more: bool


Counted = tuple[Count, datetime | None]
"""A count, and the earliest moment among the counted."""

TIMED = frozenset({Status.SCHEDULED, Status.RETRYING})
"""The states whose jobs an index keeps in the order of their run time."""

UNSET = msgspec.UNSET


class JobQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What a list of jobs is narrowed to. Values are checked already."""

    statuses: tuple[Status, ...]
    queue: str | None = None
    name: str | None = None
    tag: str | None = None
    worker: str | None = None
    schedule: str | None = None
    batch: str | None = None
    workflow: str | None = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    business_key: str | None = None
    error_code: str | None = None
    error_type: str | msgspec.UnsetType | None = UNSET
    error_frame: str | msgspec.UnsetType | None = UNSET
    created_from: datetime | None = None
    created_to: datetime | None = None
    run_from: datetime | None = None
    run_to: datetime | None = None
    ids: tuple[str, ...] | None = None
    scope: tuple[str, ...] | None = None

    @property
    def ordered_by_id(self) -> bool:
        """Whether the order is that of ids alone: for those of a batch or a workflow, unless more narrows them."""
        narrower = (self.ids, self.idempotency_key, self.business_key, self.correlation_id, self.schedule)
        return not (self.batch is None and self.workflow is None) and all(one is None for one in narrower)


class LastAttempt(NamedTuple):
    """When the last attempt of a job began, and how many seconds it took; None before the first, or while it runs."""

    started_at: datetime | None = None
    duration: float | None = None


class Details(NamedTuple):
    """What a list shows besides a job: how its payload starts, and its last attempt."""

    payload_start: str
    """One character more than ``payload_summary.START`` where there is more."""
    last: LastAttempt = LastAttempt()


class Found(NamedTuple):
    """Jobs with the keys by which they are ordered, and the key after which to go on; None at the end."""

    jobs: list[tuple[Key, Job]]
    resume: Key | None
    details: Mapping[str, Details] = {}
    """By the id of the job, where they were asked for."""


class JobRow(NamedTuple):
    """A job with its payload and its result as they are stored, the schedule that made it, and its last attempt."""

    job: Job
    payload: str
    result: str | None
    schedule_name: str | None = None
    last: LastAttempt = LastAttempt()


class LogLine(NamedTuple):
    """A line that a handler logged; ``fields`` is JSON."""

    id: int
    job_id: str
    attempt_number: int
    level: str
    message: str
    created_at: datetime
    fields: str | None


class WorkerRow(NamedTuple):
    """A worker as it registered and was last heard of; ``queues`` and ``names`` are JSON."""

    id: str
    hostname: str
    pid: int
    queues: str
    names: str
    concurrency: int
    heartbeat_seconds: float
    version: str
    status: str
    """``running``, ``quiet``, ``draining`` or ``stopped``; then `` stuck=`` and a number where slots are stuck."""
    running: int
    started_at: datetime
    heartbeat_at: datetime
    stopped_at: datetime | None
    wanted: str | None = None
    memory: int | None = None
    done: int | None = None
    failed: int | None = None
    app_version: str | None = None

    @property
    def stuck(self) -> int:
        """How many slots are stuck."""
        _, _, number = self.status.partition(" stuck=")
        return int(number) if number.isdecimal() else 0


class MinuteCounters(NamedTuple):
    """What was settled in a minute."""

    minute: datetime
    succeeded: int
    failed: int
    dead: int
    cancelled: int
    run_seconds: float


class DueSchedule(NamedTuple):
    """A schedule that is due, with what tells its queue, and when a fire failed; None where it did not."""

    next_run_at: datetime
    name: str
    job_name: str
    queue: str | None
    job_defaults: str | None
    last_error_at: datetime | None


class QueuePause(NamedTuple):
    """A pause of a queue, which may be over."""

    at: datetime
    until: datetime | None
    by: str | None
    reason: str | None


class AttemptState(NamedTuple):
    """An attempt: who runs it, and what has become of it."""

    worker_id: str
    status: str
    started_at: datetime
    error_code: str | None


class EventFacts(NamedTuple):
    """An event: what happened, who did it and why."""

    event_type: str
    created_at: datetime
    actor: str | None
    message: str | None


class Surroundings(NamedTuple):
    """The pause of a job's queue, its latest attempt and its latest event; None where there is none."""

    pause: QueuePause | None
    attempt: AttemptState | None
    event: EventFacts | None
    ageing: Ageing | None
    """How the job's queue ages."""
    base_priority: int | None
    """The priority that the job was enqueued with, where it has risen since."""
    any_parent: bool
    """Whether one of the jobs that it waits for is enough."""


Cause = tuple[str | None, str | None, str]
"""The class of an error, the application's frame that raised it, and the job's name."""


class PastDeaths(NamedTuple):
    """How many died, when the first of them and when the last."""

    deaths: int
    first_at: datetime
    last_at: datetime


class CauseSummary(NamedTuple):
    """How many dead jobs have a cause, when they died, and the newest of them."""

    cause: Cause
    jobs: Count
    first_seen: datetime
    last_seen: datetime
    example: Job
    past: PastDeaths | None = None
    """The deaths of jobs that were retried or deleted since, where they were asked for."""


class Death(NamedTuple):
    """A job that is dead, and since when."""

    id: str
    queue: str
    died_at: datetime


class DeadOfCause(NamedTuple):
    """The dead jobs of one cause: how many, those created last, and when the first of them died."""

    jobs: Count
    deaths: list[Death]
    first_at: datetime | None


DeadJob = tuple[Job, Details, tuple[float | None, str] | None]
"""A dead job, what a list shows of it, and the seconds and the worker of its last attempt."""

LATELY = 5
"""Minutes in which failed attempts are compared with those that succeeded."""

SCHEDULES = 200
"""Schedules that are read where some queues only are asked for: a row alone does not know its queue."""


class StatusLoad(NamedTuple):
    """How many jobs have a status, how many of them were created lately, and the earliest creation.

    ``fresh`` is None for the states in which jobs end.
    """

    jobs: Count
    fresh: Count | None
    oldest: datetime | None


class Loads(NamedTuple):
    """Every status, and what should have been done already: each a count with the earliest instant."""

    statuses: dict[Status, StatusLoad]
    overdue: Counted
    """Scheduled and retrying jobs whose time has come; the instant is a run time."""
    expired: Counted
    """Processing jobs whose lease ended; the instant is its end."""
    overrun: Counted
    """Processing jobs that run longer than their timeout; the instant is the start of the attempt."""
    lately: tuple[int, int]
    """Attempts that failed and that succeeded in the last five minutes."""


class QueueInUse(NamedTuple):
    """A queue with its pause, and the names of its queued jobs."""

    name: str
    paused_at: datetime | None
    paused_until: datetime | None
    paused_by: str | None
    pause_reason: str | None
    names: tuple[str, ...]


class QueueLoad(NamedTuple):
    """What lies in a queue: how many are queued, and the earliest run time among the counted."""

    queued: Count
    due_since: datetime | None


class Activity(NamedTuple):
    """What goes on in each queue: jobs that run, jobs that wait for a time, attempts that finished lately."""

    running: dict[str, int]
    timed: dict[str, int]
    settled: dict[str, int]


class NamedLoad(NamedTuple):
    """Jobs of one name that run, that wait for a time, and that are queued in each of some queues."""

    running: Count
    timed: Count
    queued: list[QueueLoad]


class Held(NamedTuple):
    """A job that a worker holds, and how many it holds in all."""

    worker_id: str
    total: int
    id: str
    name: str
    queue: str
    started_at: datetime | None


class Ran(NamedTuple):
    """A job of a schedule."""

    id: str
    queue: str
    status: str
    occurrence_at: datetime
    idempotency_key: str | None
    run_seconds: float | None
    attempt_status: str | None


Key = tuple[Any, ...]
