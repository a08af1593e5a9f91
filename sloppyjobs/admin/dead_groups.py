"""Causes of death: what died of each, what its retries came to, and the retries themselves."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from sloppyjobs import errors
from sloppyjobs.admin.actions import ACTIONS, decision
from sloppyjobs.admin.filters import command_given, scope_of
from sloppyjobs.admin.presenter import Presenter
from sloppyjobs.admin.summaries import capped, dead_group
from sloppyjobs.domain import causes, options
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.ids import Ids
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.operators import Asked, Run, Tally
from sloppyjobs.storage.ports.reads import Cause, DeadOfCause, PastDeaths
from sloppyjobs.views import CauseJob, CauseView, DeadGroup, HourOfDeaths, RetryRun

MOST_CAUSES = 500
MOST_CANARIES = 1_000
HIGHEST_RATE = 6_000
TREND_HOURS = 48
_HOUR = timedelta(hours=1)
_ids = Ids(lambda: time.time_ns() // 1_000_000)


def advance_retry_runs(storage: Store, definitions: Definitions) -> int:
    """Retry what is due of every running retry of a cause; how many jobs that was. Safe from anywhere, at any time."""
    decide = decision(ACTIONS["retry"], definitions)
    return sum(storage.retry_runs.advance(run_id, decide) for run_id in storage.retry_run_rows.due())


class CauseAdmin:
    """The part of ``jobs.admin`` that concerns causes of death."""

    _storage: Store
    _definitions: Definitions

    def dead_groups(self, limit: int = 50, *, queues: Iterable[str] | None = None) -> tuple[DeadGroup, ...]:
        """Dead jobs by cause and name, most frequent first. ``limit`` is from 1 to 500.

        With ``queues``, the causes of these queues' jobs among the newest dead jobs of all.
        """
        most = options.whole("limit", limit, least=1, most=MOST_CAUSES)
        scope, presenter = scope_of(queues), self._presenter()
        groups = [dead_group(cause, presenter) for cause in self._storage.dead_groups.dead_causes(most, scope)]
        ids = [group.cause for group in groups]
        asked = [(id, "canary") for id in ids]
        canaries = self._storage.snapshot(lambda: self._latest(asked, scope, presenter))
        groups = [msgspec.structs.replace(group, canary=canaries.get((group.cause, "canary"))) for group in groups]
        return tuple(sorted(groups, key=lambda group: group.count.value, reverse=True))

    def get_cause(self, cause: str, *, scope: Iterable[str] | None = None, jobs: int = 50) -> CauseView:
        """One cause, by the id that ``DeadGroup.cause`` and ``cause_id`` give; ``UnknownCause`` where none is known.

        ``jobs`` is how many of its dead jobs are listed, from 1 to 500. Of a cause that nobody has died of any more,
        deaths and retries of the last 90 days are known. ``scope`` limits it to these queues.
        """
        most = options.whole("jobs", jobs, least=1, most=500)
        queues = scope_of(scope)
        self._storage.ensure_schema()
        return self._storage.snapshot(lambda: self._view(cause, queues, most))

    def retry_canary(
        self,
        cause: str,
        count: int,
        *,
        actor: str | None = None,
        reason: str | None = None,
        scope: Iterable[str] | None = None,
    ) -> RetryRun:
        """Retry the oldest ``count`` (1 to 1,000) dead jobs of a cause at once, and remember which they were.

        ``InvalidTransition`` where none is dead any more.
        """
        most = options.whole("count", count, least=1, most=MOST_CANARIES)
        run = self._storage.retry_runs.begin_canary(self._asked("retry_canary", cause, actor, reason, scope), most)
        return self._shown_run(run)

    def retry_rest(
        self,
        cause: str,
        rate: int,
        *,
        actor: str | None = None,
        reason: str | None = None,
        scope: Iterable[str] | None = None,
    ) -> RetryRun:
        """Let the workers retry every job that is dead of a cause now, oldest first, ``rate`` (1 to 6,000) a minute.

        It stops by itself when three in a row die again, and it waits while its jobs do not finish. Processes may end
        and start meanwhile. ``InvalidTransition`` where none is dead, or a retry of this cause is running.
        """
        jobs_per_minute = options.whole("rate", rate, least=1, most=HIGHEST_RATE)
        run = self._storage.retry_runs.begin_rest(
            self._asked("retry_rest", cause, actor, reason, scope), jobs_per_minute
        )
        return self._shown_run(run)

    def stop_retry_run(
        self, id: str, *, actor: str | None = None, reason: str | None = None, scope: Iterable[str] | None = None
    ) -> RetryRun:
        """Stop a retry of the rest; what was retried stays so. One that has ended is returned as it is."""
        found = self._storage.retry_run_rows.get(options.text("id", id))
        if found is None or not found.seen_by(scope_of(scope)):
            raise errors.UnknownCause(f"no retry of a cause has the id {id!r:.200}")
        self._storage.retry_runs.stop(found.id, command_given("stop_retry", actor, reason))
        run = self._storage.retry_run_rows.get(found.id) or found
        return self._shown_run(run)

    def advance_retry_runs(self) -> int:
        """Retry what is due of every running ``retry_rest``; workers do it by themselves. How many jobs that was."""
        return advance_retry_runs(self._storage, self._definitions)

    def _presenter(self) -> Presenter:
        return Presenter(self._definitions, self._storage.redactions.by_name())

    # Causes

    def _asked(
        self, action: str, cause: str, actor: str | None, reason: str | None, scope: Iterable[str] | None
    ) -> Asked:
        queues = scope_of(scope)
        self._storage.ensure_schema()
        parts = self._storage.snapshot(lambda: self._parts(cause))
        decide = decision(ACTIONS["retry"], self._definitions)
        return Asked(_ids.new("retry"), parts, queues, decide, command_given(action, actor, reason))

    def _parts(self, cause: str) -> Cause:
        """What a cause consists of: from what is remembered of it, else from what is dead now."""
        storage = self._storage
        found = None
        if causes.possible_id(cause):
            found = storage.deaths.past_cause(cause) or storage.retry_run_rows.run_cause(cause)
            found = found or storage.dead_groups.dead_cause(cause, MOST_CAUSES)
        if found is None:
            raise unknown_cause(cause)
        return found

    def _view(self, cause: str, scope: tuple[str, ...] | None, most: int) -> CauseView:
        storage = self._storage
        parts = self._parts(cause)
        dead = storage.dead_groups.dead_of(parts, scope)
        past = storage.deaths.past_by_hour(cause, scope)
        presenter = self._presenter()
        runs = self._latest([(cause, "canary"), (cause, "rest")], scope, presenter)
        canary, rest = runs.get((cause, "canary")), runs.get((cause, "rest"))
        if not dead.deaths and not past and canary is None and rest is None:
            raise unknown_cause(cause)
        members = set() if canary is None else set(storage.retry_run_rows.member_ids(canary.id))
        listed = self._listed(dead, members, most, presenter)
        times = [one.died_at for one in dead.deaths]
        first = [one.first_at for one in past.values()] + ([dead.first_at] if dead.first_at else [])
        newest = listed[0].job if listed else None
        traceback = None if newest is None else self._traceback(newest.id, newest.name, presenter)
        return CauseView(
            id=cause,
            name=parts[2],
            error_type=parts[0],
            error_frame=parts[1],
            dead=capped(dead.jobs),
            deaths=dead.jobs.number + sum(one.deaths for one in past.values()),
            first_seen=min(first, default=None),
            last_seen=max([*times, *(one.last_at for one in past.values())], default=None),
            trend=_trend(storage.clock.now(), times, past),
            queues=tuple(Counter(one.queue for one in dead.deaths).most_common(10)),
            workers=tuple(Counter(one.worker for one in listed if one.worker is not None).most_common(5)),
            jobs=tuple(listed),
            partial=len(dead.deaths) < dead.jobs.number or dead.jobs.more,
            error_code=None if newest is None else newest.error_code,
            error_message=None if newest is None else newest.error_message,
            traceback=traceback,
            canary=canary,
            rest=rest,
        )

    def _listed(self, dead: DeadOfCause, canaries: set[str], most: int, presenter: Presenter) -> list[CauseJob]:
        """The jobs that died last, as rows with their last attempts."""
        latest = sorted(dead.deaths, key=lambda one: (one.died_at, one.id), reverse=True)[:most]
        found = self._storage.dead_groups.dead_jobs([one.id for one in latest])
        shown = []
        for one in latest:
            if one.id in found:
                job, details, attempt = found[one.id]
                run = _LastRun() if attempt is None else _LastRun(*attempt)
                row = presenter.row(job, details)
                shown.append(
                    CauseJob(
                        job=row,
                        died_at=one.died_at,
                        run_seconds=run.seconds,
                        worker=run.worker,
                        canary=one.id in canaries,
                    )
                )
        return shown

    def _traceback(self, job_id: str, name: str, presenter: Presenter) -> str | None:
        latest = self._storage.history.job_attempts(job_id, None, backward=True, limit=1)
        return presenter.text(name, latest[0].traceback) if latest else None

    # Runs

    def _latest(
        self,
        asked: Sequence[tuple[str, str]],
        scope: tuple[str, ...] | None,
        presenter: Presenter,
    ) -> dict[tuple[str, str], RetryRun]:
        """The latest run of each cause and kind, in two statements."""
        runs = self._storage.retry_run_rows.latest(asked, scope)
        return {(run.cause, run.kind): run for run in self._shown_runs(runs, presenter)}

    def _shown_run(self, run: Run) -> RetryRun:
        presenter = self._presenter()
        return self._shown_runs([run], presenter)[0]

    def _shown_runs(self, runs: Sequence[Run], presenter: Presenter) -> list[RetryRun]:
        tallies = self._storage.retry_run_rows.tallies(runs)
        return [_shown_run(run, tally, presenter) for run, tally in zip(runs, tallies, strict=True)]


class _LastRun(NamedTuple):
    seconds: float | None = None
    worker: str | None = None


def unknown_cause(cause: object) -> errors.UnknownCause:
    """The error for an id that no known cause has."""
    return errors.UnknownCause(f"no cause of death has the id {cause!r:.200}")


def _shown_run(run: Run, tally: Tally, presenter: Presenter) -> RetryRun:
    return RetryRun(
        id=run.id,
        cause=run.cause,
        kind=run.kind,
        state=run.state,
        wanted=run.wanted,
        retried=run.retried,
        created_at=run.created_at,
        rate=run.rate,
        actor=presenter.text(None, run.actor),
        reason=presenter.text(None, run.reason),
        ended_at=run.ended_at,
        ended_because=run.ended_because,
        succeeded=tally.fates.succeeded,
        died=tally.fates.died,
        elsewhere=tally.elsewhere,
        unfinished=tally.fates.unfinished,
        other=tally.fates.other,
        looked=tally.looked,
    )


def _trend(now: datetime, died: Sequence[datetime], past: dict[datetime, PastDeaths]) -> tuple[HourOfDeaths, ...]:
    last = now.replace(minute=0, second=0, microsecond=0)
    counts = Counter({hour: one.deaths for hour, one in past.items()})
    counts.update(one.replace(minute=0, second=0, microsecond=0) for one in died)
    starts = (last - _HOUR * ago for ago in range(TREND_HOURS - 1, -1, -1))
    return tuple(HourOfDeaths(start, counts[start]) for start in starts)
