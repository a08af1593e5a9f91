"""The overview: everything at a glance, in a fixed number of bounded statements."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from sloppyjobs.admin.attention import FEW, Found, Late, Pause, Waiting, attention
from sloppyjobs.admin.presenter import Presenter
from sloppyjobs.admin.summaries import MOST_MINUTES, Busy, capped, dead_group, is_paused
from sloppyjobs.admin.workers import live_workers, within, worker_view, works_on
from sloppyjobs.domain import options
from sloppyjobs.domain.states import FINISHED, Status
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.schedules.occurrences import effective_queue
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.reads import SCHEDULES, Count, DueSchedule, Loads, QueueInUse, StatusLoad
from sloppyjobs.views import (
    Attention,
    CappedCount,
    DeadGroup,
    Fire,
    Overview,
    StatusCount,
    Unhandled,
    WorkerView,
)

MANY = 50
"""Queues, workers and lanes that are named in an overview."""


def overview(
    storage: Store, definitions: Definitions, presenter: Presenter, queues: Sequence[str] | None, minutes: object = 60
) -> Overview:
    """Everything at a glance, or what concerns some queues; a job is fresh for so many ``minutes``."""
    span = options.whole("minutes", minutes, least=1, most=MOST_MINUTES)
    storage.ensure_schema()
    return storage.snapshot(
        lambda: _overview(storage, presenter, queues, span, _extras(storage, definitions, presenter, queues))
    )


def queue_attention(storage: Store, presenter: Presenter, queues: Sequence[str] | None) -> tuple[Attention, ...]:
    """What keeps jobs of some queues from running; cheaper than an overview, without causes of death and schedules."""
    storage.ensure_schema()
    return storage.snapshot(lambda: _overview(storage, presenter, queues, 60, _Extras()).attention)


class _Extras(NamedTuple):
    """What an overview tells besides the state of queues and workers; ``busy`` queues are that many at most."""

    late: tuple[Fire, ...] = ()
    coming: tuple[Fire, ...] = ()
    dead: tuple[DeadGroup, ...] = ()
    busy: int = 0


def _extras(storage: Store, definitions: Definitions, presenter: Presenter, scope: Sequence[str] | None) -> _Extras:
    late, coming = storage.overview.schedules_due(storage.clock.now(), FEW if scope is None else SCHEDULES)
    causes = storage.dead_groups.recent_causes(FEW, scope)
    return _Extras(
        _fires(late, definitions, scope),
        _fires(coming, definitions, scope),
        tuple(dead_group(cause, presenter) for cause in causes),
        FEW,
    )


def _overview(
    storage: Store, presenter: Presenter, scope: Sequence[str] | None, minutes: int, extras: _Extras
) -> Overview:
    now = storage.clock.now()
    loads = storage.overview.status_loads(now, now - timedelta(minutes=minutes), scope)
    queues = storage.overview.queues_in_use(scope)
    rows = storage.history.recent_workers()
    workers = Workers.of([worker_view(row, now) for row in rows], scope)
    whole = Overview(
        taken_at=now,
        minutes=minutes,
        due=_sum(loads.statuses[Status.QUEUED].jobs, loads.overdue[0]),
        statuses=tuple(_status_count(status, loads.statuses[status], now) for status in Status),
        idle_queues=tuple(queue.name for queue in queues if queue.names and not workers.on(queue.name))[:MANY],
        paused_queues=tuple(queue.name for queue in queues if is_paused(queue, now))[:MANY],
        stale_workers=tuple(worker for worker in workers.seen if worker.liveness == "stale")[:MANY],
        stuck_workers=tuple(worker for worker in workers.seen if worker.trouble is not None)[:MANY],
        live_workers=len(workers.live),
        slots=sum(max(0, worker.concurrency - worker.stuck) for worker in workers.live),
        late_schedules=extras.late,
        next_fires=extras.coming,
        dead_groups=extras.dead,
    )
    waiting = Waiters.of(queues, workers, now)
    busy = Busy.of(storage, queues, now, extras.busy) if extras.busy else Busy((), {}, {})
    queued = storage.overview.queued_in(waiting.places, [(name, None) for name in busy.names])
    counts = [
        Waiting(queue, name, capped(load.queued), load.due_since)
        for (queue, name), load in zip(waiting.places, queued, strict=False)
    ]
    found = _found(whole, loads, workers, waiting, counts, presenter, scope)
    unhandled = tuple(Unhandled(queue=one.queue, name=one.name or "", count=one.number) for one in found.unhandled)
    return msgspec.structs.replace(
        whole,
        unhandled=unhandled,
        attention=attention(found),
        busiest=busy.views(queued[len(waiting.places) :], now),
    )


class Workers(NamedTuple):
    """The workers of an overview."""

    live: list[WorkerView]
    """Those that take jobs, as whoever asks may see them."""
    seen: list[WorkerView]
    knowing: list[WorkerView]
    """Those that take jobs, with all the names they know."""

    @classmethod
    def of(cls, workers: Sequence[WorkerView], scope: Sequence[str] | None) -> Workers:
        """Of all workers, those that take from the queues in question."""
        seen = [view for view in (within(worker, scope) for worker in workers) if view is not None]
        live = [worker for worker in seen if worker.liveness == "running"]
        return cls(live, seen, [worker for worker in workers if worker.liveness == "running"])

    def on(self, queue: str) -> list[WorkerView]:
        """Those that take jobs from the queue."""
        return [worker for worker in self.knowing if works_on(worker, queue)]

    def cannot_run(self, queue: QueueInUse) -> list[str]:
        """Names of queued jobs that no worker of their queue has a handler for; none where it has no worker."""
        known = self.on(queue.name)
        return [name for name in queue.names if known and not any(name in worker.names for worker in known)]


class Waiters(NamedTuple):
    """Queues and lanes whose jobs wait for somebody, few enough to be counted in one statement."""

    idle: list[QueueInUse]
    lanes: list[tuple[str, str]]
    paused: list[QueueInUse]

    @classmethod
    def of(cls, queues: Sequence[QueueInUse], workers: Workers, now: datetime) -> Waiters:
        """What a pause holds back is told as that, and not as what else would keep it from running."""
        used = [queue for queue in queues if queue.names]
        open_ones = [queue for queue in used if not is_paused(queue, now)]
        return cls(
            [queue for queue in open_ones if not workers.on(queue.name)],
            [(queue.name, name) for queue in open_ones for name in workers.cannot_run(queue)],
            [queue for queue in used if is_paused(queue, now)],
        )

    @property
    def places(self) -> list[tuple[str, str | None]]:
        """What is counted: the first few of each."""
        idle, paused = ([(queue.name, None) for queue in found[:FEW]] for found in (self.idle, self.paused))
        return [*idle, *self.lanes[:FEW], *paused]


def _found(
    whole: Overview,
    loads: Loads,
    workers: Workers,
    waiting: Waiters,
    counts: Sequence[Waiting],
    presenter: Presenter,
    scope: Sequence[str] | None,
) -> Found:
    idle, lanes = len(waiting.idle[:FEW]), len(waiting.lanes[:FEW])
    held = zip(counts[idle + lanes :], waiting.paused, strict=False)
    (expired, expired_since), (overrun, overrun_since) = loads.expired, loads.overrun
    stopped = [worker.stopped_at or worker.heartbeat_at for worker in workers.seen]
    return Found(
        due=whole.due,
        dead=whole.count(Status.DEAD),
        dead_since=min((group.first_seen for group in whole.dead_groups), default=None),
        live=whole.live_workers,
        draining=sum(worker.liveness == "draining" for worker in workers.seen),
        quiet=sum(worker.liveness == "quiet" for worker in workers.seen),
        last_seen=max(stopped, default=None),
        jobs=any(one.count for one in whole.statuses) or bool(whole.late_schedules or whole.next_fires),
        queues=scope,
        idle=counts[:idle],
        more_idle=len(waiting.idle) - idle,
        unhandled=counts[idle : idle + lanes],
        more_unhandled=len(waiting.lanes) - lanes,
        paused=[_pause(jobs, queue, presenter) for jobs, queue in held],
        more_paused=max(0, len(waiting.paused) - FEW),
        expired=Late(capped(expired), expired_since),
        overrun=Late(capped(overrun), overrun_since),
        stale=whole.stale_workers,
        stuck=whole.stuck_workers,
        late=whole.late_schedules,
        failed=loads.lately[0],
        succeeded=loads.lately[1],
    )


def _pause(jobs: Waiting, queue: QueueInUse, presenter: Presenter) -> Pause:
    assert queue.paused_at is not None
    by, reason = presenter.text(None, queue.paused_by), presenter.text(None, queue.pause_reason)
    return Pause(jobs, queue.paused_at, queue.paused_until, by, reason)


def _sum(*counts: Count) -> CappedCount:
    return CappedCount(sum(count.number for count in counts), any(count.more for count in counts))


def unhandled(storage: Store) -> tuple[Unhandled, ...]:
    """Queued jobs that no live worker of their queue has a handler for; queues without any worker are left out."""
    storage.ensure_schema()
    return storage.snapshot(lambda: _unhandled(storage))


def _unhandled(storage: Store) -> tuple[Unhandled, ...]:
    live = live_workers(storage.history.recent_workers(), storage.clock.now())
    workers = Workers.of(live, None)
    queues = storage.overview.queues_in_use(None)
    lanes = [(queue.name, name) for queue in queues for name in workers.cannot_run(queue)][:MANY]
    loads = storage.overview.queued_in(lanes)
    return tuple(
        Unhandled(queue=queue, name=name, count=capped(load.queued))
        for (queue, name), load in zip(lanes, loads, strict=True)
    )


def _status_count(status: Status, load: StatusLoad, now: datetime) -> StatusCount:
    active = status not in FINISHED and load.oldest is not None
    age = max(0.0, (now - load.oldest).total_seconds()) if active and load.oldest is not None else None
    return StatusCount(status, capped(load.jobs), age, None if load.fresh is None else capped(load.fresh))


def _fires(found: Sequence[DueSchedule], definitions: Definitions, scope: Sequence[str] | None) -> tuple[Fire, ...]:
    fires = []
    for one in found:
        queue = effective_queue(one.queue, one.job_defaults, definitions.get(one.job_name))
        if scope is None or queue in scope:
            fires.append(Fire(one.name, one.job_name, one.next_run_at, one.last_error_at))
    return tuple(fires[:FEW])
