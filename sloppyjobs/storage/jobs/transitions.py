"""Transitions of many jobs at once: the rows, their attempts and their events, in a fixed number of statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import (
    Connection,
    Integer,
    Subquery,
    Text,
    case,
    func,
    insert,
    literal,
    null,
    select,
    update,
)
from sqlalchemy.types import TypeEngine

from sloppyjobs import errors
from sloppyjobs.domain.states import FINISHED, AttemptStatus, Status
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import all_changed, cursor_of
from sloppyjobs.storage.jobs import rows, settle
from sloppyjobs.storage.jobs.followups import Edge, Followups, bits_of
from sloppyjobs.storage.ports.operators import JobState, Move, Step
from sloppyjobs.storage.upkeep.deaths import Deaths

_STATE_FIELDS = JobState._fields
_GIVEN: Mapping[str, TypeEngine[Any]] = {
    "id": Text(),
    "source": Text(),
    "target": Text(),
    "event": Text(),
    "attempt": Integer(),
    "worker": Text(),
    "paused_from": Text(),
    "run_now": Integer(),
    "max_attempts": Integer(),
    "counted": Integer(),
    "waiting_for": Text(),
}
_WAITS = (Status.WAITING.value, Status.PAUSED.value)


class Transitions:
    """Locked reads of job states, and the writes that move jobs along edges."""

    def __init__(self, database: Database, deaths: Deaths, followups: Followups) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.deaths = deaths
        self.followups = followups

    def lock_states(self, connection: Connection, ids: Sequence[str], *, skip: bool = False) -> dict[str, JobState]:
        """The states of these jobs, locked in id order, so that two commands never wait for each other in a ring.

        ``skip`` leaves out those that others have locked.
        """
        jobs = self.tables.jobs
        query = (
            select(*rows.columns(jobs, _STATE_FIELDS)).where(self.dialect.any_of(jobs.c.id, "ids")).order_by(jobs.c.id)
        )
        found = connection.execute(self.dialect.locked(query, skip=skip), {"ids": self.dialect.list_param(sorted(ids))})
        return {row.id: _state(row) for row in found}

    def write_moves(
        self,
        connection: Connection,
        moves: Sequence[Move],
        now: datetime,
        *,
        actor: str | None,
        message: str | None,
    ) -> None:
        """Take each job along its edge, and record one event for each; ``Conflict`` where one is not there any more."""
        given = self.dialect.given_rows("given", _GIVEN)
        values = {"given": msgspec.json.encode([_given(*move) for move in moves]).decode()}
        dead = [state.id for state, _ in moves if state.status is Status.DEAD]
        if dead:
            self.deaths.record(connection, dead)
        moved = connection.execute(self.dialect.from_given(self._move_jobs(given, now)), values).rowcount
        all_changed(moved, len(moves))
        if any(state.status is Status.PROCESSING for state, _ in moves):
            connection.execute(self.dialect.from_given(self._end_attempts(given, now, message)), values)
        connection.execute(self._record_moves(given, now, actor, message), values)
        self._count_cancelled(connection, moves, now)
        if any(step.target is Status.QUEUED or state.status is Status.PROCESSING for state, step in moves):
            self.dialect.announce(connection)
        if flagged := _flagged(moves):
            self.followups.after(connection, flagged)

    def refusals(self, connection: Connection, moves: Sequence[Move]) -> Mapping[str, errors.JobsError]:
        """Which of these moves cannot be made because of what hangs on their jobs, and why."""
        flagged = _flagged(moves)
        return self.followups.refusals(connection, flagged) if flagged else {}

    def _count_cancelled(self, connection: Connection, moves: Iterable[Move], now: datetime) -> None:
        """A cancelled job is counted when the command is carried out: the settlement that may follow is stale."""
        lanes = Counter((state.queue, state.name) for state, step in moves if step.target is Status.CANCELLED)
        if lanes:
            settle.count_cancelled(self.database, cursor_of(connection), lanes, now)

    # Statements

    def _move_jobs(self, given: Subquery, now: datetime) -> Any:
        jobs = self.tables.jobs
        moment = literal(now, jobs.c.updated_at.type)
        # Retention counts from the end of the work, not from the soft delete that follows it.
        ended = func.coalesce(jobs.c.finished_at, moment)
        return (
            update(jobs)
            .where(
                self.dialect.same_key(jobs.c.id, given.c.id),
                # An expression, so that no index but the primary key's looks usable.
                func.coalesce(jobs.c.status, "") == given.c.source,
                jobs.c.attempt_count == given.c.counted,
            )
            .values(
                status=given.c.target,
                updated_at=moment,
                locked_by=null(),
                locked_until=null(),
                finished_at=case((given.c.target.in_([status.value for status in FINISHED]), ended), else_=null()),
                paused_from=given.c.paused_from,
                run_at=case((given.c.run_now == 1, moment), else_=jobs.c.run_at),
                max_attempts=func.coalesce(given.c.max_attempts, jobs.c.max_attempts),
                waiting_for=case(
                    (given.c.target.in_(_WAITS), func.coalesce(given.c.waiting_for, jobs.c.waiting_for)), else_=null()
                ),
            )
        )

    def _end_attempts(self, given: Subquery, now: datetime, message: str | None) -> Any:
        attempts = self.tables.attempts
        return (
            update(attempts)
            .where(self.dialect.same_key(attempts.c.job_id, given.c.id), attempts.c.attempt_number == given.c.attempt)
            .values(
                status=AttemptStatus.CANCELLED.value,
                finished_at=now,
                error_code=errors.CANCELLED,
                error_message=message,
            )
        )

    def _record_moves(self, given: Subquery, now: datetime, actor: str | None, message: str | None) -> Any:
        events = self.tables.events
        columns = {
            "job_id": given.c.id,
            "event_type": given.c.event,
            "from_status": given.c.source,
            "to_status": given.c.target,
            "attempt_number": given.c.attempt,
            "worker_id": given.c.worker,
            "actor": literal(actor, events.c.actor.type),
            "message": literal(message, events.c.message.type),
            "created_at": literal(now, events.c.created_at.type),
        }
        return insert(events).from_select(list(columns), select(*columns.values()).order_by(given.c.id))


def _flagged(moves: Sequence[Move]) -> list[Edge]:
    """The edges of jobs on which something hangs."""
    return [
        Edge(state.id, state.status, step.target, bits_of(state.followups), _waited_for(state))
        for state, step in moves
        if state.followups is not None
    ]


def _waited_for(state: JobState) -> str | None:
    return state.waiting_for if state.status is Status.WAITING else None


_STATUS: Mapping[str | None, Status] = {status.value: status for status in Status}


def _state(row: Any) -> JobState:
    status = _STATUS.get(row.status)
    if status is None:
        why = "somebody has changed its row by hand, and nothing can be done to it before that is mended there"
        raise errors.InvalidTransition(f"job {row.id} has the status {row.status!r:.100}, which is none: {why}")
    return JobState(
        row.id,
        row.name,
        status,
        row.attempt_count,
        row.locked_by,
        _STATUS.get(row.paused_from),
        row.retry_policy,
        row.queue,
        row.followups,
        row.waiting_for,
    )


def _given(state: JobState, step: Step) -> tuple[Any, ...]:
    return (
        state.id,
        state.status.value,
        step.target.value,
        step.event,
        state.attempt_count if state.status is Status.PROCESSING else None,
        state.locked_by,
        None if step.paused_from is None else step.paused_from.value,
        int(step.run_now),
        step.max_attempts,
        state.attempt_count,
        None if step.waiting_for is None else step.waiting_for.value,
    )
