"""What the admin service answers: frozen values, already redacted, ready for a page, a table or JSON.

Pure: no I/O, no clock. No value here ever carries a raw payload.
"""

from sloppyjobs.views.alerts import AlertRuleView, AlertView
from sloppyjobs.views.archive import ArchivedRow, ArchivedView
from sloppyjobs.views.batches import BatchCallback, BatchView
from sloppyjobs.views.cause import CauseJob, CauseView, DeadGroup, HourOfDeaths, RetryRun
from sloppyjobs.views.deploys import DeployComparison, DeployView
from sloppyjobs.views.job import (
    AttemptView,
    BulkResult,
    DependenciesView,
    DependencyView,
    EventView,
    Explanation,
    JobRow,
    JobView,
    LogView,
    Reason,
    StepView,
)
from sloppyjobs.views.job_type import JobTypeSettings, JobTypeView, MadeBy, RunSample, RunsAt, SlowRun
from sloppyjobs.views.limits import FullPartition, LimitDetails, LimitView, PartitionView, PermitView
from sloppyjobs.views.operations import AuditEntry, LockView, Occurrence, QueueView, RunningJob, WorkerView
from sloppyjobs.views.overview import Attention, BusyQueue, Fire, Overview, Stats, StatsBucket, StatusCount, Unhandled
from sloppyjobs.views.page import CappedCount, Page
from sloppyjobs.views.workflow import Blocker, WorkflowGraphView, WorkflowJobView, WorkflowLink, WorkflowView

__all__ = [
    "AlertRuleView",
    "AlertView",
    "ArchivedRow",
    "ArchivedView",
    "AttemptView",
    "Attention",
    "AuditEntry",
    "BatchCallback",
    "BatchView",
    "Blocker",
    "BulkResult",
    "BusyQueue",
    "CappedCount",
    "CauseJob",
    "CauseView",
    "DeadGroup",
    "DependenciesView",
    "DependencyView",
    "DeployComparison",
    "DeployView",
    "EventView",
    "Explanation",
    "Fire",
    "FullPartition",
    "HourOfDeaths",
    "JobRow",
    "JobTypeSettings",
    "JobTypeView",
    "JobView",
    "LimitDetails",
    "LimitView",
    "LockView",
    "LogView",
    "MadeBy",
    "Occurrence",
    "Overview",
    "Page",
    "PartitionView",
    "PermitView",
    "QueueView",
    "Reason",
    "RetryRun",
    "RunSample",
    "RunningJob",
    "RunsAt",
    "SlowRun",
    "Stats",
    "StatsBucket",
    "StatusCount",
    "StepView",
    "Unhandled",
    "WorkerView",
    "WorkflowGraphView",
    "WorkflowJobView",
    "WorkflowLink",
    "WorkflowView",
]
