"""Queues, workers, locks, the runs of schedules, and the audit trail."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from sloppyjobs.domain.states import Status
from sloppyjobs.views.page import CappedCount


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue: what lies in it, who works on it, and whether it is paused."""

    name: str
    created_at: datetime
    paused: bool
    paused_at: datetime | None = None
    paused_until: datetime | None = None
    """None for a pause without an end."""
    paused_by: str | None = None
    """Who paused it; None while it is not paused, and where nobody was named."""
    pause_reason: str | None = None
    """Why, as whoever paused it said."""
    ageing_seconds: float | None = None
    """Seconds of waiting after which the priority of a job rises by one; None where priorities stay as they are."""
    ageing_most: int | None = None
    """By how much a priority rises at most."""
    ageing_declared: bool = False
    """Whether code declares that it ages."""
    ageing_changed: bool = False
    """Whether it ages otherwise than code declared last."""
    ageing_vanished: bool = False
    """Whether code declared that it ages, and does so no more: priorities stay as they are."""
    depth: CappedCount
    """Jobs that are queued."""
    oldest_queued_seconds: float | None = None
    """How long the longest waiting of the counted jobs has been due."""
    processing: CappedCount
    scheduled: CappedCount
    """Jobs of this queue among the next 1,000 of all queues that wait for a time."""
    workers: int
    """Live workers that take jobs from this queue."""
    throughput: float
    """Attempts that succeeded or failed per minute, over the last five."""


class RunningJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a worker runs at this moment."""

    id: str
    name: str
    queue: str
    started_at: datetime | None = None
    """When its attempt began; None where that is not recorded any more."""


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A worker process. ``liveness`` is ``running``, ``quiet``, ``draining``, ``stopped`` or ``stale``."""

    id: str
    hostname: str
    pid: int
    queues: tuple[str, ...]
    names: tuple[str, ...]
    concurrency: int
    version: str
    liveness: str
    started_at: datetime
    heartbeat_at: datetime
    heartbeat_seconds: float
    stopped_at: datetime | None = None
    running: int = 0
    """Jobs that it says it runs."""
    stuck: int = 0
    """Slots that are held by handlers which go on although their attempts have ended."""
    held: CappedCount = CappedCount(0)
    """Jobs whose lease it has; for who sees some queues only, those of these queues."""
    jobs: tuple[RunningJob, ...] = ()
    """The first few of them, those that began first."""
    wanted: str | None = None
    """What an operator wants of it: ``quiet`` or ``stop``. Its ``liveness`` follows by its next heartbeat."""
    memory: int | None = None
    """Bytes of memory of its process; None where that is not known."""
    done: int | None = None
    """Attempts that succeeded since it started."""
    failed: int | None = None
    """Attempts that failed or timed out since it started."""
    app_version: str | None = None
    """The version of its application, where that is known; ``version`` is the library's."""

    @property
    def live(self) -> bool:
        """Whether it was heard of lately and has not stopped."""
        return self.liveness in ("running", "quiet", "draining")

    @property
    def actions(self) -> tuple[str, ...]:
        """The commands that it can be given now: of ``quiet``, ``resume`` and ``stop``."""
        if self.liveness in ("stopped", "draining") or self.wanted == "stop":
            return ()
        return ("resume" if self.wanted == "quiet" else "quiet", "stop")

    @property
    def trouble(self) -> str | None:
        """What keeps slots of a live worker from being used, in words; None where nothing does."""
        return f"{self.stuck} of {self.concurrency} threads stuck" if self.live and self.stuck else None


class LockView(msgspec.Struct, frozen=True, kw_only=True):
    """A named lock: who has it until when, and whether that has passed."""

    name: str
    owner: str
    locked_until: datetime
    updated_at: datetime
    expired: bool


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Who commanded what, when and why. ``id`` is ``audit_<number>``."""

    id: str
    created_at: datetime
    action: str
    target_type: str
    target: str
    actor: str | None = None
    reason: str | None = None
    detail: Mapping[str, Any] = {}


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """One job of a schedule, in the history of its occurrences."""

    at: datetime
    job_id: str
    status: Status
    manual: bool = False
    """Whether somebody triggered it."""
    run_seconds: float | None = None
    """How long its last attempt ran; None while it has not ended, or was not measured."""
    ended: str | None = None
    """How its last attempt ended: what a job that was deleted since then has come to."""
