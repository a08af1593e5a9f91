"""Which workers live, and what they work on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.claims import ALL_QUEUES
from sloppyjobs.storage.ports.reads import Held, WorkerRow
from sloppyjobs.views import CappedCount, RunningJob, WorkerView

MISSED = 3
"""Heartbeats that a worker may miss before it counts as stale."""
SHOWN_JOBS = 3
"""Running jobs that are shown of each worker."""
QUEUE_WORKERS = 20
"""Workers that are shown of a queue."""


def worker_views(
    storage: Store, rows: Sequence[WorkerRow], queues: Sequence[str] | None, most: int = SHOWN_JOBS
) -> list[WorkerView]:
    """Workers with their liveness and the jobs they run; with ``queues``, what concerns these."""

    def work() -> list[WorkerView]:
        held = storage.recent_runs.running_jobs([row.id for row in rows], queues, most)
        now = storage.clock.now()
        views = (within(worker_view(row, now, held.get(row.id, ())), queues) for row in rows)
        return [view for view in views if view is not None]

    return storage.snapshot(work)


def workers_of(storage: Store, queue: str) -> list[WorkerView]:
    """The first live workers that take jobs from a queue, with what they run from it."""

    def work() -> list[WorkerView]:
        now = storage.clock.now()
        taking = [one for one in live_workers(storage.history.recent_workers(), now) if works_on(one, queue)]
        shown = taking[:QUEUE_WORKERS]
        held = storage.recent_runs.running_jobs([one.id for one in shown], (queue,), SHOWN_JOBS)
        return [msgspec.structs.replace(one, **_load(held.get(one.id, ()))) for one in shown]

    storage.ensure_schema()
    return storage.snapshot(work)


def worker_view(row: WorkerRow, now: datetime, held: Sequence[Held] = ()) -> WorkerView:
    """A worker's row as it is shown."""
    return WorkerView(
        id=row.id,
        hostname=row.hostname,
        pid=row.pid,
        queues=_names(row.queues),
        names=_names(row.names),
        concurrency=row.concurrency,
        version=row.version,
        liveness=liveness(row, now),
        started_at=row.started_at,
        heartbeat_at=row.heartbeat_at,
        heartbeat_seconds=row.heartbeat_seconds,
        stopped_at=row.stopped_at,
        running=row.running,
        stuck=row.stuck,
        wanted=row.wanted,
        memory=row.memory,
        done=row.done,
        failed=row.failed,
        app_version=row.app_version,
        **_load(held),
    )


def _load(held: Sequence[Held]) -> dict[str, Any]:
    jobs = (RunningJob(id=one.id, name=one.name, queue=one.queue, started_at=one.started_at) for one in held)
    return {"held": CappedCount(held[0].total if held else 0), "jobs": tuple(jobs)}


def liveness(row: WorkerRow, now: datetime) -> str:
    """``stopped``, ``stale`` when it was not heard of for three heartbeats, else what the worker says of itself."""
    if row.status == "stopped" or row.stopped_at is not None:
        return "stopped"
    if row.heartbeat_at <= now - timedelta(seconds=MISSED * row.heartbeat_seconds):
        return "stale"
    said = row.status.partition(" ")[0]
    return said if said in ("draining", "quiet") else "running"


def live_workers(rows: Iterable[WorkerRow], now: datetime) -> list[WorkerView]:
    """The workers that were heard of lately and take jobs."""
    return [worker_view(row, now) for row in rows if liveness(row, now) == "running"]


def within(worker: WorkerView, queues: Sequence[str] | None) -> WorkerView | None:
    """What somebody who sees some queues only may know of a worker; None if it takes from none of them."""
    if queues is None:
        return worker
    shared = tuple(queue for queue in worker.queues if queue == ALL_QUEUES or queue in queues)
    return msgspec.structs.replace(worker, queues=shared, names=()) if shared else None


def works_on(worker: WorkerView, queue: str) -> bool:
    """Whether the worker takes jobs from the queue."""
    return ALL_QUEUES in worker.queues or queue in worker.queues


def _names(stored: str) -> tuple[str, ...]:
    try:
        return msgspec.json.decode(stored, type=tuple[str, ...])
    except msgspec.MsgspecError:
        return ()
