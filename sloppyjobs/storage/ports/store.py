"""A whole store: its flat verbs, and its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from sloppyjobs.storage.ports.ageing import AgeingPort
from sloppyjobs.storage.ports.alerts import AlertPort
from sloppyjobs.storage.ports.archive import ArchivePort
from sloppyjobs.storage.ports.batches import BatchCommandPort, BatchPort, BatchReadPort
from sloppyjobs.storage.ports.commands import (
    AuditPort,
    CleanupPort,
    FormKeyPort,
    RetentionPort,
    RetryRunPort,
    RetryRunRowPort,
    ThrottlePort,
)
from sloppyjobs.storage.ports.dependencies import DependencyPort
from sloppyjobs.storage.ports.deploys import DeployPort
from sloppyjobs.storage.ports.inspection import DoctorPort, Inspection, LocationPort
from sloppyjobs.storage.ports.jobs import (
    CallerPort,
    ClaimPort,
    EnqueuePort,
    LeasePort,
    LockPort,
    LogPort,
    ReadPort,
    RedactionPort,
    SchemaPort,
    SettlePort,
    WorkerPort,
)
from sloppyjobs.storage.ports.limits import LimitPort
from sloppyjobs.storage.ports.pages import (
    DeadGroupPort,
    DeathPort,
    HistoryPort,
    ListPort,
    OverviewPort,
    RecentRunPort,
    SearchPort,
)
from sloppyjobs.storage.ports.patches import PayloadPort
from sloppyjobs.storage.ports.scheduling import FiringPort, SchedulePort
from sloppyjobs.storage.ports.sealed import SealedPort
from sloppyjobs.storage.ports.steps import SignalPort, StepPort
from sloppyjobs.storage.ports.workflows import WorkflowPort

if TYPE_CHECKING:
    from sqlalchemy import Engine

T = TypeVar("T")


class Store(SchemaPort, EnqueuePort, ReadPort, ClaimPort, SettlePort, LeasePort, Protocol):
    """A store with all its ports. One that has only some serves whatever asks for no more."""

    # Producers and workers

    @property
    def redactions(self) -> RedactionPort: ...
    @property
    def callers(self) -> CallerPort: ...
    @property
    def locks(self) -> LockPort: ...
    @property
    def workers(self) -> WorkerPort: ...
    @property
    def logs(self) -> LogPort: ...
    @property
    def dependencies(self) -> DependencyPort: ...
    @property
    def limits(self) -> LimitPort: ...
    @property
    def ageing(self) -> AgeingPort: ...
    @property
    def steps(self) -> StepPort: ...
    @property
    def signals(self) -> SignalPort: ...
    @property
    def workflows(self) -> WorkflowPort: ...
    @property
    def batches(self) -> BatchPort: ...

    # Schedules

    @property
    def schedules(self) -> SchedulePort: ...
    @property
    def firing(self) -> FiringPort: ...

    # Pages

    @property
    def lists(self) -> ListPort: ...
    @property
    def search(self) -> SearchPort: ...
    @property
    def history(self) -> HistoryPort: ...
    @property
    def overview(self) -> OverviewPort: ...
    @property
    def recent_runs(self) -> RecentRunPort: ...
    @property
    def dead_groups(self) -> DeadGroupPort: ...
    @property
    def deaths(self) -> DeathPort: ...
    @property
    def batch_rows(self) -> BatchReadPort: ...

    # Commands

    @property
    def alerts(self) -> AlertPort: ...
    @property
    def archive(self) -> ArchivePort: ...
    @property
    def audit(self) -> AuditPort: ...
    @property
    def deploys(self) -> DeployPort: ...
    @property
    def payloads(self) -> PayloadPort: ...
    @property
    def retry_runs(self) -> RetryRunPort: ...
    @property
    def retry_run_rows(self) -> RetryRunRowPort: ...
    @property
    def form_keys(self) -> FormKeyPort: ...
    @property
    def throttles(self) -> ThrottlePort: ...
    @property
    def batch_commands(self) -> BatchCommandPort: ...

    # Upkeep

    @property
    def retention(self) -> RetentionPort: ...
    @property
    def cleanup(self) -> CleanupPort: ...
    @property
    def sealed(self) -> SealedPort: ...
    @property
    def inspection(self) -> Inspection: ...
    @property
    def doctor(self) -> DoctorPort: ...
    @property
    def location(self) -> LocationPort: ...

    @property
    def engine(self) -> Engine:
        """The SQLAlchemy engine, for applications; the library itself never asks for it here."""
        ...

    def ddl(self) -> str:
        """The statements that create the tables."""
        ...

    def snapshot(self, work: Callable[[], T]) -> T:
        """Run ``work``, whose reads share one transaction and one instant, and which writes nothing."""
        ...

    def with_own_connections(self) -> Store:
        """The same store on connections that nobody else can use up; itself where they are its own already."""
        ...

    def close(self) -> None:
        """Close the connections, where they are the store's own."""
        ...
