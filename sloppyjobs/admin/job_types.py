"""One kind of job: its runs, its failures, its settings. Every read is bounded, however much there is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import cast

import msgspec

from sloppyjobs import errors
from sloppyjobs.admin.deploys import deploy_view
from sloppyjobs.admin.filters import scope_of
from sloppyjobs.admin.presenter import Presenter
from sloppyjobs.admin.run_samples import Run, latest_runs, sample
from sloppyjobs.admin.summaries import MOST_MINUTES, capped, dead_group, stats
from sloppyjobs.admin.workers import live_workers, within
from sloppyjobs.domain import options
from sloppyjobs.domain.spreads import spread
from sloppyjobs.domain.states import Status
from sloppyjobs.enqueue.definitions import Definition, Definitions
from sloppyjobs.schedules.registry import Schedules
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.reads import JobQuery
from sloppyjobs.views import (
    CappedCount,
    DeadGroup,
    DeployComparison,
    DeployView,
    JobTypeSettings,
    JobTypeView,
    MadeBy,
    SlowRun,
)

SLOWEST = 8
CAUSES = 10
FEW = 20
"""Queues, schedules and workers that are named."""
PLACES = 48
"""Queues in which queued jobs are counted, in one statement."""
SCHEDULES = 500
"""Schedules among which those that make it are looked for."""
DEPLOYS = 20
ENOUGH_RUNS = 20
"""Runs that must have begun before and since a deploy, for a comparison."""


class JobTypeAdmin:
    """The part of ``jobs.admin`` that concerns one kind of job."""

    _storage: Store
    _definitions: Definitions
    _schedules: Schedules

    def _presenter(self) -> Presenter:
        raise NotImplementedError

    def get_job_type(self, name: str, *, minutes: int = 60, scope: Iterable[str] | None = None) -> JobTypeView:
        """One kind of job, by its name: what became of it in the last ``minutes``, and how its last 500 runs went.

        ``UnknownJobType`` where no definition, no job, no schedule and no worker knows the name. ``scope`` limits
        everything to these queues.
        """
        wanted = options.text("name", name)
        span = options.whole("minutes", minutes, least=1, most=MOST_MINUTES)
        queues = scope_of(scope)
        self._storage.ensure_schema()
        return self._storage.snapshot(lambda: self._job_type(wanted, span, queues))

    def _job_type(self, name: str, minutes: int, scope: tuple[str, ...] | None) -> JobTypeView:
        storage, presenter = self._storage, self._presenter()
        now = storage.clock.now()
        runs, partial = latest_runs(storage, presenter, name=name, scope=scope)
        places = self._places(name, runs, scope)
        named = storage.overview.named_loads(name, places[:PLACES], scope)
        due = [load.due_since for load in named.queued if load.due_since is not None]
        causes, more_causes = self._causes(name, scope, presenter)
        definition = self._definitions.get(name)
        seen = definition is not None and (scope is None or definition.queue in scope)
        deploys = [deploy_view(row, presenter) for row in storage.deploys.page(None, backward=False, limit=DEPLOYS)]
        view = JobTypeView(
            name=name,
            taken_at=now,
            minutes=minutes,
            stats=stats(storage, minutes, None, name, scope, 0, compare=True),
            queued=_sum([capped(load.queued) for load in named.queued], more=len(places) > PLACES),
            oldest_queued_seconds=max(0.0, (now - min(due)).total_seconds()) if due else None,
            running=capped(named.running),
            scheduled=capped(named.timed),
            dead=_sum([cause.count for cause in causes], more=more_causes),
            sample=sample(runs, partial),
            slowest=_slowest(runs),
            causes=causes[:CAUSES],
            queues=tuple(places[:FEW]),
            schedules=self._made_by(name, scope),
            workers=self._knowing(name, now, scope),
            settings=_settings(definition) if definition is not None and seen else None,
            deploys=_shown(deploys, runs, now - timedelta(minutes=minutes)),
            since_deploy=_since(deploys, runs),
        )
        if not _known(view) and not self._any_job(name, scope):
            raise errors.UnknownJobType(
                f"no job is called {name!r:.200}: none is defined here, none was run lately, and no worker knows it"
            )
        return view

    def _any_job(self, name: str, scope: tuple[str, ...] | None) -> bool:
        """Whether any job is called so, in whatever state."""
        wanted = JobQuery(statuses=tuple(Status), name=name, scope=scope)
        return bool(self._storage.lists.find(wanted, "-created_at", None, backward=False, limit=1).jobs)

    def _places(self, name: str, runs: Sequence[Run], scope: tuple[str, ...] | None) -> list[str]:
        """Queues that it is in: by its definition, by what is queued, by what ran."""
        definition = self._definitions.get(name)
        places = {run.job.queue for run in runs}
        places |= {queue.name for queue in self._storage.overview.queues_in_use(scope) if name in queue.names}
        if definition is not None and (scope is None or definition.queue in scope):
            places.add(definition.queue)
        return sorted(places)

    def _causes(
        self, name: str, scope: tuple[str, ...] | None, presenter: Presenter
    ) -> tuple[tuple[DeadGroup, ...], bool]:
        found = self._storage.dead_groups.causes_of(name, CAUSES + 1, scope)
        groups = [dead_group(cause, presenter) for cause in found]
        return tuple(sorted(groups, key=lambda group: group.count.value, reverse=True)), len(found) > CAUSES

    def _made_by(self, name: str, scope: tuple[str, ...] | None) -> tuple[MadeBy, ...]:
        made = [one for one in self._schedules.page(SCHEDULES, None, scope) if one.job_name == name]
        return tuple(
            MadeBy(schedule=one.name, queue=one.queue, next_run_at=one.next_run_at, paused=one.paused)
            for one in made[:FEW]
        )

    def _knowing(self, name: str, now: datetime, scope: tuple[str, ...] | None) -> tuple[str, ...]:
        live = live_workers(self._storage.history.recent_workers(), now)
        knowing = (one.id for one in live if name in one.names and within(one, scope) is not None)
        return tuple(knowing)[:FEW]


def _slowest(runs: Sequence[Run]) -> tuple[SlowRun, ...]:
    slowest = sorted(runs, key=lambda run: (-run.seconds, run.job.id))[:SLOWEST]
    return tuple(SlowRun(job=run.job, run_seconds=run.seconds, waited_seconds=run.waited) for run in slowest)


def _shown(deploys: Sequence[DeployView], runs: Sequence[Run], start: datetime) -> tuple[DeployView, ...]:
    """Those since the start of the counters, or of the sampled runs where these go further back."""
    first = min((start, *(run.started_at for run in runs)))
    return tuple(one for one in deploys if one.created_at >= first)


def _since(deploys: Sequence[DeployView], runs: Sequence[Run]) -> DeployComparison | None:
    """The run times on both sides of the latest deploy; before it, those since the deploy before."""
    if not deploys:
        return None
    latest, earlier = deploys[0], deploys[1].created_at if len(deploys) > 1 else None
    since = [run.seconds for run in runs if run.started_at >= latest.created_at]
    before = [
        run.seconds
        for run in runs
        if run.started_at < latest.created_at and (earlier is None or run.started_at >= earlier)
    ]
    if min(len(since), len(before)) < ENOUGH_RUNS:
        return None
    return DeployComparison(deploy=latest, before=spread(before), since=spread(since))


def _settings(definition: Definition) -> JobTypeSettings:
    retry = definition.retry
    return JobTypeSettings(
        queue=definition.queue,
        priority=definition.priority,
        max_attempts=retry.max_attempts,
        backoff="callable" if callable(retry.backoff) else retry.backoff,
        backoff_initial=cast(float, retry.initial),
        backoff_maximum=cast(float, retry.maximum),
        jitter=retry.jitter,
        isolation=definition.isolation,
        version=definition.version,
        handled=definition.handler is not None,
        module=getattr(definition.handler, "__module__", None),
        timeout=definition.timeout,
        expires=definition.expires,
        redact=definition.redact,
        tags=() if definition.tags is None else msgspec.json.decode(definition.tags, type=tuple[str, ...]),
        resource=definition.resource,
    )


def _known(view: JobTypeView) -> bool:
    counted = (view.stats.total, view.stats.previous)
    happened = any(one is not None and (one.attempts or one.dead or one.cancelled) for one in counted)
    waiting = any((view.queued, view.running, view.scheduled, view.dead))
    named = view.settings is not None or view.schedules or view.workers or view.sample.runs
    return bool(happened or waiting or named)


def _sum(counts: Sequence[CappedCount], *, more: bool = False) -> CappedCount:
    return CappedCount(sum(count.value for count in counts), more or any(count.capped for count in counts))
