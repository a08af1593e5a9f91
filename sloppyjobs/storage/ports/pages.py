"""What pages and commands read. Every read is bounded, however much there is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from sloppyjobs.domain.model import Attempt, Event, Job
from sloppyjobs.storage.ports.dependencies import Neighbours
from sloppyjobs.storage.ports.reads import (
    Activity,
    Cause,
    CauseSummary,
    Count,
    DeadJob,
    DeadOfCause,
    DueSchedule,
    Found,
    Held,
    JobQuery,
    JobRow,
    Key,
    Loads,
    LogLine,
    MinuteCounters,
    NamedLoad,
    PastDeaths,
    QueueInUse,
    QueueLoad,
    Ran,
    Scope,
    Surroundings,
    WorkerRow,
)
from sloppyjobs.storage.ports.records import LockRecord, QueueRecord
from sloppyjobs.storage.ports.steps import StepRow


class ListPort(Protocol):
    """Jobs in order; a store has it as ``lists``."""

    def find(
        self, wanted: JobQuery, order: str, after: Key | None, *, backward: bool, limit: int, details: bool = False
    ) -> Found:
        """Up to ``limit`` jobs beyond a key, in ``order`` or backward."""
        ...

    def ids_between(self, head: str, tail: str, limit: int) -> list[str]:
        """The ids that begin and end so, of at most ``limit`` that begin so."""
        ...

    def names_seen(self, queues: int, settlements: int) -> tuple[list[str], list[tuple[str, str]]]:
        """The first so many queues, and queue and name of the jobs in the last so many rows of the counters."""
        ...

    def due(self, names: Collection[str], limit: int) -> list[tuple[str, str]]:
        """The ids and names of the first jobs of these names that are due."""
        ...


class SearchPort(Protocol):
    """Bounded lists in which a part of an id is searched; a store has it as ``search``."""

    def latest_ids(self, limit: int) -> list[str]:
        """The ids of the latest jobs."""
        ...


class HistoryPort(Protocol):
    """Single jobs with what they carry, what belongs to them, and the small tables; a store has it as ``history``."""

    def job_row(self, job_id: str) -> JobRow:
        """The job with what it carries, as it is stored; ``UnknownJob`` where there is none."""
        ...

    def known_job(self, job_id: str) -> Job:
        """The job with this id; within a snapshot that has read it already, that one."""
        ...

    def job_name(self, job_id: str) -> str:
        """The name of the job with this id, or ``UnknownJob``."""
        ...

    def job_attempts(self, job_id: str, after: Key | None, *, backward: bool, limit: int) -> list[Attempt]:
        """A job's attempts beyond a number."""
        ...

    def job_events(self, job_id: str, after: Key | None, *, backward: bool, limit: int) -> list[Event]:
        """A job's events beyond a number."""
        ...

    def job_logs(self, job_id: str, after: Key | None, *, backward: bool, limit: int) -> list[LogLine]:
        """A job's log lines beyond a number."""
        ...

    def job_steps(self, job_id: str, after: Key | None, *, backward: bool, limit: int) -> list[StepRow]:
        """The steps of a job beyond a key of place, kind and name."""
        ...

    def waits(self, job_id: str) -> Sequence[StepRow]:
        """What a suspended job waits for, without any value."""
        ...

    def neighbours(self, job_id: str, limit: int) -> Neighbours:
        """What a job waits for, and what waits for it: up to ``limit`` of each."""
        ...

    def surroundings(self, job: Job) -> Surroundings | None:
        """The job's queue, its latest attempt and its latest event; None where the job is gone."""
        ...

    def recent_workers(self) -> Sequence[WorkerRow]:
        """Workers, those heard of last first."""
        ...

    def lock_rows(self, after: Key | None, *, backward: bool, limit: int) -> list[LockRecord]:
        """Locks by name."""
        ...

    def queue_rows(self, scope: Scope, after: Key | None, *, backward: bool, limit: int) -> list[QueueRecord]:
        """Queues by name."""
        ...

    def worker_row(self, worker_id: str) -> WorkerRow | None:
        """The worker with this id."""
        ...

    def worker_rows(self, after: Key | None, *, backward: bool, limit: int) -> list[WorkerRow]:
        """Workers, those heard of last first."""
        ...


class OverviewPort(Protocol):
    """Counts and summaries; a store has it as ``overview``."""

    def status_loads(self, now: datetime, since: datetime, queues: Scope) -> Loads:
        """How many jobs every status has, and how many of them were created since an instant."""
        ...

    def queue_loads(self, names: Sequence[str]) -> dict[str, QueueLoad]:
        """What is queued in each of these queues."""
        ...

    def queued_in(
        self, places: Sequence[tuple[str, str | None]], others: Sequence[tuple[str, str | None]] = ()
    ) -> list[QueueLoad]:
        """What is queued in each of these queues, or under one name in them; then in each of the others."""
        ...

    def named_loads(self, name: str, places: Sequence[str], queues: Scope) -> NamedLoad:
        """How many jobs of a name are queued in these places, run, and wait for a time: of all queues or of some."""
        ...

    def activity(self, since: datetime) -> Activity:
        """What runs, what waits for a time, and what was settled since an instant, by queue."""
        ...

    def settled_by_minute(
        self, since: datetime, until: datetime, queues: Scope, name: str | None
    ) -> Sequence[MinuteCounters]:
        """What was settled since an instant and before another, by minute."""
        ...

    def queues_in_use(self, among: Scope) -> list[QueueInUse]:
        """Every queue, or every one among some, with names of its queued jobs."""
        ...

    def schedules_due(self, now: datetime, limit: int) -> tuple[list[DueSchedule], list[DueSchedule]]:
        """Schedules that should have fired by now, and those that fire next."""
        ...

    def jobs_ahead(self, job: Job) -> Count:
        """How many queued jobs of the job's queue will be claimed before it."""
        ...


class RecentRunPort(Protocol):
    """What runs now, and what ran last; a store has it as ``recent_runs``."""

    def running_jobs(self, workers: Sequence[str], queues: Scope, most: int) -> Mapping[str, Sequence[Held]]:
        """The jobs that these workers hold, by worker: up to ``most`` of each, those that were claimed first."""
        ...

    def last_runs(self, schedules: Sequence[str], most: int) -> Mapping[str, Sequence[Ran]]:
        """The last jobs of each of these schedules, by the schedule's id, latest occurrence first."""
        ...


class DeadGroupPort(Protocol):
    """Dead jobs by cause; a store has it as ``dead_groups``."""

    def dead_causes(self, limit: int, queues: Scope = None) -> list[CauseSummary]:
        """Up to ``limit`` causes; where some queues only are asked for, those of the newest dead jobs."""
        ...

    def recent_causes(self, limit: int, queues: Scope = None) -> list[CauseSummary]:
        """The most frequent causes among the newest dead jobs."""
        ...

    def causes_of(self, name: str, limit: int, queues: Scope = None) -> list[CauseSummary]:
        """Up to ``limit`` causes of which jobs of a name are dead; of some queues, those of the newest dead jobs."""
        ...

    def dead_cause(self, cause: str, most: int) -> Cause | None:
        """What a cause consists of, where it is among the first ``most`` of which jobs are dead now."""
        ...

    def dead_of(self, cause: Cause, queues: Scope = None) -> DeadOfCause:
        """The dead jobs of one cause, of all queues or of some."""
        ...

    def dead_jobs(self, ids: Sequence[str]) -> Mapping[str, DeadJob]:
        """These jobs, each with what a list shows of it and its last attempt."""
        ...


class DeathPort(Protocol):
    """Deaths of jobs that were retried or deleted since; a store has it as ``deaths``."""

    def past_by_hour(self, cause: str, queues: Scope) -> dict[datetime, PastDeaths]:
        """The deaths of one cause by the hour."""
        ...

    def past_cause(self, cause: str) -> Cause | None:
        """What a cause consists of, where jobs that died of it were retried or deleted."""
        ...
