"""Jobs whose handlers sleep or wait for a signal: when they wait, and when they go on.

A suspended job goes on when something that it waits for is ready, or when it waits for nothing. Whoever makes something
ready writes to the job's row in the same transaction, and the step that suspends a job looks again after it has written
to that row: of the two, the second one sees what the first has done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    delete,
    func,
    literal_column,
    null,
    or_,
    select,
    update,
)

from sloppyjobs.domain.followups import Followup
from sloppyjobs.domain.states import FINISHED, Status, WaitingFor
from sloppyjobs.domain.steps import StepKind, StepState
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import all_changed
from sloppyjobs.storage.jobs.followups import Edge, Followups
from sloppyjobs.storage.jobs.transitions import Transitions
from sloppyjobs.storage.ports.operators import JobState, Move, Step

CHUNK = 500
"""Ids in one statement."""
WOKEN = "woken"
"""The event of a job that goes on."""
_SUSPENDED = (WaitingFor.SLEEP, WaitingFor.SIGNAL)
_OPEN = (StepState.WAITING.value, StepState.READY.value)


class Suspended:
    """What becomes of jobs that sleep or wait for signals."""

    def __init__(self, database: Database, transitions: Transitions) -> None:
        self.database = database
        self.tables = database.tables
        self.transitions = transitions

    def note_first(self, followups: Followups) -> None:
        """Write down what suspended jobs wait for, before anybody else sees them wait."""
        followups.add(Followup.STEPS, self._note)

    def follow(self, followups: Followups) -> None:
        """See to jobs that wait, go on, or are retried."""
        followups.add(Followup.STEPS, self._follow_up)

    # The sweep

    def wake_due(self, limit: int) -> int:
        """Let jobs go on whose sleep is over, or whose signal has not come in time; how many it was."""
        return self.database.write(lambda connection: self._wake_due(connection, limit))

    def _wake_due(self, connection: Connection, limit: int) -> int:
        steps = self.tables.steps
        now = self.database.now(connection)
        # Without locks: those of jobs come first, and the update decides.
        query = select(steps.c.job_id).where(steps.c.wake_at <= now).order_by(steps.c.wake_at, steps.c.job_id)
        ids = sorted(set(connection.execute(query.limit(limit)).scalars()))
        woken = 0
        for chunk in _chunks(ids):
            states = self.transitions.lock_states(connection, chunk)
            due = (steps.c.job_id.in_(chunk), steps.c.wake_at <= now)
            waits = connection.execute(select(steps.c.job_id).where(*due, steps.c.state == StepState.WAITING.value))
            concerned = set(waits.scalars())
            ready = {"state": StepState.READY.value, "finished_at": now, "wake_at": null()}
            still = steps.c.state == StepState.WAITING.value
            connection.execute(update(steps).where(*due, still).values(ready))
            # What is not waited for any more needs no alarm.
            connection.execute(update(steps).where(*due).values(wake_at=null()))
            woken += self.go_on(connection, [state for state in states.values() if state.id in concerned])
        return woken

    def go_on(
        self, connection: Connection, states: Sequence[JobState], message: str | None = None, actor: str | None = None
    ) -> int:
        """Something is ready for these jobs: queue those that wait, and let all others know; how many were queued."""
        moves: list[Move] = [(state, _GO_ON) for state in states if is_suspended(state)]
        if moves:
            self.transitions.write_moves(connection, moves, self.database.now(connection), actor=actor, message=message)
        self.touch(connection, [state for state in states if not is_suspended(state)])
        return len(moves)

    def touch(self, connection: Connection, states: Sequence[JobState]) -> None:
        """Write to the rows of these jobs; ``Conflict`` where one has moved on since it was read.

        Where rows are not locked when they are read, only this write meets the settlement that suspends the job.
        """
        jobs = self.tables.jobs
        alike: dict[Status, list[str]] = defaultdict(list)
        for state in states:
            if state.status not in FINISHED:
                alike[state.status].append(state.id)
        for status, ids in sorted(alike.items()):
            same = (jobs.c.id.in_(ids), jobs.c.status == status.value)
            values = {"followups": with_steps(jobs)}
            all_changed(connection.execute(update(jobs).where(*same).values(values)).rowcount, len(ids))

    # Edges of jobs

    def _note(self, connection: Connection, edges: Sequence[Edge]) -> None:
        suspended = [edge.job_id for edge in edges if _suspends(edge)]
        jobs = self.tables.jobs
        for chunk in _chunks(suspended):
            found = self._open(connection, chunk)
            by_reason: dict[WaitingFor, list[str]] = defaultdict(list)
            for job_id in chunk:
                signals = (StepKind.SIGNAL, StepState.WAITING) in found[job_id]
                by_reason[WaitingFor.SIGNAL if signals else WaitingFor.SLEEP].append(job_id)
            for reason, ids in by_reason.items():
                connection.execute(update(jobs).where(jobs.c.id.in_(ids)).values(waiting_for=reason.value))

    def _follow_up(self, connection: Connection, edges: Sequence[Edge]) -> None:
        waits = [edge.job_id for edge in edges if edge.target is Status.WAITING]
        if waits:
            self.release(connection, waits)
        # Not one that goes on from the line for a permit: after a crash, its handler may have begun a sleep.
        woken = [edge.job_id for edge in edges if edge.waited_for in _SUSPENDED and edge.target is Status.QUEUED]
        for chunk in _chunks(woken):
            self._end_sleeps(connection, chunk)
        retried = [edge.job_id for edge in edges if edge.source is Status.DEAD and edge.target is Status.QUEUED]
        for chunk in _chunks(retried):
            self._forget_timeouts(connection, chunk)

    def release(self, connection: Connection, ids: Sequence[str]) -> int:
        """Let those of these jobs go on that sleep or wait for signals and need not; how many it was."""
        moved = 0
        for chunk in _chunks(sorted(ids)):
            suspended = [
                state for state in self.transitions.lock_states(connection, chunk).values() if is_suspended(state)
            ]
            found = self._open(connection, [state.id for state in suspended]) if suspended else {}
            moved += self.go_on(connection, [state for state in suspended if _may_go_on(found[state.id])])
        return moved

    def _open(self, connection: Connection, ids: Sequence[str]) -> dict[str, set[tuple[str, str]]]:
        """Kind and state of what the jobs wait for, or what is ready for them."""
        c = self.tables.steps.c
        found: dict[str, set[tuple[str, str]]] = {job_id: set() for job_id in ids}
        query = select(c.job_id, c.kind, c.state).where(c.job_id.in_(ids), c.state.in_(_OPEN)).distinct()
        for job_id, kind, state in connection.execute(query):
            found[job_id].add((kind, state))
        return found

    def _end_sleeps(self, connection: Connection, ids: Sequence[str]) -> None:
        """Jobs that go on though nothing is ready: somebody wants them to run now, so their sleeps are over."""
        steps = self.tables.steps
        found = self._open(connection, ids)
        cut = [job_id for job_id, states in found.items() if not any(state == StepState.READY for _, state in states)]
        asleep = and_(steps.c.kind == StepKind.SLEEP.value, steps.c.state == StepState.WAITING.value)
        over = {
            "state": StepState.READY.value,
            "finished_at": self.database.now(connection),
            "wake_at": null(),
        }
        if cut:
            connection.execute(update(steps).where(steps.c.job_id.in_(cut), asleep).values(over))

    def _forget_timeouts(self, connection: Connection, ids: Sequence[str]) -> None:
        """An operator's retry waits for signals anew that did not come in time; what is done stays done."""
        c = self.tables.steps.c
        unseen = and_(c.state == StepState.READY.value, c.result.is_(None))
        timed_out = or_(c.state == StepState.TIMED_OUT.value, unseen)
        gone = delete(self.tables.steps).where(c.job_id.in_(ids), c.kind == StepKind.SIGNAL.value, timed_out)
        connection.execute(gone)


def with_steps(jobs: Table) -> ColumnElement[int]:
    """What hangs on a job, and steps."""
    return func.coalesce(jobs.c.followups, literal_column("0")).bitwise_or(int(Followup.STEPS))


_GO_ON = Step(Status.QUEUED, WOKEN)


def is_suspended(state: JobState) -> bool:
    """Whether the job's handler sleeps, or waits for a signal."""
    return state.status is Status.WAITING and state.waiting_for in _SUSPENDED


def _suspends(edge: Edge) -> bool:
    return edge.source is Status.PROCESSING and edge.target is Status.WAITING


def _may_go_on(states: set[tuple[str, str]]) -> bool:
    """Whether something is ready, or nothing is waited for."""
    return not states or any(state == StepState.READY for _, state in states)


def _chunks(ids: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(ids), CHUNK):
        yield ids[start : start + CHUNK]
