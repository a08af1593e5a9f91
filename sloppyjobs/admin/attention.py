"""What needs an operator: a pure function of what an overview has read. The most urgent comes first."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

import msgspec

from sloppyjobs.storage.ports.reads import LATELY
from sloppyjobs.views import Attention, CappedCount, Fire, WorkerView

T = TypeVar("T")

FEW = 5
"""Things of one kind that are listed."""
MANY_FAILED = 20
"""Fewer failed attempts in five minutes are no storm."""
START = "sloppyjobs worker"


class Waiting(NamedTuple):
    """Queued jobs of a queue, or of one name in it: how many, and since when the first of them is due."""

    queue: str
    name: str | None
    number: CappedCount
    since: datetime | None


class Pause(NamedTuple):
    """A paused queue that holds queued jobs."""

    jobs: Waiting
    at: datetime
    until: datetime | None
    by: str | None
    reason: str | None


class Late(NamedTuple):
    """Running jobs that should have ended, and since when the first of them."""

    number: CappedCount
    since: datetime | None


class Found(NamedTuple):
    """What bears on the verdict. Of queues and lanes the first few, and how many more there are."""

    due: CappedCount
    dead: CappedCount
    dead_since: datetime | None
    live: int
    draining: int
    quiet: int
    last_seen: datetime | None
    """When a worker was last heard of; None where there never was one."""
    jobs: bool
    """Whether there is any job or schedule."""
    queues: Sequence[str] | None
    """The queues that the overview is limited to; None for all."""
    idle: Sequence[Waiting]
    more_idle: int
    unhandled: Sequence[Waiting]
    more_unhandled: int
    paused: Sequence[Pause]
    more_paused: int
    expired: Late
    overrun: Late
    stale: Sequence[WorkerView]
    stuck: Sequence[WorkerView]
    late: Sequence[Fire]
    failed: int
    """Attempts that failed in the last minutes."""
    succeeded: int


def attention(found: Found) -> tuple[Attention, ...]:
    """Everything that needs an operator; empty where all is well, and where there is nothing yet."""
    return (
        *_no_worker(found),
        *_dead(found),
        *_failing(found),
        *_queues(found),
        *_running(found),
        *_workers(found),
        *_schedules(found),
        *_few(map(_pause, found.paused), found.more_paused),
    )


def _no_worker(found: Found) -> Iterator[Attention]:
    if found.live or not found.jobs:
        return
    due = "No job is due." if not found.due else f"{found.due} {_plural(found.due, 'job is', 'jobs are')} due."
    where, command = _where(found.queues)
    what = f"No worker is running{where}. {due}"
    advice = "Start a worker."
    if found.quiet:
        how = "quiet or stopping" if found.draining else "quiet"
        what = f"Every worker{where} is {how}, none takes new jobs. {due}"
        advice = "Resume one, or start another."
    elif found.draining:
        what = f"Every worker{where} is stopping, none takes new jobs. {due}"
    level = "bad" if found.due or found.late else "warn"
    yield Attention(
        code="no_worker",
        level=level,
        text=what,
        advice=advice,
        command=command,
        count=found.due,
        since=found.last_seen,
    )


def _where(queues: Sequence[str] | None) -> tuple[str, str]:
    """For which queues a worker is missing, and what starts one."""
    if queues is not None and len(queues) == 1:
        return f" for {queues[0]}", worker_command(queues[0])
    return (" for these queues" if queues is not None else ""), START


def worker_command(queue: str) -> str:
    """What starts a worker of a queue. Its name is hostile text, and people paste what they read into a shell."""
    return f"{START} --queue {shlex.quote(queue)}"


def _dead(found: Found) -> Iterator[Attention]:
    if found.dead:
        yield Attention(
            code="dead",
            level="bad",
            text=f"{found.dead} dead {_plural(found.dead, 'job', 'jobs')}",
            advice="Fix the cause, then retry or delete them.",
            count=found.dead,
            since=found.dead_since,
        )


def _failing(found: Found) -> Iterator[Attention]:
    if found.failed >= MANY_FAILED and found.failed > found.succeeded:
        attempts = found.failed + found.succeeded
        yield Attention(
            code="failing",
            level="bad",
            text=f"Most attempts fail: {found.failed:,} of {attempts:,} in the last {LATELY} minutes",
            advice="See what they fail with, and pause the queue until it is mended.",
        )


def _queues(found: Found) -> Iterator[Attention]:
    # Without any worker every queue is without one: said once is enough.
    if found.live:
        yield from _few(map(_idle, found.idle), found.more_idle)
    yield from _few(map(_unhandled, found.unhandled), found.more_unhandled)


def _idle(jobs: Waiting) -> Attention:
    return Attention(
        code="queue_without_worker",
        level="bad",
        text=f"No worker for {jobs.queue}",
        advice="Start a worker that takes from it.",
        command=worker_command(jobs.queue),
        count=jobs.number,
        since=jobs.since,
        queue=jobs.queue,
    )


def _unhandled(jobs: Waiting) -> Attention:
    return Attention(
        code="no_handler",
        level="bad",
        text=f"No worker can run {jobs.name} ({jobs.number} queued in {jobs.queue})",
        advice="Start a worker whose code defines it, or restart one that runs old code.",
        count=jobs.number,
        since=jobs.since,
        queue=jobs.queue,
        name=jobs.name,
    )


def _pause(pause: Pause) -> Attention:
    jobs = pause.jobs
    return Attention(
        code="queue_paused",
        level="info",
        text=f"{jobs.queue} is paused",
        advice="Resume it to let its jobs start.",
        count=jobs.number,
        since=pause.at,
        until=pause.until,
        queue=jobs.queue,
        by=pause.by,
        reason=pause.reason,
    )


def _running(found: Found) -> Iterator[Attention]:
    count, since = found.expired
    if count:
        sweep, jobs = "A live worker" if found.live else "The first worker that starts", _plural(count, "it", "them")
        yield Attention(
            code="lease_expired",
            level="warn",
            text=f"{count} running {_plural(count, 'job has lost its worker', 'jobs have lost their workers')}",
            advice=f"{_plural(count, 'Its lease was', 'Their leases were')} not renewed."
            f" {sweep} gives {jobs} to another, or makes {jobs} dead.",
            count=count,
            since=since,
        )
    count, since = found.overrun
    if count:
        yield Attention(
            code="overrun",
            level="warn",
            text=f"{count} {_plural(count, 'job runs', 'jobs run')} longer than the timeout",
            advice="See which worker runs them, and restart it if they hang.",
            count=count,
            since=since,
        )


def _workers(found: Found) -> Iterator[Attention]:
    for worker in found.stale[:FEW]:
        yield Attention(
            code="worker_stale",
            level="warn",
            text=f"{worker.hostname}:{worker.pid} stopped responding",
            advice="Its jobs run again when their leases end. Restart it if it should run.",
            since=worker.heartbeat_at,
            worker=worker.id,
            more=_more(found.stale, worker),
        )
    for worker in found.stuck[:FEW]:
        yield Attention(
            code="worker_stuck",
            level="warn",
            text=f"{worker.hostname}:{worker.pid}: {worker.trouble}",
            advice="Their handlers still run after a timeout or a cancel. Restart the worker.",
            worker=worker.id,
            more=_more(found.stuck, worker),
        )


def _schedules(found: Found) -> Iterator[Attention]:
    for fire in found.late:
        broken = fire.failed_at is not None
        yield Attention(
            code="schedule_failed" if broken else "schedule_late",
            level="warn",
            text=f"{fire.schedule} failed to fire" if broken else f"{fire.schedule} is late",
            advice="Open it to see the error." if broken else _scheduler(found.live),
            since=fire.failed_at if broken else fire.at,
            schedule=fire.schedule,
        )


def _scheduler(live: int) -> str:
    if not live:
        return "No worker is running the scheduler."
    return "No worker is running the scheduler. Start one without --no-recurring."


def _few(items: Iterable[Attention], more: int) -> list[Attention]:
    """The items, the last of which says how many more there are."""
    listed = list(items)
    return [*listed[:-1], msgspec.structs.replace(listed[-1], more=more)] if listed and more else listed


def _more(workers: Sequence[T], one: T) -> int:
    return max(0, len(workers) - FEW) if one is workers[:FEW][-1] else 0


def _plural(count: CappedCount, one: str, many: str) -> str:
    return one if count == CappedCount(1) else many
