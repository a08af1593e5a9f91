"""Reads of workflows: bounded, from indexes of workflows and of their members."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, select

from sloppyjobs import errors
from sloppyjobs.domain import options
from sloppyjobs.domain.dependencies import EdgeState, comparison
from sloppyjobs.domain.states import Status
from sloppyjobs.domain.stored_words import known_or
from sloppyjobs.domain.workflows import ENDED, Workflow, WorkflowEdge, WorkflowJob, WorkflowStatus
from sloppyjobs.storage.database import Database, bounded_read
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.ports.reads import Key, Scope
from sloppyjobs.storage.ports.workflows import FoundWorkflows, WorkflowGraph, WorkflowQuery
from sloppyjobs.storage.reads.keyset import Filter, Keyset, Scan
from sloppyjobs.storage.schema.column_types import NAME_LENGTH
from sloppyjobs.storage.workflows.status import OPEN_ROW, RECORDED, WorkflowState, as_number

CHUNK = 500
"""Ids in one statement."""
_MEMBER = WorkflowJob.__struct_fields__


class WorkflowReads:
    """What is there."""

    def __init__(self, database: Database, keyset: Keyset) -> None:
        self.database = database
        self.tables = database.tables
        self.keyset = keyset
        self.state = WorkflowState(database.tables)

    def get(self, workflow_id: str) -> Workflow:
        """The workflow with this id, or ``UnknownWorkflow``."""
        self.database.ensure_schema()
        found = self._get(possible_id(workflow_id))
        if found is None:
            raise unknown(workflow_id)
        return found

    @bounded_read
    def _get(self, connection: Connection, workflow_id: str) -> Workflow | None:
        # A page that has read it already does not ask again.
        seen = self.database.seen()
        key = ("workflow", workflow_id)
        if key not in seen:
            seen[key] = next(iter(self.read(connection, [workflow_id]).values()), None)
        found: Workflow | None = seen[key]
        return found

    def read(self, connection: Connection, ids: Sequence[str]) -> dict[str, Workflow]:
        """These workflows, as they stand."""
        table = self.tables.workflows
        found: list[Row[Any]] = []
        for chunk in _chunks(ids):
            query = select(table, self.state.effective.label("stands")).where(table.c.id.in_(chunk))
            found += connection.execute(query).all()
        open_ones = [row.id for row in found if row.status not in RECORDED]
        counts = self.counts(connection, open_ones)
        ended = [row.id for row in found if row.status not in RECORDED and WorkflowStatus(row.stands) in ENDED]
        ends = self.ends(connection, ended)
        return {row.id: _workflow(row, counts.get(row.id, {}), ends.get(row.id)) for row in found}

    def counts(self, connection: Connection, ids: Sequence[str]) -> dict[str, dict[str, int]]:
        """How many members of each workflow have which status."""
        c = self.tables.jobs.c
        found: dict[str, dict[str, int]] = defaultdict(dict)
        for chunk in _chunks(ids):
            query = select(c.workflow_id, c.status, func.count()).where(c.workflow_id.in_(chunk))
            for workflow_id, status, number in connection.execute(query.group_by(c.workflow_id, c.status)):
                found[workflow_id][status] = number
        return found

    def ends(self, connection: Connection, ids: Sequence[str]) -> dict[str, datetime]:
        """When the last member of each workflow ended."""
        c = self.tables.jobs.c
        found: dict[str, datetime] = {}
        for chunk in _chunks(ids):
            query = select(c.workflow_id, func.max(c.finished_at)).where(c.workflow_id.in_(chunk))
            found |= {row[0]: row[1] for row in connection.execute(query.group_by(c.workflow_id))}
        return found

    def find(self, wanted: WorkflowQuery, after: Key | None, *, backward: bool, limit: int) -> FoundWorkflows:
        """Workflows beyond a key, open ones first and then newest first, or backward."""
        self.database.ensure_schema()
        return self._find(wanted, after, backward, limit)

    @bounded_read
    def _find(
        self, connection: Connection, wanted: WorkflowQuery, after: Key | None, backward: bool, limit: int
    ) -> FoundWorkflows:
        groups = list(enumerate(_open_first(wanted.statuses or tuple(WorkflowStatus))))
        if backward:
            groups.reverse()
        if after is not None:
            groups = [one for one in groups if (one[0] <= after[0] if backward else one[0] >= after[0])]
        keys: list[Key] = []
        resume: Key | None = None
        for number, statuses in groups:
            beyond = after[1:] if after is not None and number == after[0] else None
            scans = list(self._scans(wanted, statuses)) if statuses else []
            # One more than fit, where the page is full: whether it is the last one.
            room = max(1, limit - len(keys))
            page = self.keyset.read(connection, scans, after=beyond, descending=not backward, limit=room)
            if len(keys) == limit and (page.found or page.resume):
                resume = keys[-1]
                break
            keys += [(number, *key) for key in page.found[: limit - len(keys)]]
            if page.resume is not None:
                resume = (number, *page.resume)
                break
        found = self.read(connection, [key[-1] for key in keys])
        # One that was removed between the two reads is not there.
        return FoundWorkflows([(key, found[key[-1]]) for key in keys if key[-1] in found], resume)

    def _scans(self, wanted: WorkflowQuery, statuses: Sequence[WorkflowStatus]) -> Iterator[Scan]:
        """Ended ones by the name or the correlation id, or by what the rows say; open ones by the members."""
        c = self.tables.workflows.c
        created = (
            *((c.created_at >= wanted.created_from,) if wanted.created_from is not None else ()),
            *((c.created_at < wanted.created_to,) if wanted.created_to is not None else ()),
        )
        keys = (c.created_at, c.id)
        exact = {c.name: wanted.name, c.correlation_id: wanted.correlation_id}
        given = [(column, value) for column, value in exact.items() if value is not None]
        filters: list[Filter] = []
        if wanted.queues is not None:
            filters.append((as_number(self.state.visible(wanted.queues)), lambda given: given == 1))
        words = [status.value for status in statuses]
        stands: Filter = (self.state.effective, lambda given: given.in_(words))
        ended = [status for status in statuses if status in ENDED]
        if given and ended:
            narrowed = (*created, *(column == value for column, value in given))
            yield Scan(narrowed, keys, (*filters, stands))
            return
        # However many of a name have ended, those that are open are few.
        filters += [_equals(column, value) for column, value in given]
        yield Scan((*created, c.status == OPEN_ROW), keys, (*filters, stands), prefix=(c.status,))
        for status in ended:
            yield Scan((*created, c.status == status.value), keys, tuple(filters), prefix=(c.status,))

    # Members

    @bounded_read
    def jobs(
        self,
        connection: Connection,
        workflow_id: str,
        statuses: Sequence[Status],
        queues: Scope,
        after: Key | None,
        *,
        backward: bool,
        limit: int,
    ) -> tuple[list[WorkflowJob], Key | None]:
        """Jobs of a workflow in the order in which they were added, and the key after which to go on."""
        c = self.tables.jobs.c
        seen: tuple[Filter, ...] = ()
        if queues is not None:
            seen = ((c.queue, lambda given: given.in_(list(queues))),)
        scans = [
            Scan(
                (c.workflow_id == workflow_id, c.status == status.value),
                (c.id,),
                seen,
                prefix=(c.workflow_id, c.status),
            )
            for status in statuses
        ]
        page = self.keyset.read(connection, scans, after=after, descending=backward, limit=limit)
        found = self._members(connection, [key[0] for key in page.found])
        return [found[key[0]] for key in page.found if key[0] in found], page.resume

    @bounded_read
    def members(self, connection: Connection, job_ids: Sequence[str]) -> dict[str, WorkflowJob]:
        """These jobs, of whatever workflow or of none, as much of each as a graph shows."""
        return self._members(connection, job_ids)

    def _members(self, connection: Connection, ids: Sequence[str]) -> dict[str, WorkflowJob]:
        jobs = self.tables.jobs
        found: dict[str, WorkflowJob] = {}
        for chunk in _chunks(ids):
            query = select(*rows.columns(jobs, _MEMBER)).where(jobs.c.id.in_(chunk))
            found |= {row.id: _member(row) for row in connection.execute(query)}
        return found

    @bounded_read
    def graph(self, connection: Connection, workflow_id: str, jobs: int, edges: int) -> WorkflowGraph:
        """Up to so many jobs and edges of a workflow."""
        c = self.tables.jobs.c
        query = select(*rows.columns(self.tables.jobs, _MEMBER)).where(c.workflow_id == workflow_id)
        found = [_member(row) for row in connection.execute(query.order_by(c.id).limit(jobs + 1))]
        leading = self._edges_to(connection, [job.id for job in found[:jobs]], edges + 1)
        return WorkflowGraph(found[:jobs], leading[:edges], len(found) > jobs or len(leading) > edges)

    @bounded_read
    def edges_to(self, connection: Connection, job_ids: Sequence[str], limit: int) -> list[WorkflowEdge]:
        """Edges that lead to these jobs."""
        return self._edges_to(connection, job_ids, limit)

    def _edges_to(self, connection: Connection, job_ids: Sequence[str], limit: int) -> list[WorkflowEdge]:
        c = self.tables.dependencies.c
        found: list[WorkflowEdge] = []
        for chunk in _chunks(job_ids):
            if len(found) >= limit:
                break
            query = select(c.parent_id, c.child_id, c.needs, c.state, c.result_test).where(c.child_id.in_(chunk))
            query = query.order_by(c.child_id, c.parent_id).limit(limit - len(found))
            found += map(_edge, connection.execute(query))
        return found

    @bounded_read
    def waiting_for(self, connection: Connection, job_ids: Sequence[str], limit: int) -> dict[str, int]:
        """How many jobs wait for each of these, up to ``limit`` for each."""
        c = self.tables.dependencies.c
        queries = [
            select(c.child_id).where(c.parent_id == job_id, c.state == int(EdgeState.OPEN)).limit(limit)
            for job_id in job_ids
        ]
        answers = self.keyset.each(connection, queries) if queries else []
        return {job_id: len(found) for job_id, found in zip(job_ids, answers, strict=True)}


def _open_first(statuses: Sequence[WorkflowStatus]) -> tuple[list[WorkflowStatus], list[WorkflowStatus]]:
    return [one for one in statuses if one not in ENDED], [one for one in statuses if one in ENDED]


def _equals(column: Any, value: str) -> Filter:
    return column, lambda given: given == value


def possible_id(workflow_id: object) -> str:
    """The id, if a row could have it; ``UnknownWorkflow`` for what no database would even take as text."""
    if not isinstance(workflow_id, str) or len(workflow_id) > NAME_LENGTH or not workflow_id.isprintable():
        raise unknown(workflow_id)
    return str.__str__(workflow_id)


def unknown(workflow_id: object) -> errors.UnknownWorkflow:
    """The error for an id that no row has."""
    return errors.UnknownWorkflow(f"no workflow has the id {options.shown(workflow_id)}; its jobs may have been purged")


def _workflow(row: Row[Any], counts: dict[str, int], ended: datetime | None) -> Workflow:
    recorded = row.status in RECORDED
    return Workflow(
        row.id,
        row.name,
        WorkflowStatus(row.stands),
        row.jobs,
        row.edges,
        row.created_at,
        rows.metadata(row.counts) if recorded else counts,
        row.finished_at if recorded else ended,
        row.correlation_id,
        row.metadata,
        row.cancelled_at,
        row.cancelled_by,
        row.cancel_reason,
    )


def _member(row: Any) -> WorkflowJob:
    fields: dict[str, Any] = {name: getattr(row, name) for name in _MEMBER}
    return WorkflowJob(**{**fields, "status": known_or(Status.FAILED, row.status)})


def _edge(row: Any) -> WorkflowEdge:
    state = known_or(EdgeState.OPEN, row.state)
    return WorkflowEdge(row.parent_id, row.child_id, row.needs, state, comparison(row.result_test))


def _chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), CHUNK):
        yield ids[start : start + CHUNK]
