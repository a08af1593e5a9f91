"""What a worker asks of a store: the ports of claims, settlements and leases, and a few parts beside them."""

from __future__ import annotations

from typing import Protocol

from sloppyjobs.storage.ports import (
    ClaimPort,
    DependencyPort,
    FiringPort,
    LeasePort,
    LogPort,
    ReadPort,
    RedactionPort,
    SchemaPort,
    SettlePort,
    StepPort,
    WorkerPort,
)


class LoopStorage(ClaimPort, SettlePort, LeasePort, ReadPort, Protocol):
    """What the loop and its leases need."""

    @property
    def workers(self) -> WorkerPort:
        """The rows of workers."""
        ...


class ReportStorage(LeasePort, ReadPort, Protocol):
    """What reports of running handlers need."""

    @property
    def logs(self) -> LogPort:
        """The log lines of jobs."""
        ...

    @property
    def dependencies(self) -> DependencyPort:
        """Jobs that wait for other jobs."""
        ...

    @property
    def steps(self) -> StepPort:
        """Steps, sleeps and signals of handlers."""
        ...


class HookStorage(ReadPort, Protocol):
    """What log records and hooks after a settlement need."""

    @property
    def redactions(self) -> RedactionPort:
        """The secret keys of jobs."""
        ...


class WorkerStorage(LoopStorage, ReportStorage, HookStorage, SchemaPort, Protocol):
    """What a whole worker needs."""

    @property
    def firing(self) -> FiringPort:
        """Due schedules."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...
