"""What handlers keep while they run: results of steps, sleeps, and waits for signals, each in a fenced transaction.

The first statement of each is an update of the job that has the fence as its condition: it decides, and it keeps the
row until the commit. So a signal, or the end of the attempt, comes before or after, never in between.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, Table, and_, case, func, insert, literal, select, update

from sloppyjobs import errors
from sloppyjobs.domain.states import Status
from sloppyjobs.domain.steps import MOST, Answer, Kept, StepKind, StepState, told
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.jobs.suspended import with_steps
from sloppyjobs.storage.ports.claims import Fence

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


class Steps:
    """The rows of steps, as workers see them."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.tables = database.tables

    # What a running handler writes

    def keep(self, worker_id: str, fence: Fence, name: str, result: str, seconds: float | None, place: int) -> bool:
        """Write the result of a finished step; False when the attempt is not the worker's any more."""

        def work(connection: Connection, rerun: bool) -> bool:
            # A run that was committed unheard has written it.
            if rerun and self._row(connection, fence[0], StepKind.STEP, name) is not None:
                return True
            now = self.database.now(connection)
            values = {
                "state": StepState.DONE.value,
                "finished_at": now,
                "run_seconds": seconds,
                "result": result,
                "size": len(result.encode()),
            }
            self._insert(connection, fence, StepKind.STEP, name, place, now, values)
            return True

        return self._fenced(worker_id, fence, work) or False

    def ask(
        self, worker_id: str, fence: Fence, kind: StepKind, name: str, seconds: float | None, place: int
    ) -> Answer | None:
        """Begin a sleep or a wait, or see what has become of it; None when the attempt is not the worker's any more."""

        def work(connection: Connection, _rerun: bool) -> Answer:
            now = self.database.now(connection)
            found = self._row(connection, fence[0], kind, name)
            if found is None:
                return self._begin(connection, fence, kind, name, seconds, place, now)
            answer = _answer(kind, name, found, now)
            self._note(connection, fence, kind, name, found, answer, place, now)
            return answer

        return self._fenced(worker_id, fence, work)

    def _fenced(self, worker_id: str, fence: Fence, work: Callable[[Connection, bool], T]) -> T | None:
        """Run ``work`` while the attempt is held; it is told whether an earlier run of it may have been committed."""
        job_id, attempt = fence
        jobs, runs = self.tables.jobs, 0
        # An expression, so that no index but the primary key's looks usable.
        running = func.coalesce(jobs.c.status, "") == Status.PROCESSING.value
        ours = and_(jobs.c.id == job_id, running, jobs.c.locked_by == worker_id, jobs.c.attempt_count == attempt)

        def once(connection: Connection) -> T | None:
            nonlocal runs
            runs += 1
            held = connection.execute(update(jobs).where(ours).values(followups=with_steps(jobs))).rowcount
            return work(connection, runs > 1) if held else None

        return self.database.write(once)

    def _begin(
        self,
        connection: Connection,
        fence: Fence,
        kind: StepKind,
        name: str,
        seconds: float | None,
        place: int,
        now: datetime,
    ) -> Answer:
        values: dict[str, Any] = {"state": StepState.WAITING.value, "size": 0}
        if seconds is not None:
            values["wake_at"] = now + timedelta(seconds=seconds)
        if seconds == 0:
            values |= {"state": told(kind, None).value, "finished_at": now, "wake_at": None}
        self._insert(connection, fence, kind, name, place, now, values)
        if seconds == 0:
            return Answer(told(kind, None))
        self._pass_over(connection, fence)
        return Answer(StepState.WAITING, seconds=seconds)

    def _note(
        self,
        connection: Connection,
        fence: Fence,
        kind: StepKind,
        name: str,
        found: Row[Any],
        answer: Answer,
        place: int,
        now: datetime,
    ) -> None:
        """Write down that this attempt has asked, and what it was told."""
        if found.state == answer.state and found.state != StepState.WAITING:
            return
        steps = self.tables.steps
        values: dict[str, Any] = {"state": answer.state.value, "attempt_number": fence[1]}
        if found.place == 0:
            values["place"] = place
        if answer.state is not StepState.WAITING:
            moment = literal(now, steps.c.finished_at.type)
            values |= {"wake_at": None, "finished_at": func.coalesce(steps.c.finished_at, moment)}
        connection.execute(update(steps).where(_is(steps, fence[0], kind, name)).values(values))
        if answer.state is StepState.WAITING:
            self._pass_over(connection, fence)

    def _pass_over(self, connection: Connection, fence: Fence) -> None:
        """This attempt is about to end: what was ready before it and was not asked for must not wake the job again."""
        c = self.tables.steps.c
        timed_out = and_(c.kind == StepKind.SIGNAL.value, c.result.is_(None))
        state = case((timed_out, StepState.TIMED_OUT.value), else_=StepState.DONE.value)
        stale = (c.job_id == fence[0], c.state == StepState.READY.value, c.attempt_number < fence[1])
        connection.execute(update(self.tables.steps).where(*stale).values(state=state))

    def _insert(
        self,
        connection: Connection,
        fence: Fence,
        kind: StepKind,
        name: str,
        place: int,
        now: datetime,
        values: dict[str, Any],
    ) -> None:
        row = {
            "job_id": fence[0],
            "kind": kind.value,
            "name": name,
            "attempt_number": fence[1],
            "place": place,
            "created_at": now,
        }
        connection.execute(insert(self.tables.steps).values(row | values))

    # Reading

    def known(self, job_id: str) -> list[Kept]:
        """What a job has, in the order of its steps."""
        c = self.tables.steps.c
        query = select(c.kind, c.name, c.state, c.result).where(c.job_id == job_id)
        query = query.order_by(c.place, c.kind, c.name).limit(2 * MOST)
        found = self.database.read(lambda connection: connection.execute(query).all())
        return [
            Kept(_known(StepKind, kind, name), name, _known(StepState, state, name), result)
            for kind, name, state, result in found
        ]

    def _row(self, connection: Connection, job_id: str, kind: StepKind, name: str) -> Any:
        steps = self.tables.steps
        query = select(steps.c.state, steps.c.result, steps.c.wake_at, steps.c.place)
        return connection.execute(query.where(_is(steps, job_id, kind, name))).one_or_none()


def _is(steps: Table, job_id: str, kind: StepKind, name: str) -> ColumnElement[bool]:
    return and_(steps.c.job_id == job_id, steps.c.kind == kind.value, steps.c.name == name)


def _known(words: type[E], stored: Any, name: str) -> E:
    """What the row says; no handler goes on by a word that is none."""
    try:
        return words(stored)
    except ValueError:
        raise errors.InvalidStep(
            f"the row of step {name!r} says {stored!r:.100}, which is none: somebody has changed it by hand"
        ) from None


def _answer(kind: StepKind, name: str, found: Row[Any], now: datetime) -> Answer:
    """What a row means to a handler that asks for it now."""
    match _known(StepState, found.state, name):
        case StepState.EARLY | StepState.READY:
            return Answer(told(kind, found.result), found.result)
        case StepState.WAITING if found.wake_at is not None and found.wake_at <= now:
            return Answer(told(kind, None))
        case StepState.WAITING:
            left = None if found.wake_at is None else (found.wake_at - now).total_seconds()
            return Answer(StepState.WAITING, seconds=left)
        case state:
            return Answer(state, found.result)
