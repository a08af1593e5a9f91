"""Causes of death, and the retries of their jobs."""

from __future__ import annotations

from datetime import datetime

import msgspec

from sloppyjobs.views.job import JobRow
from sloppyjobs.views.page import CappedCount


class RetryRun(msgspec.Struct, frozen=True, kw_only=True):
    """A retry of a cause of death, and what has become of its jobs so far.

    ``kind`` is ``canary`` (a few at once) or ``rest`` (all at a rate, by the workers); ``state`` is ``running``,
    ``finished`` (all were retried) or ``stopped``.
    """

    id: str
    cause: str
    kind: str
    state: str
    wanted: int
    """How many jobs were asked for; of a rest, how many were dead when it began."""
    retried: int
    created_at: datetime
    rate: float | None = None
    """Jobs per minute; None for a canary."""
    actor: str | None = None
    reason: str | None = None
    ended_at: datetime | None = None
    ended_because: str | None = None
    """Why it was stopped."""
    succeeded: int = 0
    died: int = 0
    """Jobs that are dead again."""
    elsewhere: int = 0
    """Those of them that died of another cause."""
    unfinished: int = 0
    """Jobs that run, or wait to."""
    other: int = 0
    """Jobs that were cancelled, deleted or purged."""
    looked: int = 0
    """How many of the jobs, the latest, these five numbers are about."""

    @property
    def outcome(self) -> str:
        """``running`` while a job is unfinished, ``died`` when one died again, else ``succeeded``, or ``other``."""
        if self.state == "running" or self.unfinished:
            return "running"
        return "died" if self.died else "succeeded" if self.succeeded else "other"

    @property
    def words(self) -> str:
        """What has become of the jobs: ``3 succeeded, 2 still running``."""
        parts = (
            (self.died, "died again"),
            (self.succeeded, "succeeded"),
            (self.unfinished, "still running or waiting"),
            (self.other, "cancelled or deleted"),
        )
        return ", ".join(f"{number:,} {words}" for number, words in parts if number) or "nothing yet"


class DeadGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead jobs with one cause: the class of the error, the application's frame that raised it, and the job's name."""

    cause: str
    """The id of the cause, as in ``/dead/<cause>`` and ``admin.get_cause``."""
    error_type: str | None
    error_frame: str | None
    name: str
    count: CappedCount
    first_seen: datetime
    """When the first job died of it, those retried or deleted since included, except in an overview.

    Among those that are dead now, the hundred that were created first are looked at.
    """
    last_seen: datetime
    """When the latest died of it; of the dead, the hundred that were created last are looked at."""
    deaths: int
    """Deaths of jobs that were retried or deleted since, and of those that were counted."""
    example_id: str
    example_name: str
    example_queue: str
    error_code: str | None = None
    error_message: str | None = None
    canary: RetryRun | None = None
    """The last canary; None where there was none, and in an overview."""


class HourOfDeaths(msgspec.Struct, frozen=True):
    """How many jobs died of a cause in one hour."""

    start: datetime
    deaths: int


class CauseJob(msgspec.Struct, frozen=True, kw_only=True):
    """A dead job of a cause: its row, and its last attempt."""

    job: JobRow
    died_at: datetime
    run_seconds: float | None = None
    worker: str | None = None
    canary: bool = False
    """Whether it was in the last canary."""


class CauseView(msgspec.Struct, frozen=True, kw_only=True):
    """A cause of death: a job's name, the class of an error, and the application's frame that raised it."""

    id: str
    name: str
    error_type: str | None
    error_frame: str | None
    dead: CappedCount
    """Jobs that are dead of it now."""
    deaths: int
    """All deaths that are remembered: those of jobs that were retried or deleted, and of the dead."""
    first_seen: datetime | None
    last_seen: datetime | None
    trend: tuple[HourOfDeaths, ...]
    """Deaths per hour, oldest first, none missing."""
    queues: tuple[tuple[str, int], ...] = ()
    """Where the dead are, most frequent first."""
    workers: tuple[tuple[str, int], ...] = ()
    """On which workers the listed jobs died, most frequent first."""
    jobs: tuple[CauseJob, ...] = ()
    """The dead jobs that died last, latest first."""
    partial: bool = False
    """Whether there are more dead than were looked at for the trend, the queues and the jobs."""
    error_code: str | None = None
    error_message: str | None = None
    traceback: str | None = None
    """Of the latest death."""
    canary: RetryRun | None = None
    """The last canary."""
    rest: RetryRun | None = None
    """The last retry of the rest."""

    @property
    def title(self) -> str:
        """The class of the error, or what stands for it."""
        return self.error_type or self.error_code or "No error"
