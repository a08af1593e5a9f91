"""What the layers above ask of a storage: small interfaces, one per responsibility.

A new store is judged port by port, with the parts of ``sloppyjobs.testing.conformance``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sloppyjobs.domain.model import Claim, Job, NewJob, Settlement, WorkerInfo
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.records import (
    ArchiveRecord,
    AttemptRecord,
    CounterRecord,
    EventRecord,
    JobRecord,
    LockRecord,
    LogRecord,
    QueueRecord,
    WorkerRecord,
)
from sloppyjobs.storage.watcher import Watcher

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from sloppyjobs.storage.ports.claims import ClaimRequest, Fence, Sweep, Turns
    from sloppyjobs.storage.redactions import Redaction


class SchemaPort(Protocol):
    """The tables themselves."""

    def init(self) -> int:
        """Create or upgrade; idempotent, safe to race; the version."""
        ...

    def schema_version(self, connection: Connection | None = None) -> int | None:
        """The version that is there, or None."""
        ...

    def ensure_schema(self, connection: Connection | None = None) -> None:
        """Raise unless the version is the one that this code needs."""
        ...


@runtime_checkable
class EnqueuePort(Protocol):
    """New jobs."""

    def insert_jobs(self, new: Sequence[NewJob], connection: Connection | None = None) -> list[Job]:
        """Write jobs and their first events, all or none; a taken key answers with its job."""
        ...


class ReadPort(Protocol):
    """What is there, and what time it is."""

    @property
    def clock(self) -> Clock:
        """The clock in force."""
        ...

    def get_job(self, job_id: str, connection: Connection | None = None) -> Job:
        """The job with this id, or ``UnknownJob``."""
        ...


class ClaimPort(Protocol):
    """Taking work."""

    def sweep(self, limit: int = ...) -> Sweep:
        """Expired leases, then due times; bounded."""
        ...

    def claim(self, request: ClaimRequest) -> list[Claim]:
        """Take queued jobs in order."""
        ...

    def turn(self, settlements: Sequence[Settlement], request: ClaimRequest | None) -> tuple[set[str], Sequence[Claim]]:
        """Settle and claim."""
        ...

    def turns(self) -> Turns:
        """Settle and claim, beginning first and waiting later."""
        ...

    def watch(self) -> Watcher:
        """Wait for news."""
        ...


class SettlePort(Protocol):
    """Finishing work."""

    def settle(self, settlements: Sequence[Settlement]) -> set[str]:
        """Write outcomes, fenced; the ids that were accepted."""
        ...


class LeasePort(Protocol):
    """Keeping work until it is finished."""

    def renew(self, worker_id: str, held: Sequence[Fence], lease: float) -> dict[Fence, datetime]:
        """Extend leases, fenced; the new ends of those that are still held."""
        ...

    def still_held(self, worker_id: str, held: Sequence[Fence]) -> set[Fence]:
        """Which attempts are still the worker's."""
        ...

    def set_progress(
        self, worker_id: str, fence: Fence, percent: float | None, message: str | None, fields: str | None = None
    ) -> bool:
        """Store progress, fenced."""
        ...


class LogPort(Protocol):
    """What handlers logged; a store has it as ``logs``."""

    def write(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Append log lines."""
        ...

    def count(self, job_ids: Collection[str], most: int) -> dict[str, int]:
        """The number of lines of each job, up to a bound."""
        ...

    def record_omitted(self, fence: Fence, number: int) -> None:
        """Say how many lines more were left out."""
        ...


class RedactionPort(Protocol):
    """What must not be shown; a store has it as ``redactions``."""

    def write(self, wanted: Iterable[Redaction], connection: Connection | None = None) -> None:
        """Add secret keys of jobs."""
        ...

    def by_name(self, connection: Connection | None = None) -> Mapping[str, tuple[str, ...]]:
        """The secret keys by the names of jobs."""
        ...

    @property
    def written(self) -> Collection[Redaction]:
        """What this process need not write again."""
        ...


class WorkerPort(Protocol):
    """Workers' own rows; a store has it as ``workers``."""

    def register(self, worker: WorkerInfo) -> None:
        """A worker begins."""
        ...

    def heartbeat(self, worker: WorkerInfo) -> None:
        """A worker lives."""
        ...

    def stop(self, worker_id: str) -> None:
        """A worker leaves."""
        ...


class LockPort(Protocol):
    """Named locks; a store has it as ``locks``."""

    def acquire(self, name: str, owner: str, ttl: float) -> bool:
        """Take a free, expired or own lock."""
        ...

    def extend(self, name: str, owner: str, ttl: float) -> bool:
        """Prolong a held lock."""
        ...

    def release(self, name: str, owner: str) -> bool:
        """Give a held lock back."""
        ...


class Inspection(Protocol):
    """What the conformance suite sees of the rows, and what it does to them that no user can.

    A store has it as ``inspection``. The methods of ports that it does not implement may be missing.
    """

    def job(self, job_id: str) -> JobRecord:
        """The job with this id; ``LookupError`` when there is none."""
        ...

    def jobs(self) -> list[JobRecord]:
        """Every job, by id."""
        ...

    def attempts(self, job_id: str | None = None) -> list[AttemptRecord]:
        """The attempts of a job, or of all, by job and number."""
        ...

    def events(self, job_id: str | None = None) -> list[EventRecord]:
        """The events of a job, or of all, oldest first."""
        ...

    def queues(self) -> list[QueueRecord]:
        """Every queue, by name."""
        ...

    def locks(self) -> list[LockRecord]:
        """Every lock that was taken and not released, by name."""
        ...

    def workers(self) -> list[WorkerRecord]:
        """Every worker, by id."""
        ...

    def logs(self) -> list[LogRecord]:
        """Every log line, oldest first."""
        ...

    def counters(self) -> list[CounterRecord]:
        """The counters of settlements, by minute."""
        ...

    def archive(self) -> list[ArchiveRecord]:
        """Every archived job, by id."""
        ...

    def counts(self) -> Mapping[str, int]:
        """How many rows there are of each kind: ``jobs``, ``attempts``, ``events``, ``queues``, ``schedules`` …"""
        ...

    def add_jobs(self, jobs: Sequence[JobRecord]) -> None:
        """Write jobs as they are, without events."""
        ...

    def set_job(self, job_id: str, **values: Any) -> None:
        """Change a job behind the library's back."""
        ...

    def set_queue(self, name: str, **values: Any) -> None:
        """Change a queue that is there."""
        ...

    def set_schedule(self, name: str, **values: Any) -> None:
        """Change a schedule behind the library's back."""
        ...

    def cancel(self, job_id: str) -> None:
        """Cancel a job as an operator would, with its event."""
        ...
