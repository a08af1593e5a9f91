"""How a workflow stands, as SQL: a function of its members' statuses, by single probes of their index.

What it means is said by ``WorkflowStatus``. A workflow of which no member can move any more has its status in its row.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from sqlalchemy import ColumnElement, and_, case, exists, literal, or_, select

from sloppyjobs.domain.dependencies import EdgeState
from sloppyjobs.domain.states import Status, WaitingFor
from sloppyjobs.domain.workflows import ENDED, OPEN, WorkflowStatus
from sloppyjobs.storage.ports.reads import Scope
from sloppyjobs.storage.schema.tables import Tables

OPEN_ROW = "open"
"""The status of a row whose members say how it stands."""
RECORDED = tuple(sorted(status.value for status in ENDED))
"""What the row of a workflow says that has ended for good."""


class WorkflowState:
    """Conditions on the members of the workflow in an enclosing query."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._member = tables.jobs.alias("member")

    @cached_property
    def effective(self) -> ColumnElement[Any]:
        """How it stands."""
        status = self._tables.workflows.c.status
        # Whatever somebody else has written there: its members say how it stands.
        return case((status.in_(RECORDED), status), else_=self.derived)

    @cached_property
    def derived(self) -> ColumnElement[Any]:
        """What its members say."""
        member, words = self._member.c, WorkflowStatus
        goes_on = self._has(Status.WAITING, also=member.waiting_for != WaitingFor.JOBS.value)
        was_dead = self._has(Status.DELETED, also=member.error_code.is_not(None))
        return case(
            (self._has(Status.QUEUED, Status.PROCESSING, Status.FAILED), words.RUNNING.value),
            (or_(self._has(Status.SCHEDULED, Status.RETRYING), goes_on), words.WAITING.value),
            (and_(self._has(Status.WAITING, Status.PAUSED), self._has(Status.DEAD)), words.BLOCKED.value),
            (self._has(Status.WAITING, Status.PAUSED), words.WAITING.value),
            (self._tables.workflows.c.cancelled_at.is_not(None), words.CANCELLED.value),
            (or_(self._has(Status.DEAD), was_dead), words.FAILED.value),
            (self._has(Status.CANCELLED, also=~self._not_needed()), words.CANCELLED.value),
            else_=words.SUCCEEDED.value,
        )

    def may_go_on(self) -> ColumnElement[bool]:
        """Whether a member can still move."""
        return self._has(*OPEN)

    def has_members(self) -> ColumnElement[bool]:
        """Whether a member is left."""
        return self._has()

    def visible(self, queues: Scope) -> ColumnElement[bool]:
        """Whether a member is in one of these queues."""
        return self._has(also=self._member.c.queue.in_(list(queues or ())))

    def _has(self, *statuses: Status, also: ColumnElement[bool] | None = None) -> ColumnElement[bool]:
        """Whether some member has one of these statuses, or any."""
        member = self._member
        query = select(literal(1)).select_from(member).where(member.c.workflow_id == self._tables.workflows.c.id)
        if statuses:
            query = query.where(member.c.status.in_([status.value for status in statuses]))
        if also is not None:
            query = query.where(also)
        return exists(query.correlate(self._tables.workflows))

    def _not_needed(self) -> ColumnElement[bool]:
        """Whether a member was cancelled because its parents did not end as it needed.

        One that needed the success of a job elsewhere, which was cancelled or deleted, was needed. A parent inside of
        the workflow says by its own row whether it was.
        """
        edge, parent = self._tables.dependencies.alias("edge"), self._tables.jobs.alias("parent")
        inside = parent.c.workflow_id == self._member.c.workflow_id
        query = select(literal(1)).select_from(edge.outerjoin(parent, parent.c.id == edge.c.parent_id))
        of_member = (edge.c.child_id == self._member.c.id, edge.c.state == int(EdgeState.FAILED))
        by_its_end = or_(edge.c.needs != "success", edge.c.result_test.is_not(None))
        return exists(query.where(*of_member, or_(by_its_end, inside)).correlate(self._member))


def as_number(condition: ColumnElement[bool]) -> ColumnElement[Any]:
    """1 or 0: not every database has conditions as values."""
    return case((condition, 1), else_=0)
