"""What the conformance suite and an operator's diagnosis ask of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from sloppyjobs.storage.ports.alerts import AlertRecord
from sloppyjobs.storage.ports.deploys import DeployRow
from sloppyjobs.storage.ports.findings import Finding
from sloppyjobs.storage.ports.records import (
    ArchiveRecord,
    AttemptRecord,
    BatchRecord,
    CounterRecord,
    DependencyRecord,
    EventRecord,
    JobRecord,
    LimitRecord,
    LockRecord,
    LogRecord,
    ParkedRecord,
    PermitRecord,
    QueueRecord,
    StepRecord,
    WorkerRecord,
)


class RowRefused(Exception):
    """The store itself keeps such a value out."""


class DoctorPort(Protocol):
    """What can be wrong with the database; a store has it as ``doctor``."""

    def diagnose(self) -> list[Finding]:
        """Check the schema, the settings and the plans; reads only, and raises nothing."""
        ...


class LocationPort(Protocol):
    """Where the database is, for people and for other processes; a store has it as ``location``."""

    @property
    def shown(self) -> str:
        """Its URL without passwords."""
        ...

    @property
    def url(self) -> str:
        """Its URL as another process needs it, with passwords."""
        ...

    @property
    def file(self) -> Path | None:
        """The file that it is in, and that connecting to it would create; None for a server."""
        ...

    def without_secrets(self, text: str) -> str:
        """A text about the database, such as an error, without the secrets of its URL and without any other."""
        ...


class Inspection(Protocol):
    """What the conformance suite sees of the rows, and what it does to them that no user can.

    A store has it as ``inspection``. The methods of ports that it does not implement may be missing.
    """

    def in_one_transaction(self) -> AbstractContextManager[Inspection]:
        """An inspection whose reads see one moment, or are at least fewer round trips; it may be missing."""
        ...

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

    def dependencies(self) -> list[DependencyRecord]:
        """Every job that another one waits for, by the one that waits."""
        ...

    def limits(self) -> tuple[list[LimitRecord], list[PermitRecord], list[ParkedRecord]]:
        """Every limit by name, every permit that is held, and every job in a line."""
        ...

    def batches(self) -> list[BatchRecord]:
        """Every batch, by id."""
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

    def steps(self) -> list[StepRecord]:
        """Every step, sleep and signal, by job."""
        ...

    def counters(self) -> list[CounterRecord]:
        """The counters of settlements, by minute."""
        ...

    def archive(self) -> list[ArchiveRecord]:
        """Every archived job, by id."""
        ...

    def alerts(self) -> list[AlertRecord]:
        """Every alert, by rule, cause and window."""
        ...

    def deploys(self) -> list[DeployRow]:
        """Every deploy, by number."""
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

    def set_step(self, job_id: str, name: str, **values: Any) -> None:
        """Change a step of a job behind the library's back."""
        ...

    def cancel(self, job_id: str) -> None:
        """Cancel a job as an operator would, with its event."""
        ...
