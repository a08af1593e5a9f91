"""Queues, causes and counters: summaries of bounded cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from sloppyjobs.admin.presenter import Presenter
from sloppyjobs.admin.workers import live_workers, works_on
from sloppyjobs.domain import options
from sloppyjobs.domain.ageing import declared, in_force
from sloppyjobs.domain.causes import cause_id
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.reads import WINDOW, CauseSummary, Count, MinuteCounters, QueueInUse, QueueLoad
from sloppyjobs.storage.ports.records import QueueRecord
from sloppyjobs.views import (
    BusyQueue,
    CappedCount,
    DeadGroup,
    QueueView,
    Stats,
    StatsBucket,
)

THROUGHPUT_MINUTES = 5
_RATE_STEP = timedelta(seconds=10)  # a rate that differed with every read would make every poll a change
MINUTES_OF_A_DAY = 1_440
MOST_MINUTES = 30 * MINUTES_OF_A_DAY


def dead_group(cause: CauseSummary, presenter: Presenter) -> DeadGroup:
    """A cause as it is shown."""
    example, past = cause.example, cause.past
    return DeadGroup(
        cause=cause_id(cause.cause[2], cause.cause[0], cause.cause[1]),
        error_type=cause.cause[0],
        error_frame=cause.cause[1],
        name=cause.cause[2],
        count=capped(cause.jobs),
        first_seen=cause.first_seen if past is None else min(cause.first_seen, past.first_at),
        last_seen=cause.last_seen if past is None else max(cause.last_seen, past.last_at),
        deaths=cause.jobs.number + (0 if past is None else past.deaths),
        example_id=example.id,
        example_name=example.name,
        example_queue=example.queue,
        error_code=example.error_code,
        error_message=presenter.text(example.name, example.error_message),
    )


def queue_views(storage: Store, rows: Sequence[QueueRecord], presenter: Presenter) -> list[QueueView]:
    """Queues with what lies in them and who works on them."""
    return storage.snapshot(lambda: _queue_views(storage, rows, presenter))


class Busy(NamedTuple):
    """The busiest queues by name, and what they do."""

    names: tuple[str, ...]
    running: dict[str, int]
    per_minute: dict[str, float]

    @classmethod
    def of(cls, storage: Store, queues: Sequence[QueueInUse], now: datetime, most: int) -> Busy:
        """Of these queues, those that finish most; then those in which most runs, then others in which jobs wait."""
        since = _throughput_start(now)
        running, _, settled = storage.overview.activity(since)
        used = [one.name for one in queues if one.names or settled.get(one.name) or running.get(one.name)]
        names = sorted(used, key=lambda name: (-settled.get(name, 0), -running.get(name, 0), name))[:most]
        minutes = _minutes_since(since, now)
        return cls(tuple(names), running, {name: settled.get(name, 0) / minutes for name in names})

    def views(self, loads: Sequence[QueueLoad], now: datetime) -> tuple[BusyQueue, ...]:
        """As they are shown, with what is queued in each."""
        return tuple(
            BusyQueue(
                name=name,
                depth=capped(load.queued),
                oldest_queued_seconds=_age(load.due_since, now),
                processing=_share(self.running, name),
                throughput=self.per_minute[name],
            )
            for name, load in zip(self.names, loads, strict=True)
        )


def _age(since: datetime | None, now: datetime) -> float | None:
    return None if since is None else max(0.0, (now - since).total_seconds())


def _minutes_since(since: datetime, now: datetime) -> float:
    return math.ceil((now - since) / _RATE_STEP) * _RATE_STEP / timedelta(minutes=1)


def _throughput_start(now: datetime) -> datetime:
    return now.replace(second=0, microsecond=0) - timedelta(minutes=THROUGHPUT_MINUTES)


def _queue_views(storage: Store, rows: Sequence[QueueRecord], presenter: Presenter) -> list[QueueView]:
    now = storage.clock.now()
    loads = storage.overview.queue_loads([row.name for row in rows])
    since = _throughput_start(now)
    minutes = _minutes_since(since, now)
    running, timed, settled = storage.overview.activity(since)
    live = live_workers(storage.history.recent_workers(), now)
    views = []
    for row in rows:
        load = loads[row.name]
        paused = is_paused(row, now)
        ageing = in_force(row.ageing_seconds, row.ageing_most, row.ageing_vanished_at)
        views.append(
            QueueView(
                name=row.name,
                created_at=row.created_at,
                paused=paused,
                paused_at=row.paused_at if paused else None,
                paused_until=row.paused_until if paused else None,
                paused_by=presenter.text(None, row.paused_by) if paused else None,
                pause_reason=presenter.text(None, row.pause_reason) if paused else None,
                ageing_seconds=None if ageing is None else ageing.every,
                ageing_most=None if ageing is None else ageing.most,
                ageing_declared=row.ageing_declared_as is not None and row.ageing_vanished_at is None,
                ageing_changed=row.ageing_declared_as is not None and declared(row.ageing_declared_as) != ageing,
                ageing_vanished=row.ageing_vanished_at is not None,
                depth=capped(load.queued),
                oldest_queued_seconds=_age(load.due_since, now),
                processing=_share(running, row.name),
                scheduled=_share(timed, row.name),
                workers=sum(works_on(worker, row.name) for worker in live),
                throughput=settled.get(row.name, 0) / minutes,
            )
        )
    return views


def _share(counts: dict[str, int], name: str) -> CappedCount:
    # What was counted is the first of all queues together; beyond them, each may have more.
    return CappedCount(counts.get(name, 0), sum(counts.values()) > WINDOW)


def is_paused(row: QueueRecord | QueueInUse, now: datetime) -> bool:
    """Whether a queue's pause is in force."""
    return row.paused_at is not None and (row.paused_until is None or row.paused_until > now)


def stats(
    storage: Store,
    minutes: object,
    queue: str | None,
    name: str | None,
    scope: Sequence[str] | None,
    ago: object,
    *,
    compare: bool = False,
) -> Stats:
    """What happened over time; see ``Admin.stats``."""
    span = options.whole("minutes", minutes, least=1, most=MOST_MINUTES)
    back = timedelta(minutes=options.whole("ago", ago, least=0, most=MOST_MINUTES))
    queues = scope
    if queue is not None:
        queues = [one for one in (options.text("queue", queue),) if scope is None or one in scope]
    of_name = None if name is None else options.text("name", name)
    step = timedelta(minutes=1) if span <= MINUTES_OF_A_DAY else timedelta(hours=1)
    twice = options.truth("compare", compare)
    storage.ensure_schema()

    def work() -> Stats:
        last = _floor(storage.clock.now() - back, step)
        number = -(-span // (step // timedelta(minutes=1)))
        first = last - step * (number - 1)
        start = first - step * number if twice else first
        rows = storage.overview.settled_by_minute(start, last + step, queues, of_name)
        found = _folded(rows, [first + step * place for place in range(number)], step)
        if not twice:
            return found
        before = _folded(rows, [start + step * place for place in range(number)], step)
        return msgspec.structs.replace(found, previous=before.total)

    return storage.snapshot(work)


def _folded(rows: Iterable[MinuteCounters], starts: Sequence[datetime], step: timedelta) -> Stats:
    sums = {start: [0, 0, 0, 0, 0.0] for start in starts}
    total = [0, 0, 0, 0, 0.0]
    for minute, *counters in rows:
        # Clocks of the future do not exist; a row beyond the last bucket is from a clock that was set back.
        bucket = sums.get(_floor(minute, step))
        if bucket is None:
            continue
        for place, counter in enumerate(counters):
            bucket[place] += counter
            total[place] += counter
    return Stats(
        bucket_seconds=int(step.total_seconds()),
        buckets=tuple(_bucket(start, counters) for start, counters in sums.items()),
        total=_bucket(starts[0], total),
    )


def _bucket(start: datetime, counters: Sequence[float]) -> StatsBucket:
    succeeded, failed, dead, cancelled, run_seconds = counters
    return StatsBucket(
        start=start,
        succeeded=int(succeeded),
        failed=int(failed),
        dead=int(dead),
        cancelled=int(cancelled),
        run_seconds=float(run_seconds),
    )


def _floor(moment: datetime, step: timedelta) -> datetime:
    minute = moment.replace(second=0, microsecond=0)
    return minute if step < timedelta(hours=1) else minute.replace(minute=0)


def capped(count: Count) -> CappedCount:
    """A bounded count as it is shown."""
    return CappedCount(count.number, count.more)
