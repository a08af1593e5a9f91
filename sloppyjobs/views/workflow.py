"""A workflow: how it stands, its jobs, and what leads to what."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from sloppyjobs.domain.states import Status
from sloppyjobs.domain.workflows import ENDED, WorkflowStatus

_DONE = (Status.SUCCEEDED, Status.CANCELLED, Status.DELETED)


class WorkflowView(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow as a whole: its status, and how many of its jobs have which. Texts are redacted."""

    id: str
    name: str
    status: WorkflowStatus
    jobs: int
    """How many jobs were written with it."""
    edges: int
    started_at: datetime
    """When it was written: from then on its first jobs are due."""
    finished_at: datetime | None = None
    """When its last job ended; None while it goes on, or may."""
    counts: Mapping[str, int] = {}
    """How many of its jobs have which status; of a workflow that has ended for good, as it was then."""
    correlation_id: str | None = None
    metadata: Mapping[str, Any] = {}
    cancelled_at: datetime | None = None
    """When somebody cancelled it as a whole."""
    cancelled_by: str | None = None
    cancel_reason: str | None = None
    actions: tuple[str, ...] = ()
    """The commands that would do something now: ``cancel``, ``retry``."""

    @property
    def ended(self) -> bool:
        """Whether none of its jobs goes on by itself."""
        return self.status in ENDED

    @property
    def succeeded(self) -> int:
        """How many of its jobs have succeeded."""
        return self.counts.get(Status.SUCCEEDED, 0)

    @property
    def percent(self) -> float:
        """How much of it is over and needs nobody: succeeded, cancelled, deleted or purged."""
        open_jobs = sum(number for status, number in self.counts.items() if status not in _DONE)
        return round(100 * max(0, self.jobs - open_jobs) / self.jobs, 1) if self.jobs else 100.0


class WorkflowJobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a workflow; one of a queue that the viewer does not see has no name, no queue and no id."""

    id: str | None
    name: str | None
    queue: str | None
    status: Status
    attempt_count: int = 0
    max_attempts: int = 0
    finished_at: datetime | None = None
    error_type: str | None = None
    after: tuple[WorkflowLink, ...] = ()
    """What it waits for, up to a bound."""


class WorkflowLink(msgspec.Struct, frozen=True, kw_only=True):
    """A job that another one waits for. ``number`` is its place in the list or graph that it stands in, if it does."""

    job_id: str | None
    name: str | None
    needs: str
    state: str
    """``open``, ``met``, or ``failed`` where the job has ended otherwise."""
    when: str | None = None
    """The comparison with its result, in words."""
    number: int | None = None


class WorkflowGraphView(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of a workflow in the order in which they were added, each with what it waits for."""

    jobs: tuple[WorkflowJobView, ...]
    more: bool = False
    """Whether there are more jobs or dependencies than these."""


class Blocker(msgspec.Struct, frozen=True, kw_only=True):
    """A dead job that holds up others of a workflow."""

    job_id: str | None
    name: str | None
    error_type: str | None = None
    finished_at: datetime | None = None
    waiting: int = 0
    """How many jobs wait for it, up to a bound."""
