"""Which workers live, and what they work on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from sloppyjobs.storage.claims import ALL_QUEUES
from sloppyjobs.views import CappedCount, WorkerView

MISSED = 3
"""Heartbeats that a worker may miss before it counts as stale."""


def worker_view(row: Any, now: datetime, held: int = 0) -> WorkerView:
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
        held=CappedCount(held),
    )


def liveness(row: Any, now: datetime) -> str:
    """``stopped``, ``stale`` when it was not heard of for three heartbeats, else ``draining`` or ``running``."""
    if row.status == "stopped" or row.stopped_at is not None:
        return "stopped"
    if row.heartbeat_at <= now - timedelta(seconds=MISSED * row.heartbeat_seconds):
        return "stale"
    return "draining" if row.status == "draining" else "running"


def live_workers(rows: Iterable[Any], now: datetime) -> list[WorkerView]:
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
