"""Named graphs of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from sloppyjobs.domain.model import Job, NewJob
from sloppyjobs.domain.states import Status
from sloppyjobs.domain.workflows import NewWorkflow, Workflow, WorkflowEdge, WorkflowJob, WorkflowStatus
from sloppyjobs.storage.ports.operators import Command, Decide, Outcome
from sloppyjobs.storage.ports.reads import Key, Scope


class WorkflowQuery(msgspec.Struct, frozen=True):
    """Which workflows are wanted; those of ``queues`` have a job in one of them."""

    name: str | None = None
    statuses: tuple[WorkflowStatus, ...] | None = None
    correlation_id: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    queues: Scope = None


class FoundWorkflows(NamedTuple):
    """Workflows in the order that was asked for, and the key after which to go on; None at the end."""

    found: Sequence[tuple[Key, Workflow]]
    resume: Key | None


class WorkflowGraph(NamedTuple):
    """The jobs of a workflow and the edges that lead to them, as many as were asked for."""

    jobs: Sequence[WorkflowJob]
    edges: Sequence[WorkflowEdge]
    more: bool
    """Whether there are more of either."""


class WorkflowPort(Protocol):
    """Workflows; a store has it as ``workflows``."""

    def insert(self, workflow: NewWorkflow, new: Sequence[NewJob], connection: Any | None = None) -> list[Job]:
        """Write a workflow and all its jobs, or nothing; ``InvalidWorkflow`` where a parent is unknown."""
        ...

    def get(self, workflow_id: str) -> Workflow:
        """The workflow with this id, or ``UnknownWorkflow``."""
        ...

    def find(self, wanted: WorkflowQuery, after: Key | None, *, backward: bool, limit: int) -> FoundWorkflows:
        """Workflows beyond a key, or backward: open ones first, then newest first.

        A key is 0 for an open one or 1, when it was written, and its id.
        """
        ...

    def jobs(
        self,
        workflow_id: str,
        statuses: Sequence[Status],
        queues: Scope,
        after: Key | None,
        *,
        backward: bool,
        limit: int,
    ) -> tuple[Sequence[WorkflowJob], Key | None]:
        """Jobs of a workflow in the order in which they were added, and the key after which to go on."""
        ...

    def graph(self, workflow_id: str, jobs: int, edges: int) -> WorkflowGraph:
        """Up to so many jobs and edges of a workflow."""
        ...

    def edges_to(self, job_ids: Sequence[str], limit: int) -> Sequence[WorkflowEdge]:
        """Edges that lead to these jobs."""
        ...

    def members(self, job_ids: Sequence[str]) -> dict[str, WorkflowJob]:
        """These jobs, of whatever workflow or of none, as much of each as a graph shows."""
        ...

    def waiting_for(self, job_ids: Sequence[str], limit: int) -> dict[str, int]:
        """How many jobs wait for each of these, up to ``limit`` for each."""
        ...

    def command(
        self, workflow_id: str, statuses: Sequence[Status], decide: Decide, command: Command, *, cancelling: bool
    ) -> list[Outcome]:
        """Decide for each job that has one of these statuses, those that were added last first, in short transactions.

        ``cancelling`` also writes down that the workflow was cancelled, by whom and why.
        """
        ...

    def record_ended(self, limit: int) -> int:
        """Write down how workflows ended whose jobs will not move any more; how many it was."""
        ...

    def remove_empty(self, limit: int) -> int:
        """Remove workflows whose last job was purged; how many it was."""
        ...
