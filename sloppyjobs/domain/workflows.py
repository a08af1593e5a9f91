"""Named graphs of jobs: what is accepted, and what their members' statuses say of the whole. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from sloppyjobs.domain.dependencies import EdgeState, Result
from sloppyjobs.domain.model import NewJob
from sloppyjobs.domain.states import FINISHED, Status
from sloppyjobs.errors import InvalidWorkflow

MOST_JOBS = 10_000
"""Jobs in one workflow."""
MOST_EDGES = 100_000
"""Dependencies in one workflow."""


class WorkflowStatus(StrEnum):
    """How a workflow stands as a whole."""

    RUNNING = "running"
    """Some of its jobs are queued or run."""
    WAITING = "waiting"
    """For a time, a signal, a permit, a paused job or a job elsewhere: it goes on without anybody's help."""
    BLOCKED = "blocked"
    """A dead job holds up others: it goes on when somebody retries that job."""
    SUCCEEDED = "succeeded"
    """Everything that was needed has succeeded."""
    FAILED = "failed"
    """It has ended, and jobs of it are dead, or were deleted when they were."""
    CANCELLED = "cancelled"
    """It has ended, and somebody cancelled it, one of its jobs, or a job elsewhere whose success it needed."""


ENDED = frozenset({WorkflowStatus.SUCCEEDED, WorkflowStatus.FAILED, WorkflowStatus.CANCELLED})
"""None of its jobs goes on by itself."""

OPEN = tuple(status for status in Status if status not in FINISHED or status is Status.DEAD)
"""While a member has one of these, the workflow may go on; when none has, it has ended for good."""


class NewWorkflow(msgspec.Struct, frozen=True):
    """A checked workflow on its way into the table, without its jobs."""

    id: str
    name: str
    jobs: int
    edges: int
    correlation_id: str | None = None
    metadata: str | None = None
    """As JSON."""


class Workflow(msgspec.Struct, frozen=True):
    """A workflow as it stands: its row, and what its members say."""

    id: str
    name: str
    status: WorkflowStatus
    jobs: int
    edges: int
    created_at: datetime
    counts: Mapping[str, int]
    """How many members have which status; those that were purged are in none."""
    finished_at: datetime | None = None
    """When its last job ended; None while it has not ended."""
    correlation_id: str | None = None
    metadata: str | None = None
    """As JSON."""
    cancelled_at: datetime | None = None
    cancelled_by: str | None = None
    cancel_reason: str | None = None


class WorkflowJob(msgspec.Struct, frozen=True):
    """A job of a workflow, as much of it as a graph shows."""

    id: str
    name: str
    queue: str
    status: Status
    attempt_count: int = 0
    max_attempts: int = 0
    run_at: datetime | None = None
    finished_at: datetime | None = None
    error_type: str | None = None
    waiting_for: str | None = None


class WorkflowEdge(msgspec.Struct, frozen=True):
    """A dependency inside a workflow, or of one of its jobs on a job elsewhere."""

    parent_id: str
    child_id: str
    needs: str
    """Which end of the parent meets it: ``success``, ``failure`` or ``always``."""
    state: EdgeState
    when: Result | None = None


def check_graph(name: str, new: Sequence[NewJob]) -> int:
    """Raise ``InvalidWorkflow`` for a graph that cannot be written; how many edges it has."""
    if not new:
        raise InvalidWorkflow(f"the workflow {name!r} has no jobs: add at least one")
    if len(new) > MOST_JOBS:
        raise InvalidWorkflow(f"the workflow {name!r} has more than {MOST_JOBS:,} jobs: divide it")
    edges = sum(len(job.terms.depends_on) for job in new)
    if edges > MOST_EDGES:
        raise InvalidWorkflow(
            f"the workflow {name!r} has {edges:,} dependencies; {MOST_EDGES:,} are accepted: let jobs in between gather"
        )
    for option in ("idempotency_key", "business_key"):
        keys = [key for job in new if (key := getattr(job.terms, option)) is not None]
        if len(set(keys)) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise InvalidWorkflow(f"two jobs of the workflow {name!r} have the {option} {twice!r}")
    check_order(new)
    return edges


def check_order(new: Sequence[NewJob]) -> None:
    """Raise ``InvalidWorkflow`` where jobs depend on each other in a circle."""
    here = {job.id for job in new}
    open_parents = {job.id: {edge.parent_id for edge in job.terms.depends_on} & here for job in new}
    children: dict[str, list[str]] = {}
    for child, parents in open_parents.items():
        for parent in parents:
            children.setdefault(parent, []).append(child)
    ready = [job_id for job_id, parents in open_parents.items() if not parents]
    done = 0
    while ready:
        done += 1
        for child in children.get(parent := ready.pop(), ()):
            open_parents[child].discard(parent)
            if not open_parents[child]:
                ready.append(child)
    if done < len(new):
        raise InvalidWorkflow("the jobs depend on each other in a circle: none of them could ever start")
