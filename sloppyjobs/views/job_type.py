"""One kind of job: how long it runs and waits, how often it fails, and where it comes from."""

from __future__ import annotations

from datetime import datetime

import msgspec

from sloppyjobs.domain.spreads import Bin, Spread
from sloppyjobs.views.cause import DeadGroup
from sloppyjobs.views.deploys import DeployComparison, DeployView
from sloppyjobs.views.job import JobRow
from sloppyjobs.views.overview import Stats
from sloppyjobs.views.page import CappedCount


class RunsAt(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that began in one span of time: how long they ran, and how long they had waited."""

    start: datetime
    run: Spread
    wait: Spread


class RunSample(msgspec.Struct, frozen=True, kw_only=True):
    """The last runs of the jobs that finished, those enqueued last, with percentiles and histograms of them."""

    runs: int = 0
    partial: bool = False
    """Whether there are, or may be, more that were not looked at."""
    first_at: datetime | None = None
    """When the first of them began."""
    last_at: datetime | None = None
    run: Spread = Spread()
    """Seconds that they ran."""
    wait: Spread = Spread()
    """Seconds between the moment when they were due and their start."""
    run_bins: tuple[Bin, ...] = ()
    wait_bins: tuple[Bin, ...] = ()
    step_seconds: int = 0
    steps: tuple[RunsAt, ...] = ()
    """The same runs over time, oldest first, none missing."""


class SlowRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that took long."""

    job: JobRow
    run_seconds: float
    waited_seconds: float | None = None


class MadeBy(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that makes jobs of this kind."""

    schedule: str
    queue: str
    next_run_at: datetime | None = None
    paused: bool = False


class JobTypeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a definition says about its jobs, where this process knows it."""

    queue: str
    priority: int
    max_attempts: int
    backoff: str
    """``none``, ``fixed``, ``linear``, ``exponential``, or ``callable`` for a function."""
    backoff_initial: float
    backoff_maximum: float
    jitter: bool
    isolation: str
    version: int
    handled: bool
    """Whether its handler is here; else it is declared here and handled elsewhere."""
    module: str | None = None
    """Where its handler is."""
    timeout: float | None = None
    expires: float | None = None
    redact: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    resource: str | None = None


class JobTypeView(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of job at a glance; what it costs does not grow with history."""

    name: str
    taken_at: datetime
    minutes: int
    """The span of ``stats``."""
    stats: Stats
    queued: CappedCount
    running: CappedCount
    scheduled: CappedCount
    """Scheduled and retrying."""
    dead: CappedCount
    oldest_queued_seconds: float | None = None
    sample: RunSample = RunSample()
    slowest: tuple[SlowRun, ...] = ()
    causes: tuple[DeadGroup, ...] = ()
    """What its dead jobs died of, the most frequent first; at most ten."""
    queues: tuple[str, ...] = ()
    """Where it is queued, was run lately, or goes by its definition; at most 20."""
    schedules: tuple[MadeBy, ...] = ()
    """Among the first 500 schedules by name; at most 20."""
    workers: tuple[str, ...] = ()
    """Live workers that have its handler; at most 20."""
    deploys: tuple[DeployView, ...] = ()
    """Those of the time that is shown, of any application, latest first; at most 20."""
    since_deploy: DeployComparison | None = None
    """Run times before and since the latest deploy; None where too few runs began before or since."""
    settings: JobTypeSettings | None = None
    """None where this process does not know the definition, or its queue is not to be seen."""
