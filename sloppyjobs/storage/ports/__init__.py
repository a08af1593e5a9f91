"""What the layers above ask of a store: small interfaces, one per responsibility, and the values that they speak of.

Code above ``sloppyjobs.storage`` names nothing else of it. A new store is judged port by port, with the parts of
``sloppyjobs.testing.conformance``.

| the ports of | are in |
|---|---|
| producers and workers | ``jobs.py``, values in ``claims.py`` |
| jobs that wait for others | ``dependencies.py`` |
| steps, sleeps and signals of handlers | ``steps.py`` |
| named graphs of jobs | ``workflows.py`` |
| jobs that are counted together | ``batches.py`` |
| the scheduler | ``scheduling.py``, values in ``schedules.py`` |
| pages | ``pages.py``, values in ``reads.py`` |
| operators, and upkeep | ``commands.py``, values in ``operators.py`` |
| alerts | ``alerts.py`` |
| the archive | ``archive.py`` |
| deploys | ``deploys.py`` |
| payloads that are changed | ``patches.py`` |
| the conformance suite and diagnosis | ``inspection.py``, values in ``records.py`` and ``findings.py`` |

``Store`` in ``store.py`` says which of them a whole store has, and under which names.
"""

from __future__ import annotations

from sloppyjobs.storage.acting_task import on_behalf_of_task
from sloppyjobs.storage.answer_timeout import MAINTENANCE, answer_timeout
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.ports.alerts import AlertPort
from sloppyjobs.storage.ports.archive import ArchivePort
from sloppyjobs.storage.ports.batches import BatchCommandPort, BatchPort, BatchReadPort
from sloppyjobs.storage.ports.claims import Turns
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
    CallerConnection,
    CallerPort,
    CallerStore,
    ClaimPort,
    EnqueuePort,
    LeasePort,
    LockPort,
    LogPort,
    ReadPort,
    Redaction,
    RedactionPort,
    SchemaPort,
    SettlePort,
    WorkerPort,
)
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
from sloppyjobs.storage.ports.steps import SignalPort, StepPort
from sloppyjobs.storage.ports.store import Store
from sloppyjobs.storage.ports.workflows import WorkflowPort
from sloppyjobs.storage.unavailable import DatabaseError, may_recover
from sloppyjobs.storage.watcher import Watcher

__all__ = [
    "MAINTENANCE",
    "AlertPort",
    "ArchivePort",
    "AuditPort",
    "BatchCommandPort",
    "BatchPort",
    "BatchReadPort",
    "CallerConnection",
    "CallerPort",
    "CallerStore",
    "ClaimPort",
    "CleanupPort",
    "Clock",
    "DatabaseError",
    "DeadGroupPort",
    "DeathPort",
    "DependencyPort",
    "DeployPort",
    "DoctorPort",
    "EnqueuePort",
    "FiringPort",
    "FormKeyPort",
    "HistoryPort",
    "Inspection",
    "LeasePort",
    "ListPort",
    "LocationPort",
    "LockPort",
    "LogPort",
    "OverviewPort",
    "PayloadPort",
    "ReadPort",
    "RecentRunPort",
    "Redaction",
    "RedactionPort",
    "RetentionPort",
    "RetryRunPort",
    "RetryRunRowPort",
    "SchedulePort",
    "SchemaPort",
    "SearchPort",
    "SettlePort",
    "SignalPort",
    "StepPort",
    "Store",
    "ThrottlePort",
    "Turns",
    "Watcher",
    "WorkerPort",
    "WorkflowPort",
    "answer_timeout",
    "may_recover",
    "on_behalf_of_task",
]
