"""Workflows as a whole: how they stand, their jobs, and the commands on all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from sloppyjobs import errors
from sloppyjobs.admin.actions import ACTIONS, decision
from sloppyjobs.admin.filters import command_given, moment, scope_of
from sloppyjobs.admin.presenter import Presenter
from sloppyjobs.domain import options
from sloppyjobs.domain.states import FINISHED, Status
from sloppyjobs.domain.workflows import Workflow, WorkflowEdge, WorkflowJob, WorkflowStatus
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.paging import Paging
from sloppyjobs.paging import page_size as checked_size
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.reads import Scope
from sloppyjobs.storage.ports.workflows import WorkflowQuery
from sloppyjobs.views import (
    Blocker,
    BulkResult,
    Page,
    WorkflowGraphView,
    WorkflowJobView,
    WorkflowLink,
    WorkflowView,
)

MOST_DRAWN = 2000
"""Jobs of one graph."""
MOST_LINKS = 10_000
"""Dependencies of one graph."""
LINKS = 2000
"""Dependencies of the jobs of one page."""
BLOCKERS = 5
WAITING = 1000
"""Jobs that are counted behind a blocker."""
SAMPLE = 10
_LIVE = tuple(status for status in Status if status not in FINISHED and status is not Status.FAILED)
_COMMANDS = {"cancel": _LIVE, "retry": (Status.DEAD,)}
"""To which of its jobs a command on a workflow is given."""


class WorkflowAdmin:
    """The part of ``jobs.admin`` that concerns named graphs of jobs."""

    _storage: Store
    _definitions: Definitions

    def _presenter(self) -> Presenter:
        raise NotImplementedError

    def get_workflow(self, id: str, *, scope: Iterable[str] | None = None) -> WorkflowView:
        """The workflow, with how it stands and how many of its jobs have which status.

        ``UnknownWorkflow`` where there is none, or where no job of it is in a queue of ``scope``.
        """
        return self._workflow_view(self._visible(id, scope_of(scope)))

    def list_workflows(
        self,
        status: str | Iterable[str] | None = None,
        *,
        name: str | None = None,
        correlation_id: str | None = None,
        created_from: datetime | str | None = None,
        created_to: datetime | str | None = None,
        cursor: str | None = None,
        page_size: int = 50,
        scope: Iterable[str] | None = None,
    ) -> Page[WorkflowView]:
        """Workflows: those that go on first, then newest first. The range includes its start, not its end.

        ``status`` is one or several of ``running``, ``waiting``, ``blocked``, ``succeeded``, ``failed`` and
        ``cancelled``. ``scope`` limits the list to those with a job in one of these queues.
        """
        wanted = WorkflowQuery(
            name=None if name is None else options.text("name", name),
            statuses=None if status is None else _statuses(status),
            correlation_id=options.key("correlation_id", correlation_id),
            created_from=None if created_from is None else moment("created_from", created_from),
            created_to=None if created_to is None else moment("created_to", created_to),
            queues=scope_of(scope),
        )
        size = checked_size(page_size)
        paging = Paging("workflows", (int, datetime, str), wanted)
        position = paging.position(cursor)
        found = self._storage.workflows.find(wanted, position.after, backward=position.backward, limit=size)
        return paging.page([(key, self._workflow_view(one)) for key, one in found.found], position, found.resume)

    def workflow_jobs(
        self,
        id: str,
        status: str | None = None,
        *,
        cursor: str | None = None,
        page_size: int = 50,
        scope: Iterable[str] | None = None,
    ) -> Page[WorkflowJobView]:
        """The jobs of a workflow in the order in which they were added, each with what it waits for.

        ``scope`` leaves out those of other queues.
        """
        queues = scope_of(scope)
        self._visible(id, queues)
        wanted = tuple(Status) if status is None else (Status(options.one_of("status", status, tuple(Status))),)
        paging = Paging("workflow jobs", (str,), [id, wanted, queues])
        position, size = paging.position(cursor), checked_size(page_size)
        store = self._storage.workflows
        found, resume = store.jobs(id, wanted, queues, position.after, backward=position.backward, limit=size)
        edges = store.edges_to([job.id for job in found], LINKS)
        views = _with_links(found, edges, self._known(edges, found), queues, self._presenter())
        return paging.page([((job.id,), view) for job, view in zip(found, views, strict=True)], position, resume)

    def workflow_graph(self, id: str, *, scope: Iterable[str] | None = None) -> WorkflowGraphView:
        """The first 2,000 jobs of a workflow and what leads to what. ``scope`` leaves names of other queues out."""
        queues = scope_of(scope)
        self._visible(id, queues)
        found = self._storage.workflows.graph(id, MOST_DRAWN, MOST_LINKS)
        known = {job.id: job for job in found.jobs}
        jobs = _with_links(found.jobs, found.edges, known, queues, self._presenter())
        return WorkflowGraphView(jobs=tuple(jobs), more=found.more)

    def workflow_blockers(self, id: str, *, scope: Iterable[str] | None = None) -> tuple[Blocker, ...]:
        """The dead jobs of a workflow, those first that were added first, and how many jobs wait for each."""
        queues = scope_of(scope)
        self._visible(id, queues)
        store = self._storage.workflows
        dead, _ = store.jobs(id, (Status.DEAD,), None, None, backward=False, limit=BLOCKERS)
        waiting = store.waiting_for([job.id for job in dead], WAITING)
        return tuple(
            Blocker(
                job_id=job.id if _seen(job, queues) else None,
                name=job.name if _seen(job, queues) else None,
                error_type=job.error_type if _seen(job, queues) else None,
                finished_at=job.finished_at,
                waiting=waiting[job.id],
            )
            for job in dead
        )

    def cancel_workflow(
        self, id: str, *, actor: str | None = None, reason: str | None = None, scope: Iterable[str] | None = None
    ) -> BulkResult:
        """Cancel every job of a workflow that has not ended; running handlers are told. Dead jobs stay dead.

        Nothing that waits for a failure is started by it. ``InvalidTransition`` where the workflow has jobs in queues
        outside of ``scope``.
        """
        return self._command_workflow("cancel", id, actor, reason, scope)

    def retry_workflow(
        self, id: str, *, actor: str | None = None, reason: str | None = None, scope: Iterable[str] | None = None
    ) -> BulkResult:
        """Retry every dead job of a workflow, each with its full number of attempts; what waits for them goes on.

        Jobs that have succeeded stay so. A job that was cancelled does not come back, and one that waited for a failure
        and has run does not run again.
        """
        return self._command_workflow("retry", id, actor, reason, scope)

    def _command_workflow(
        self, verb: str, id: str, actor: str | None, reason: str | None, scope: Iterable[str] | None
    ) -> BulkResult:
        queues = scope_of(scope)
        self._visible(id, queues)
        if queues is not None and self._has_hidden(id, queues):
            raise errors.InvalidTransition(
                f"workflow {id} has jobs in queues that you do not see: somebody who sees them all can {verb} it",
                command=verb,
            )
        command = command_given(f"{verb}_workflow", actor, reason)
        decide = decision(ACTIONS[verb], self._definitions)
        outcomes = self._storage.workflows.command(id, _COMMANDS[verb], decide, command, cancelling=verb == "cancel")
        done = [one.job_id for one in outcomes if one.skipped is None]
        return BulkResult(
            action=f"{verb}_workflow",
            dry_run=False,
            matched=len(outcomes),
            more=False,
            done=len(done),
            skipped=dict(Counter(one.skipped for one in outcomes if one.skipped is not None)),
            sample_ids=tuple(done[:SAMPLE]),
        )

    def _visible(self, id: str, queues: Scope) -> Workflow:
        found = self._storage.workflows.get(id)
        if queues is not None:
            jobs, resume = self._storage.workflows.jobs(id, tuple(Status), queues, None, backward=False, limit=1)
            if not jobs and resume is None:
                raise errors.UnknownWorkflow(f"no workflow has the id {id!r}; its jobs may have been purged")
        return found

    def _has_hidden(self, id: str, queues: Sequence[str]) -> bool:
        after = None
        while True:
            jobs, after = self._storage.workflows.jobs(id, tuple(Status), None, after, backward=False, limit=500)
            if any(job.queue not in queues for job in jobs):
                return True
            if after is None:
                return False

    def _known(self, edges: Sequence[WorkflowEdge], found: Sequence[WorkflowJob]) -> dict[str, WorkflowJob]:
        """The jobs at both ends of these edges."""
        known = {job.id: job for job in found}
        missing = sorted({edge.parent_id for edge in edges} - known.keys())
        return known | self._storage.workflows.members(missing)

    def _workflow_view(self, found: Workflow) -> WorkflowView:
        presenter = self._presenter()
        counts = found.counts
        actions = [verb for verb, statuses in _COMMANDS.items() if any(counts.get(status) for status in statuses)]
        return WorkflowView(
            id=found.id,
            name=found.name,
            status=found.status,
            jobs=found.jobs,
            edges=found.edges,
            started_at=found.created_at,
            finished_at=found.finished_at,
            counts=dict(counts),
            correlation_id=presenter.text(None, found.correlation_id),
            metadata=presenter.mapping(None, found.metadata),
            cancelled_at=found.cancelled_at,
            cancelled_by=presenter.text(None, found.cancelled_by),
            cancel_reason=presenter.text(None, found.cancel_reason),
            actions=tuple(actions),
        )


def _with_links(
    jobs: Sequence[WorkflowJob],
    edges: Sequence[WorkflowEdge],
    known: dict[str, WorkflowJob],
    queues: Scope,
    presenter: Presenter,
) -> list[WorkflowJobView]:
    numbers = {job.id: number for number, job in enumerate(jobs)}
    links: dict[str, list[WorkflowLink]] = {}
    for edge in edges:
        links.setdefault(edge.child_id, []).append(_link(edge, known.get(edge.parent_id), numbers, queues, presenter))
    return [_job_view(job, tuple(links.get(job.id, ())), queues) for job in jobs]


def _link(
    edge: WorkflowEdge, parent: WorkflowJob | None, numbers: dict[str, int], queues: Scope, presenter: Presenter
) -> WorkflowLink:
    seen = parent is not None and _seen(parent, queues)
    return WorkflowLink(
        job_id=edge.parent_id if seen else None,
        name=parent.name if parent is not None and seen else None,
        needs=edge.needs,
        state=edge.state.name.lower(),
        when=None if edge.when is None or parent is None or not seen else presenter.comparison(parent.name, edge.when),
        number=numbers.get(edge.parent_id),
    )


def _job_view(job: WorkflowJob, after: tuple[WorkflowLink, ...], queues: Scope) -> WorkflowJobView:
    if not _seen(job, queues):
        return WorkflowJobView(id=None, name=None, queue=None, status=job.status, after=after)
    return WorkflowJobView(
        id=job.id,
        name=job.name,
        queue=job.queue,
        status=job.status,
        attempt_count=job.attempt_count,
        max_attempts=job.max_attempts,
        finished_at=job.finished_at,
        error_type=job.error_type,
        after=after,
    )


def _seen(job: WorkflowJob, queues: Scope) -> bool:
    return queues is None or job.queue in queues


def _statuses(value: object) -> tuple[WorkflowStatus, ...]:
    given = (value,) if isinstance(value, str) else value
    if not isinstance(given, Iterable):
        raise options.refuse("status", value, "must be a status of workflows, or a list of them")
    found = {options.one_of("status", one, tuple(map(str, WorkflowStatus))) for one in given}
    if not found:
        raise options.refuse("status", value, "must name at least one status")
    return tuple(status for status in WorkflowStatus if status in found)
