"""Looking whether a rule is met. Any number may look at once: each alert is raised once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sloppyjobs.admin.presenter import Presenter
from sloppyjobs.admin.summaries import is_paused
from sloppyjobs.admin.workers import liveness
from sloppyjobs.alerting.deliveries import delivery
from sloppyjobs.alerting.rules import QUEUE, AlertRules, Rule
from sloppyjobs.domain.alerts import LATE_SECONDS, TEXT_LIMIT, Alert, Situation, Watch, by_cause, cause_of, deadly
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
"""Deaths are looked at since the last look, or since this long ago, and in the window before that."""


def evaluate(
    storage: Store, rules: AlertRules, definitions: Definitions, sealing: Sealing, owner: str | None = None
) -> int:
    """Raise what the rules find; how many alerts. With ``owner``, unless another one has just looked."""
    lock = f"sloppy.jobs.alerts:{rules.job_name}"[:128]
    if not rules or (owner is not None and not storage.locks.acquire(lock, owner, LOCK_SECONDS)):
        return 0
    known = storage.alerts.known()
    storage.alerts.declare(rules.records())
    presenter = Presenter(definitions, storage.redactions.by_name())
    raised = 0
    for rule in rules:
        # Asked before anything is read: whatever others raise meanwhile is within the window of this moment.
        now = storage.clock.now()
        before = known.get(rule.name)
        since = _since(rule.watch, now, None if before is None else before.seen_at)
        look = _Look(storage, rule, now, since, rules.job_name, before is not None and before.is_muted(now))
        for found in _FINDERS[rule.watch.on](look):
            alert = _alert(rule, found, now, presenter)
            record, job = delivery(alert, rule.target, rules.job_name, QUEUE)
            [sealed] = sealing.seal_new([job])
            raised += storage.alerts.raise_alert(record, sealed)
    storage.alerts.settle(SETTLED)
    return raised


def _alert(rule: Rule, found: Situation, now: datetime, presenter: Presenter) -> Alert:
    text = presenter.text(found.told.get("name"), found.told["text"]) or ""
    told = {**found.told, "text": clean_text(text, TEXT_LIMIT)}
    return Alert(
        rule=rule.name, on=rule.watch.on, cause=found.cause, window_start=now, window=rule.watch.window, **told
    )


# What is looked for


class _Look(NamedTuple):
    """One look at a rule."""

    storage: Store
    rule: Rule
    now: datetime
    since: datetime
    """From when on deaths are looked at."""
    besides: str
    """The job whose deaths do not count: it delivers alerts."""
    muted: bool

    @property
    def watch(self) -> Watch:
        return self.rule.watch

    def last(self, causes: Iterable[str]) -> dict[str, datetime]:
        """When the window of the last alert of each of these causes began."""
        return self.storage.alerts.last(self.rule.name, sorted(causes), muted=self.muted)

    def untold(self, found: Sequence[Situation]) -> Iterator[Situation]:
        """Those of whose cause nobody was told within the window."""
        last, window = self.last(one.cause for one in found), timedelta(seconds=self.watch.window)
        for one in found:
            if one.cause not in last or self.now >= last[one.cause] + window:
                yield one


def _since(watch: Watch, now: datetime, seen_at: datetime | None) -> datetime:
    """From when on deaths are looked at: of a new rule, those of one window."""
    seen = now if seen_at is None else max(seen_at, now - LOOK_BACK)
    return seen - timedelta(seconds=watch.window)


def _dead(look: _Look) -> Iterator[Situation]:
    watch = look.watch
    deaths = by_cause(look.storage.alerts.deaths(look.since, watch.queue, watch.name, look.besides, MOST))
    yield from deadly(watch, deaths, look.last(deaths))


def _late(look: _Look) -> Iterator[Situation]:
    yield from look.untold(list(_late_queues(look.storage, look.watch, look.now)))


def _late_queues(storage: Store, watch: Watch, now: datetime) -> Iterator[Situation]:
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
            yield Situation(cause_of("queue", row.name), told)


def _stale(look: _Look) -> Iterator[Situation]:
    gone = {cause_of("worker", row.id): row for row in look.storage.history.recent_workers()}
    gone = {cause: row for cause, row in gone.items() if liveness(row, look.now) == "stale"}
    last = look.last(gone)
    for cause, row in gone.items():
        # Told of once since its last sign of life, however long ago that is.
        if cause not in last or last[cause] <= row.heartbeat_at:
            text = f"{row.hostname}:{row.pid} was last heard of {_rough(look.now - row.heartbeat_at)} ago"
            yield Situation(cause, {"text": text, "since": row.heartbeat_at, "worker": row.id})


def _failing(look: _Look) -> Iterator[Situation]:
    yield from look.untold(list(_failing_schedules(look.storage, look.watch, look.now)))


def _failing_schedules(storage: Store, watch: Watch, now: datetime) -> Iterator[Situation]:
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
            yield Situation(cause_of("schedule", row.name), told)


_FINDERS: dict[str, Callable[[_Look], Iterator[Situation]]] = {
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
