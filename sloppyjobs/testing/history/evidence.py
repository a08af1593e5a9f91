"""What the invariants are checked against: the log, and the tables as they are in the end.

The tables are read through the store's ports, so every store can be checked that has them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TypeVar

import msgspec

from sloppyjobs.domain.states import Status
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.alerts import AlertRecord
from sloppyjobs.storage.ports.inspection import Inspection
from sloppyjobs.storage.ports.records import (
    AttemptRecord,
    BatchRecord,
    DependencyRecord,
    EventRecord,
    JobRecord,
    LimitRecord,
    ParkedRecord,
    PermitRecord,
    StepRecord,
)
from sloppyjobs.storage.ports.schedules import StoredSchedule
from sloppyjobs.testing.history.entries import Ended, Entry, Started
from sloppyjobs.testing.history.log import METADATA_KEY

E = TypeVar("E", bound=Entry)
R = TypeVar("R", AttemptRecord, EventRecord, StepRecord)

SCHEDULES_A_PAGE = 500

Fence = tuple[str, int]
"""A job's id and the number of an attempt."""


@dataclass(frozen=True)
class Tables:
    """The rows as they are in the end."""

    jobs: Mapping[str, JobRecord]
    attempts: Mapping[str, Sequence[AttemptRecord]]
    """By job, in the order of their numbers."""
    events: Mapping[str, Sequence[EventRecord]]
    """By job, oldest first."""
    archived: Mapping[str, JobRecord] = field(default_factory=dict)
    deleted_from: Mapping[str, str | None] = field(default_factory=dict)
    """The status in which archived jobs were deleted: their events are in the archive, too."""
    schedules: Sequence[StoredSchedule] = ()
    paused_queues: frozenset[str] = frozenset()
    batches: Sequence[BatchRecord] = ()
    dependencies: Sequence[DependencyRecord] = ()
    alerts: Sequence[AlertRecord] = ()
    steps: Mapping[str, Sequence[StepRecord]] = field(default_factory=dict)
    """By job."""
    limits: Sequence[LimitRecord] = ()
    permits: Sequence[PermitRecord] = ()
    parked: Sequence[ParkedRecord] = ()

    @classmethod
    def of_jobs(cls, inspection: Inspection) -> Tables:
        """Jobs, attempts, events and batches: what the conformance suite checks after each of its tests."""
        with _in_one_transaction(inspection) as read:
            return cls._of_jobs(read)

    @classmethod
    def of(cls, store: Store) -> Tables:
        """Everything that is checked."""
        inspection = store.inspection
        with _in_one_transaction(inspection) as together:
            limits, permits, parked = together.limits() if hasattr(together, "limits") else ((), (), ())
            read = replace(
                cls._of_jobs(together),
                dependencies=together.dependencies() if hasattr(together, "dependencies") else (),
                limits=limits,
                permits=permits,
                parked=parked,
            )
        archive = inspection.archive()
        paused = frozenset(queue.name for queue in inspection.queues() if queue.paused_at is not None)
        return replace(
            read,
            archived={one.job.id: one.job for one in archive},
            deleted_from={one.job.id: _deleted_from(one.history) for one in archive},
            schedules=list(_schedules(store)),
            paused_queues=paused,
            alerts=inspection.alerts(),
            steps=_by_job(inspection.steps()),
        )

    @classmethod
    def _of_jobs(cls, read: Inspection) -> Tables:
        return cls(
            {job.id: job for job in read.jobs()},
            _by_job(read.attempts()),
            _by_job(read.events()),
            batches=read.batches() if hasattr(read, "batches") else (),
        )

    @cached_property
    def edges_to(self) -> Mapping[str, Sequence[DependencyRecord]]:
        """The dependencies of each job that has some."""
        found: dict[str, list[DependencyRecord]] = defaultdict(list)
        for edge in self.dependencies:
            found[edge.child_id].append(edge)
        return found

    def known(self) -> Iterator[JobRecord]:
        """Every job, archived ones too."""
        yield from self.jobs.values()
        yield from (job for id, job in self.archived.items() if id not in self.jobs)

    def has(self, job_id: str) -> bool:
        """Whether the job is there, or in the archive."""
        return job_id in self.jobs or job_id in self.archived


def _deleted_from(history: str) -> str | None:
    events = msgspec.json.decode(history)["events"]
    return next((one["from_status"] for one in reversed(events) if one["to_status"] == Status.DELETED), None)


@dataclass(frozen=True)
class Evidence:
    """The log and the tables, and how they are to be compared."""

    tables: Tables
    entries: Sequence[Entry] = ()
    now: datetime | None = None
    """The instant by the store's clock at which the tables were read; None: jobs may be unfinished."""
    clock_skew: timedelta = timedelta()
    """How much the clocks differ by which the store's instants were taken."""

    def of_kind(self, kind: type[E]) -> Iterator[E]:
        """The log's entries of one kind, in order."""
        return (entry for entry in self.entries if isinstance(entry, kind))

    @cached_property
    def jobs_by_token(self) -> Mapping[str, Sequence[str]]:
        """The ids of the jobs that carry a client's token, without those that have it from another job."""
        found: dict[str, list[str]] = defaultdict(list)
        tokens = {job.id: _token(job.metadata) for job in self.tables.known()}
        for job in self.tables.known():
            token = tokens[job.id]
            if token is None:
                continue
            source = source_of(job)
            if source is None or tokens.get(source) != token:
                found[token].append(job.id)
        return found

    @cached_property
    def handlers(self) -> Mapping[str, Sequence[Started | Ended]]:
        """By job, what its handlers wrote, in order."""
        found: dict[str, list[Started | Ended]] = defaultdict(list)
        for entry in self.entries:
            if isinstance(entry, Started | Ended):
                found[entry.job_id].append(entry)
        return found


def _in_one_transaction(inspection: Inspection) -> AbstractContextManager[Inspection]:
    """An inspection whose reads see one state, where the store has that."""
    return inspection.in_one_transaction() if hasattr(inspection, "in_one_transaction") else nullcontext(inspection)


def _by_job(rows: Iterable[R]) -> dict[str, list[R]]:
    found: dict[str, list[R]] = defaultdict(list)
    for row in rows:
        found[row.job_id].append(row)
    return found


def _token(metadata: str | None) -> str | None:
    if metadata is None or f'"{METADATA_KEY}"' not in metadata:
        return None
    try:
        return msgspec.json.decode(metadata, type=_Marked).token
    except msgspec.MsgspecError:
        return None


class _Marked(msgspec.Struct):
    token: str | None = msgspec.field(default=None, name=METADATA_KEY)
    restored_from: str | None = None


def source_of(job: JobRecord) -> str | None:
    """The job whose place this one took, or the archived one of which it was restored: it has that one's terms."""
    if job.supersedes is not None or job.metadata is None:
        return job.supersedes
    return msgspec.json.decode(job.metadata, type=_Marked).restored_from


def _schedules(store: Store) -> Iterator[StoredSchedule]:
    after: str | None = None
    while page := store.schedules.page(SCHEDULES_A_PAGE, after):
        yield from page
        after = page[-1].name
