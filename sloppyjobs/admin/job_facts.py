"""What bears on a job, read for its explanation in a bounded number of bounded statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple, overload

from sloppyjobs import errors
from sloppyjobs.admin.explain_parents import find_blocker
from sloppyjobs.admin.workers import live_workers, liveness, worker_view
from sloppyjobs.domain.ageing import Ageing
from sloppyjobs.domain.limits import NO_PARTITION
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.states import FINISHED, Status, WaitingFor
from sloppyjobs.storage.ports import Store, reads
from sloppyjobs.storage.ports.batches import BatchFound
from sloppyjobs.storage.ports.dependencies import EdgeRow
from sloppyjobs.storage.ports.limits import LineState
from sloppyjobs.storage.ports.reads import Count
from sloppyjobs.storage.ports.steps import StepRow
from sloppyjobs.views import CappedCount, WorkerView

PARENTS = 50
"""Jobs that it waits for of which an explanation knows."""

Shown = Callable[[str | None], str | None]
"""Takes the secrets out of a text."""


class QueuePause(NamedTuple):
    """A pause of the job's queue that is in force; ``until`` is None for one without an end."""

    until: datetime | None = None
    by: str | None = None
    reason: str | None = None


class LastAttempt(NamedTuple):
    """The job's latest attempt."""

    worker_id: str
    status: str
    started_at: datetime
    error_code: str | None = None


class LastEvent(NamedTuple):
    """The latest event of the job: who did what, when and why."""

    event_type: str
    created_at: datetime
    actor: str | None = None
    message: str | None = None


class Facts(NamedTuple):
    """What bears on a job. Texts are redacted."""

    now: datetime
    pause: QueuePause | None
    workers: Sequence[WorkerView]
    """Those that take jobs."""
    ahead: CappedCount
    holder: WorkerView | None = None
    """The worker that holds the job; of a job whose attempt others ended, the one that ran it. None if unknown."""
    attempt: LastAttempt | None = None
    last_event: LastEvent | None = None
    parents: Sequence[EdgeRow] = ()
    """The jobs that it waits for, those first that have not ended as it needs; without a name where it is hidden."""
    line: LineState | None = None
    """What a job with a resource that has not ended has before it; holders without a name where they are hidden."""
    waits: Sequence[StepRow] = ()
    """The sleep, or the signal, that a suspended job waits for."""
    batch: BatchFound | None = None
    """The batch that the job belongs to, with its numbers in the queues that may be seen."""
    ageing: Ageing | None = None
    """How the job's queue ages."""
    base_priority: int | None = None
    """The priority that it was enqueued with, where it has risen since."""
    any_parent: bool = False
    """Whether one of the jobs that it waits for is enough."""
    blocker: EdgeRow | None = None
    """The job that keeps those which it waits for, where they wait themselves."""
    silent: Sequence[WorkerView] = ()
    """Workers that were not heard of lately and did not say that they stop."""
    quiet: Sequence[WorkerView] = ()
    """Workers that take no jobs, because an operator wants it so."""


_SUSPENDED = (WaitingFor.SLEEP, WaitingFor.SIGNAL)


def facts_about(storage: Store, job: Job, shown: Shown, scope: Sequence[str] | None = None) -> Facts:
    """The facts about a job; ``shown`` redacts texts, and of queues outside of ``scope`` nothing is told."""
    return storage.snapshot(lambda: _facts(storage, job, shown, scope))


def _facts(storage: Store, job: Job, shown: Shown, scope: Sequence[str] | None) -> Facts:
    now = storage.clock.now()
    row = storage.history.surroundings(job)
    workers = storage.history.recent_workers()
    ahead = storage.overview.jobs_ahead(job) if job.status is Status.QUEUED else Count(0, False)
    attempt = None if row is None or row.attempt is None else LastAttempt(*row.attempt)
    waits = job.status is Status.WAITING
    would_wait = waits or job.paused_from is Status.WAITING
    for_jobs = would_wait and job.waiting_for in (None, WaitingFor.JOBS)
    holder_id = _holder_id(job, attempt)
    neighbours = storage.history.neighbours
    parents = neighbours(job.id, PARENTS).parents if for_jobs else ()
    last_event = None
    if row is not None and row.event is not None:
        kind, at, actor, message = row.event
        last_event = LastEvent(kind, at, shown(actor), shown(message))
    return Facts(
        now,
        None if row is None or row.pause is None else _pause(row.pause, now, shown),
        live_workers(workers, now) if job.status not in FINISHED else (),
        CappedCount(ahead.number, ahead.more),
        next((worker_view(worker, now) for worker in workers if worker.id == holder_id), None),
        attempt,
        last_event,
        [_seen(edge, scope) for edge in parents],
        line=_line(storage, job, scope),
        waits=storage.history.waits(job.id) if waits and job.waiting_for in _SUSPENDED else (),
        batch=_batch(storage, job, scope),
        ageing=None if row is None else row.ageing,
        base_priority=None if row is None else row.base_priority,
        any_parent=row is not None and row.any_parent,
        blocker=_seen(find_blocker(parents, lambda one: neighbours(one, PARENTS).parents), scope)
        if waits and parents
        else None,
        silent=[worker_view(worker, now) for worker in workers if liveness(worker, now) == "stale"],
        quiet=[worker_view(worker, now) for worker in workers if liveness(worker, now) == "quiet"],
    )


@overload
def _seen(edge: EdgeRow, scope: Sequence[str] | None) -> EdgeRow: ...
@overload
def _seen(edge: EdgeRow | None, scope: Sequence[str] | None) -> EdgeRow | None: ...


def _seen(edge: EdgeRow | None, scope: Sequence[str] | None) -> EdgeRow | None:
    """The job at the other end, without its name where its queue is hidden."""
    return edge if edge is None or scope is None or edge.queue in scope else edge._replace(job_id="", name="")


def _batch(storage: Store, job: Job, scope: Sequence[str] | None) -> BatchFound | None:
    if job.batch_id is None:
        return None
    try:
        return storage.batch_rows.get(job.batch_id, scope)
    except errors.UnknownBatch:
        # It was purged.
        return None


def _line(storage: Store, job: Job, scope: Sequence[str] | None) -> LineState | None:
    if job.resource is None or job.status in FINISHED:
        return None
    line = storage.limits.line_of(job.id, job.resource, job.partition_key or NO_PARTITION)
    hidden = [
        one if scope is None or one.queue in scope else one._replace(job_id="", name=None) for one in line.holders
    ]
    return line._replace(holders=hidden)


def _pause(pause: reads.QueuePause, now: datetime, shown: Shown) -> QueuePause | None:
    if pause.until is not None and pause.until <= now:
        return None
    return QueuePause(pause.until, shown(pause.by), shown(pause.reason))


def _holder_id(job: Job, attempt: LastAttempt | None) -> str | None:
    """Whose worker matters: the holder's, or that of an attempt which was ended while its handler ran."""
    if job.locked_by is not None:
        return job.locked_by
    # A handler that asked to be cancelled has returned; this code is written where somebody else cancelled.
    ended = attempt is not None and attempt.error_code in (errors.CANCELLED, errors.JobTimeout.code)
    return attempt.worker_id if attempt is not None and ended else None
