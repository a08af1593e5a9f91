"""Everything at a glance: counts, counters, what needs attention."""

from __future__ import annotations

from datetime import datetime

import msgspec

from sloppyjobs.domain.states import Status
from sloppyjobs.views.cause import DeadGroup
from sloppyjobs.views.operations import WorkerView
from sloppyjobs.views.page import CappedCount


class StatusCount(msgspec.Struct, frozen=True):
    """How many jobs have a status, and how long the oldest of them has been there since its creation."""

    status: Status
    count: CappedCount
    oldest_seconds: float | None = None
    """Only for states that end by themselves; None for finished ones and where there is no job."""
    fresh: CappedCount | None = None
    """How many of them were created in the overview's span, the last hour unless asked otherwise; None for finished
    ones, whose changes ``Stats`` counts."""


class StatsBucket(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in one span of time. These are events, not jobs: a job that is retried may die again."""

    start: datetime
    succeeded: int = 0
    """Jobs that succeeded."""
    failed: int = 0
    """Attempts that failed and counted, those after which a job was dead included."""
    dead: int = 0
    """Deaths; a job that was retried and died again counts twice, and one that left ``dead`` still counts."""
    cancelled: int = 0
    """Jobs that were cancelled, by their handler or by a command, whether they ran or not."""
    run_seconds: float = 0.0

    @property
    def attempts(self) -> int:
        """Attempts that finished: succeeded or failed."""
        return self.succeeded + self.failed


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """What happened over time, oldest bucket first, none missing; ``total`` is their sum."""

    bucket_seconds: int
    buckets: tuple[StatsBucket, ...]
    total: StatsBucket
    previous: StatsBucket | None = None
    """The sum over the span before, as long as this one; None where it was not asked for."""


class Fire(msgspec.Struct, frozen=True):
    """A schedule and when it is due."""

    schedule: str
    job_name: str
    at: datetime
    failed_at: datetime | None = None
    """When its last fire failed; None where it did not."""


class Unhandled(msgspec.Struct, frozen=True, kw_only=True):
    """Queued jobs of one name that no live worker of their queue has a handler for."""

    queue: str
    name: str
    count: CappedCount


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that needs an operator: what it is, how many jobs it concerns, since when, and what to do.

    ``code`` is one of ``no_worker`` (none at all), ``dead``, ``failing`` (most attempts of the last five minutes),
    ``queue_without_worker``, ``no_handler``, ``lease_expired``, ``overrun``, ``worker_stale``, ``worker_stuck``,
    ``schedule_late``, ``schedule_failed``, ``queue_paused``. ``level`` is ``bad``, ``warn`` or ``info``.
    """

    code: str
    level: str
    text: str
    """What it is, in a sentence without instants."""
    advice: str
    """What to do."""
    command: str | None = None
    """The command line that does it."""
    count: CappedCount | None = None
    """Jobs that it concerns."""
    since: datetime | None = None
    until: datetime | None = None
    """The end of a pause; None for one without an end."""
    queue: str | None = None
    name: str | None = None
    worker: str | None = None
    schedule: str | None = None
    by: str | None = None
    """Who paused the queue."""
    reason: str | None = None
    more: int = 0
    """How many more of this kind there are, which are not listed."""


class BusyQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue in which much happens: what waits and runs in it, and ``throughput``, attempts finished per minute."""

    name: str
    depth: CappedCount
    oldest_queued_seconds: float | None = None
    processing: CappedCount = CappedCount(0)
    throughput: float = 0.0


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The state of everything at a glance; what it costs does not grow with history."""

    taken_at: datetime
    statuses: tuple[StatusCount, ...]
    minutes: int = 60
    """The span in which a job is ``fresh``."""
    due: CappedCount = CappedCount(0)
    """Jobs that could run now: queued ones, and scheduled or retrying ones whose time has come."""
    attention: tuple[Attention, ...] = ()
    """What needs an operator, the most urgent first; at most five of a kind."""
    unhandled: tuple[Unhandled, ...] = ()
    """Queued jobs, by queue and name, that no live worker of their queue has a handler for; at most five."""
    idle_queues: tuple[str, ...] = ()
    """Queues that hold queued jobs and that no live worker takes from."""
    paused_queues: tuple[str, ...] = ()
    stale_workers: tuple[WorkerView, ...] = ()
    stuck_workers: tuple[WorkerView, ...] = ()
    """Live workers of which some slots are held by handlers that go on after their attempts have ended."""
    live_workers: int = 0
    slots: int = 0
    """Jobs that the live workers run at once, all together."""
    late_schedules: tuple[Fire, ...] = ()
    next_fires: tuple[Fire, ...] = ()
    dead_groups: tuple[DeadGroup, ...] = ()
    busiest: tuple[BusyQueue, ...] = ()
    """The five queues that finished most in the last five minutes; where fewer did, those in which jobs run or wait."""

    def count(self, status: str) -> CappedCount:
        """The count of one status."""
        return next((one.count for one in self.statuses if one.status == status), CappedCount(0))
