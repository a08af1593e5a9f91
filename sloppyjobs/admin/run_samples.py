"""How the latest runs of some jobs went: percentiles, histograms, both over time. Every read is bounded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sloppyjobs.admin.filters import scope_of
from sloppyjobs.admin.presenter import Presenter
from sloppyjobs.domain import options
from sloppyjobs.domain.spreads import histogram, spread, steps_between
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.reads import JobQuery
from sloppyjobs.views import JobRow, RunSample, RunsAt

SAMPLE = 500
"""Runs of which percentiles and histograms are made."""


class Run(NamedTuple):
    """One run of a job that has finished."""

    job: JobRow
    started_at: datetime
    seconds: float
    waited: float | None


class RunSampleAdmin:
    """The part of ``jobs.admin`` that measures the latest runs of a queue."""

    _storage: Store

    def _presenter(self) -> Presenter:
        raise NotImplementedError

    def queue_runs(self, name: str, *, scope: Iterable[str] | None = None) -> RunSample:
        """How the last 500 finished jobs of a queue ran and waited, as percentiles, histograms and both over time.

        Nothing is measured where ``scope`` is given and does not hold the queue.
        """
        queue, queues = options.text("queue", name), scope_of(scope)
        self._storage.ensure_schema()
        return sample(*latest_runs(self._storage, self._presenter(), queue=queue, scope=queues))


def latest_runs(
    storage: Store,
    presenter: Presenter,
    *,
    name: str | None = None,
    queue: str | None = None,
    scope: tuple[str, ...] | None,
) -> tuple[list[Run], bool]:
    """The last runs of the jobs that finished, those enqueued last, and whether there may be more."""
    wanted = JobQuery(statuses=(Status.SUCCEEDED, Status.DEAD), name=name, queue=queue, scope=scope)
    found = storage.lists.find(wanted, "-created_at", None, backward=False, limit=SAMPLE, details=True)
    rows = [presenter.row(job, found.details.get(job.id)) for _, job in found.jobs]
    return [run for run in map(_run, rows) if run is not None], found.resume is not None


def _run(row: JobRow) -> Run | None:
    seconds = row.duration
    if row.started_at is None or seconds is None or not math.isfinite(seconds):
        return None
    waited = None if row.run_at is None else max(0.0, (row.started_at - row.run_at).total_seconds())
    return Run(row, row.started_at, max(0.0, seconds), waited)


def sample(runs: Sequence[Run], partial: bool) -> RunSample:
    """What is measured of these runs."""
    if not runs:
        return RunSample(partial=partial)
    ran, waited = _measured(runs)
    first, last = min(run.started_at for run in runs), max(run.started_at for run in runs)
    step, starts = steps_between(first, last)
    return RunSample(
        runs=len(runs),
        partial=partial,
        first_at=first,
        last_at=last,
        run=spread(ran),
        wait=spread(waited),
        run_bins=histogram(ran),
        wait_bins=histogram(waited),
        step_seconds=int(step.total_seconds()),
        steps=tuple(_step(runs, start, step) for start in starts),
    )


def _step(runs: Sequence[Run], start: datetime, step: timedelta) -> RunsAt:
    ran, waited = _measured([run for run in runs if start <= run.started_at < start + step])
    return RunsAt(start=start, run=spread(ran), wait=spread(waited))


def _measured(runs: Sequence[Run]) -> tuple[list[float], list[float]]:
    return [run.seconds for run in runs], [run.waited for run in runs if run.waited is not None]
