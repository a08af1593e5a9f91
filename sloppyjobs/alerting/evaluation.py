"""Looking whether a rule is met. Any number may look at once: each alert is raised once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from sloppyjobs.admin.presenter import Presenter
from sloppyjobs.admin.summaries import is_paused
from sloppyjobs.admin.workers import liveness
from sloppyjobs.alerting.deliveries import delivery
from sloppyjobs.alerting.rules import QUEUE, AlertRules, Rule
from sloppyjobs.domain.alerts import LATE_SECONDS, TEXT_LIMIT, Alert, Situation, Watch, cause_of, deadly
from sloppyjobs.domain.alerts import window_start as start_of
from sloppyjobs.domain.payload import clean_text
from sloppyjobs.domain.states import Status
from sloppyjobs.encryption import Sealing
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.storage.ports import Store

LOCK_SECONDS = 8.0
"""For how long the others leave it to the one who has looked."""
MOST = 1_000
"""Dead jobs, queues or schedules that one look at a rule reads."""
SETTLED = 200
LOOK_BACK = timedelta(days=1)
"""Deaths are looked at since the last look, and the window before it; never from longer ago than this."""


def evaluate(
    storage: Store, rules: AlertRules, definitions: Definitions, sealing: Sealing, owner: str | None = None
) -> int:
    """Raise what the rules find; how many alerts. With ``owner``, unless another one has just looked."""
    lock = f"sloppy.jobs.alerts:{rules.job_name}"[:128]
    if not rules or (owner is not None and not storage.locks.acquire(lock, owner, LOCK_SECONDS)):
        return 0
    seen = storage.alerts.seen()
    storage.alerts.declare(rules.records())
    presenter = Presenter(definitions, storage.redactions.by_name())
    raised = 0
    for rule in rules:
        now = storage.clock.now()
        since = _since(rule.watch, now, seen.get(rule.name))
        found = list(_FINDERS[rule.watch.on](storage, rule.watch, now, since, rules.job_name))
        if not found:
            continue
        known = storage.alerts.raised(rule.name, min(one.window_start for one in found))
        for one in found:
            if (one.cause, one.window_start) not in known:
                record, job = delivery(_alert(rule, one, presenter), rule.target, rules.job_name, QUEUE)
                [sealed] = sealing.seal_new([job])
                raised += storage.alerts.raise_alert(record, sealed)
    storage.alerts.settle(SETTLED)
    return raised


def _alert(rule: Rule, found: Situation, presenter: Presenter) -> Alert:
    text = presenter.text(found.told.get("name"), found.told["text"]) or ""
    told = {**found.told, "text": clean_text(text, TEXT_LIMIT)}
    watch = rule.watch
    return Alert(
        rule=rule.name, on=watch.on, cause=found.cause, window_start=found.window_start, window=watch.window, **told
    )


# What is looked for


def _since(watch: Watch, now: datetime, seen_at: datetime | None) -> datetime:
    """From when on deaths are looked at: of a new rule, those of the present window."""
    if seen_at is None:
        return start_of(now, watch.window)
    return start_of(max(seen_at - timedelta(seconds=watch.window), now - LOOK_BACK), watch.window)


def _dead(storage: Store, watch: Watch, _now: datetime, since: datetime, besides: str) -> Iterator[Situation]:
    yield from deadly(watch, storage.alerts.deaths(since, watch.queue, watch.name, besides, MOST))


def _late(storage: Store, watch: Watch, now: datetime, _since: datetime, _besides: str) -> Iterator[Situation]:
    scope = None if watch.queue is None else (watch.queue,)
    found = storage.history.queue_rows(scope, None, backward=False, limit=MOST)
    rows = [row for row in found if not is_paused(row, now) and row.name != QUEUE]
    most = timedelta(seconds=watch.longer_than or LATE_SECONDS)
    loads = storage.overview.queue_loads([row.name for row in rows])
    for row in rows:
        since = loads[row.name].due_since
        if since is not None and now - since > most:
            waits = _rough(now - since)
            told = {"text": f"The oldest job in {row.name} has waited {waits}", "since": since, "queue": row.name}
            yield Situation(cause_of("queue", row.name), start_of(now, watch.window), told)


def _stale(storage: Store, watch: Watch, now: datetime, _since: datetime, _besides: str) -> Iterator[Situation]:
    for row in storage.overview.recent_workers():
        if liveness(row, now) == "stale":
            text = f"{row.hostname}:{row.pid} was last heard of {_rough(now - row.heartbeat_at)} ago"
            told = {"text": text, "since": row.heartbeat_at, "worker": row.id}
            # In the window of its last sign of life: a worker that is gone is told of once.
            yield Situation(cause_of("worker", row.id), start_of(row.heartbeat_at, watch.window), told)


def _failing(storage: Store, watch: Watch, now: datetime, _since: datetime, _besides: str) -> Iterator[Situation]:
    found = storage.schedules.page(MOST, None)
    rows = [row for row in found if watch.name in (None, row.name) and row.vanished_at is None]
    runs = storage.recent_runs.last_runs([row.id for row in rows], watch.after) if rows else {}
    most = timedelta(seconds=watch.longer_than or LATE_SECONDS)
    for row in rows:
        last = runs.get(row.id, [])
        told: dict[str, Any] = {}
        if len(last) == watch.after and all(one.status == Status.DEAD for one in last):
            number = "last run is" if watch.after == 1 else f"last {watch.after} runs are"
            told = {"text": f"{row.name}: its {number} dead", "count": watch.after, "since": last[-1].occurrence_at}
        elif row.last_error is not None:
            told = {"text": f"{row.name} failed to fire: {row.last_error}"}
        elif not row.paused and row.next_run_at is not None and now - row.next_run_at > most:
            told = {"text": f"{row.name} is {_rough(now - row.next_run_at)} late", "since": row.next_run_at}
        if told:
            told["name"] = row.name
            yield Situation(cause_of("schedule", row.name), start_of(now, watch.window), told)


_FINDERS: dict[str, Callable[[Store, Watch, datetime, datetime, str], Iterator[Situation]]] = {
    "dead": _dead,
    "late": _late,
    "stale-worker": _stale,
    "failing-schedule": _failing,
}


def _rough(span: timedelta) -> str:
    seconds = span.total_seconds()
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"
