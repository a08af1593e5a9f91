"""What the admin service answers: frozen values, already redacted, ready for a page, a table or JSON.

Pure: no I/O, no clock. No value here ever carries a raw payload.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from sloppyjobs.model import Attempt, EventFacts, JobFacts
from sloppyjobs.redact import Preview
from sloppyjobs.states import Status

T_co = TypeVar("T_co", covariant=True)


class Page(msgspec.Struct, Generic[T_co], frozen=True):
    """One page of a list. A cursor is opaque text for the same list with the same filters; None at an end.

    A page may be shorter than asked, even empty, while ``next_cursor`` is set: a filter without an index of
    its own was stopped at its bound. Going on until ``next_cursor`` is None finds everything.
    """

    items: tuple[T_co, ...]
    next_cursor: str | None = None
    previous_cursor: str | None = None

    def __iter__(self) -> Iterator[T_co]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __bool__(self) -> bool:
        return bool(self.items)

    def __getitem__(self, index: int) -> T_co:
        return self.items[index]


class CappedCount(msgspec.Struct, frozen=True, order=True):
    """A count that stops at a bound; ``capped`` then, and as text "1,000+": there are, or may be, more."""

    value: int
    capped: bool = False

    def __str__(self) -> str:
        return f"{self.value:,}{'+' if self.capped else ''}"

    def __int__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        return self.value > 0


class JobRow(JobFacts, frozen=True, kw_only=True):
    """A job in a list: everything but its payload, result and metadata. Texts are redacted."""

    actions: tuple[str, ...] = ()
    """The commands that the state machine allows now, by the names of the admin's methods."""


class JobView(JobRow, frozen=True, kw_only=True):
    """A job on its own page: the row, and redacted previews of what it carries."""

    payload_preview: Preview
    result_preview: Preview | None = None
    """None where the job has no result."""
    metadata: Mapping[str, Any] = {}

    @property
    def result(self) -> Any:
        """The redacted, bounded result; None where there is none."""
        return None if self.result_preview is None else self.result_preview.value


class AttemptView(Attempt, frozen=True, kw_only=True):
    """One execution of a job, its error redacted. ``id`` is ``attempt_<job>_<number>``."""

    id: str


class EventView(EventFacts, frozen=True, kw_only=True):
    """One edge that a job walked. ``id`` is ``event_<number>``; the numbers order a job's events."""

    id: str


class LogView(msgspec.Struct, frozen=True, kw_only=True):
    """One line that a handler logged, redacted."""

    id: str
    job_id: str
    attempt_number: int
    level: str
    message: str
    created_at: datetime
    fields: Mapping[str, Any] = {}


class Reason(msgspec.Struct, frozen=True):
    """One thing that keeps a job from running, or says how it ended.

    ``code`` is one of ``finished``, ``dead``, ``running``, ``lease_expired``, ``paused``, ``waiting``,
    ``not_due``, ``queue_paused``, ``no_worker``, ``no_handler``, ``jobs_ahead``, ``attempts``, ``next``.
    """

    code: str
    text: str
    until: datetime | None = None


class Explanation(msgspec.Struct, frozen=True):
    """Why a job is where it is: the answer in one sentence, then everything that bears on it."""

    job_id: str
    status: Status
    verdict: str
    reasons: tuple[Reason, ...] = ()


class DeadGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead jobs with one cause: the class of the error and the frame that raised it."""

    error_type: str | None
    error_frame: str | None
    count: CappedCount
    first_seen: datetime
    """When the first of them died; looked for among the hundred that were created first."""
    last_seen: datetime
    """When the latest of them died; looked for among the hundred that were created last."""
    example_id: str
    example_name: str
    example_queue: str
    error_code: str | None = None
    error_message: str | None = None


class StatusCount(msgspec.Struct, frozen=True):
    """How many jobs have a status, and how long the oldest of them has been there since its creation."""

    status: Status
    count: CappedCount
    oldest_seconds: float | None = None
    """Only for states that end by themselves; None for finished ones and where there is no job."""
    fresh: CappedCount | None = None
    """How many of them were created in the last hour; None for finished ones."""


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue: what lies in it, who works on it, and whether it is paused."""

    name: str
    created_at: datetime
    paused: bool
    paused_at: datetime | None = None
    paused_until: datetime | None = None
    """None for a pause without an end."""
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
    """Attempts settled per minute, over the last five."""


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A worker process. ``liveness`` is ``running``, ``draining``, ``stopped`` or ``stale``."""

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
    held: CappedCount = CappedCount(0)
    """Jobs whose lease it has."""

    @property
    def live(self) -> bool:
        """Whether it was heard of lately and has not stopped."""
        return self.liveness in ("running", "draining")


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


class StatsBucket(msgspec.Struct, frozen=True, kw_only=True):
    """What was settled in one span of time."""

    start: datetime
    succeeded: int = 0
    failed: int = 0
    """Attempts that failed and counted, those after which a job was dead included."""
    dead: int = 0
    cancelled: int = 0
    run_seconds: float = 0.0


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """Settlements over time, oldest bucket first, none missing; ``total`` is their sum."""

    bucket_seconds: int
    buckets: tuple[StatsBucket, ...]
    total: StatsBucket


class Fire(msgspec.Struct, frozen=True):
    """A schedule and when it is due."""

    schedule: str
    job_name: str
    at: datetime


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The state of everything at a glance; what it costs does not grow with history."""

    taken_at: datetime
    statuses: tuple[StatusCount, ...]
    idle_queues: tuple[str, ...] = ()
    """Queues that hold queued jobs and that no live worker takes from."""
    paused_queues: tuple[str, ...] = ()
    stale_workers: tuple[WorkerView, ...] = ()
    live_workers: int = 0
    slots: int = 0
    """Jobs that the live workers run at once, all together."""
    late_schedules: tuple[Fire, ...] = ()
    next_fires: tuple[Fire, ...] = ()
    dead_groups: tuple[DeadGroup, ...] = ()

    def count(self, status: str) -> CappedCount:
        """The count of one status."""
        return next((one.count for one in self.statuses if one.status == status), CappedCount(0))


class BulkResult(msgspec.Struct, frozen=True, kw_only=True):
    """The tally of a bulk command; of a dry run, what it would have met."""

    action: str
    dry_run: bool
    matched: int
    """Jobs that the filter found, up to the limit."""
    more: bool
    """Whether the filter finds more than were matched."""
    done: int = 0
    """Jobs that were changed; in a dry run, those that would be."""
    skipped: Mapping[str, int] = {}
    """Why jobs were left alone, and how many for each reason."""
    sample_ids: tuple[str, ...] = ()
    sample: tuple[JobRow, ...] = ()
    """A few of the rows, in a dry run only."""
