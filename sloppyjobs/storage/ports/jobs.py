"""What producers and workers ask of a store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from sloppyjobs.domain.model import Claim, Job, NewJob, Settlement, WorkerInfo
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.ports.claims import ClaimRequest, Fence, Sweep, Turns
from sloppyjobs.storage.ports.operators import Command
from sloppyjobs.storage.ports.steps import SignalPort
from sloppyjobs.storage.ports.workflows import WorkflowPort
from sloppyjobs.storage.watcher import Watcher

CallerConnection = Any
"""A connection of the caller's own. The library passes it on to the store, and never uses it."""

Redaction = tuple[str, str]
"""The name of a job and one of its secret keys."""


class SchemaPort(Protocol):
    """The tables themselves."""

    def init(self) -> int:
        """Create or upgrade; idempotent, safe to race; the version."""
        ...

    def schema_version(self) -> int | None:
        """The version that is there, or None."""
        ...

    def ensure_schema(self) -> None:
        """Raise unless the version is the one that this code needs."""
        ...


@runtime_checkable
class EnqueuePort(Protocol):
    """New jobs."""

    def insert_jobs(self, new: Sequence[NewJob], connection: CallerConnection | None = None) -> list[Job]:
        """Write jobs and their first events, all or none; a taken key answers with its job."""
        ...


class ReadPort(Protocol):
    """What is there, and what time it is."""

    @property
    def clock(self) -> Clock:
        """The clock in force."""
        ...

    def get_job(self, job_id: str, connection: CallerConnection | None = None) -> Job:
        """The job with this id, as a caller's transaction sees it where one is given; or ``UnknownJob``."""
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

    def write(self, wanted: Iterable[Redaction], connection: CallerConnection | None = None) -> None:
        """Add secret keys of jobs."""
        ...

    def by_name(self) -> Mapping[str, tuple[str, ...]]:
        """The secret keys by the names of jobs."""
        ...

    @property
    def written(self) -> Set[Redaction]:
        """What is known to be stored: this process need not write it."""
        ...


class WorkerPort(Protocol):
    """Workers' own rows; a store has it as ``workers``."""

    def register(self, worker: WorkerInfo) -> None:
        """A worker begins. An application's version that the latest deploy has not is marked as a deploy, once."""
        ...

    def heartbeat(self, worker: WorkerInfo) -> str | None:
        """A worker lives; what an operator wants of it: ``quiet``, ``stop``, or None."""
        ...

    def want(self, worker_id: str, wanted: str | None, command: Command) -> bool:
        """An operator wants a worker to be quiet or to stop, None to work; False where that is so already."""
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


class CallerStore(EnqueuePort, Protocol):
    """What reads and writes jobs in a caller's transaction."""

    def get_job(self, job_id: str, connection: CallerConnection | None = None) -> Job:
        """The job with this id, as that transaction sees it; or ``UnknownJob``."""
        ...

    @property
    def redactions(self) -> RedactionPort:
        """The secret keys of jobs."""
        ...

    @property
    def workflows(self) -> WorkflowPort:
        """Named graphs of jobs."""
        ...

    @property
    def signals(self) -> SignalPort:
        """Signals to jobs."""
        ...


class CallerPort(Protocol):
    """Transactions of callers; a store that is in a database of the application has it as ``callers``."""

    def storage_for(self, connection: CallerConnection) -> CallerStore:
        """What can write on this connection; ``InvalidOption`` where it leads to another database."""
        ...

    def connection_of(self, session: Any) -> CallerConnection:
        """The connection to this database of a session that may have connections to several."""
        ...
