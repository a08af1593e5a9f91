"""What an operator may do to jobs: fenced transitions, one or many in a transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import Connection, select

from sloppyjobs import errors
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.states import Status, check, event_type
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.jobs.rows import possible_id, unknown
from sloppyjobs.storage.jobs.transitions import Transitions
from sloppyjobs.storage.ports.operators import Decide, JobState, Step, Taken
from sloppyjobs.storage.reads.history import History


class Commands:
    """Transitions that somebody asks for."""

    def __init__(self, database: Database, transitions: Transitions, history: History) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.transitions = transitions
        self.history = history

    def transition(
        self,
        connection: Connection,
        job_id: str,
        target: Status,
        *,
        actor: str | None = None,
        message: str | None = None,
    ) -> tuple[Job, bool]:
        """Move a job to a status, under the row's lock; a job that has it already is returned as it is.

        Raises ``InvalidTransition`` where the state machine has no such edge. The flag says whether anything
        was written.
        """

        def decide(job: JobState) -> Step | None:
            return None if job.status is target else Step(target, event_type(job.status, target))

        [taken] = self.command(connection, [possible_id(job_id)], decide, actor=actor, message=message)
        if taken.refused is not None:
            raise taken.refused
        return self.history.get_job(job_id, connection), taken.step is not None

    def command(
        self,
        connection: Connection,
        ids: Sequence[str],
        decide: Decide,
        *,
        actor: str | None = None,
        message: str | None = None,
        since: int | None = None,
        tried: list[datetime] | None = None,
    ) -> list[Taken]:
        """Decide under the rows' locks what a command means for each of these jobs, and do it. In id order.

        ``since``: jobs that have an event with a higher number are refused, they have changed meanwhile. ``tried``
        holds the instants at which earlier tries of this transaction wrote, and gets another: when the answer to a
        COMMIT was lost, the events with these instants are our own.
        """
        self.dialect.plan_by_index(connection)
        states = self.transitions.lock_states(connection, ids)
        ours: Collection[str] = ()
        changed: dict[str, bool] = {}
        if since is not None or tried:
            ours, changed = self._events_since(connection, list(states), since, [(at, actor) for at in tried or ()])
        decided = [_decided(job_id, states.get(job_id), decide, changed.get(job_id)) for job_id in sorted(set(ids))]
        taken = self._without_refused(connection, decided)
        if ours:
            # All of it was committed at once, so there is nothing left to do.
            return [_as_repeated(one, ours) for one in taken]
        moves = [(one.before, one.step) for one in taken if one.before is not None and one.step is not None]
        if moves:
            now = self.database.now(connection)
            if tried is not None:
                tried.append(now)
            self.transitions.write_moves(connection, moves, now, actor=actor, message=message)
        return taken

    def _without_refused(self, connection: Connection, decided: list[Taken]) -> list[Taken]:
        """What hangs on a job may forbid its step."""
        refused = self.transitions.refusals(connection, [(t.before, t.step) for t in decided if t.before and t.step])
        if not refused:
            return decided
        return [t._replace(step=None, refused=refused[t.job_id]) if t.job_id in refused else t for t in decided]

    def _events_since(
        self,
        connection: Connection,
        ids: Sequence[str],
        since: int | None,
        tried: Collection[tuple[datetime, str | None]],
    ) -> tuple[set[str], dict[str, bool]]:
        """The jobs that earlier tries have commanded, and those that others changed; True for one that is new."""
        c = self.tables.events.c
        query = select(c.job_id, c.from_status, c.created_at, c.actor).where(self.dialect.any_of(c.job_id, "ids"))
        if since is not None:
            query = query.where(c.id > since)
        ours: set[str] = set()
        changed: dict[str, bool] = {}
        for job_id, source, created_at, actor in connection.execute(query, {"ids": self.dialect.list_param(ids)}):
            if (created_at, actor) in tried:
                ours.add(job_id)
            elif since is not None:
                changed[job_id] = changed.get(job_id, False) or source is None
        return ours, changed


def _decided(job_id: str, state: JobState | None, decide: Decide, changed: bool | None) -> Taken:
    if state is None:
        return Taken(job_id, None, refused=unknown(job_id))
    if changed is not None:
        return Taken(
            job_id, state, refused=errors.InvalidTransition("was created meanwhile") if changed else _became(state)
        )
    try:
        step = decide(state)
        if step is not None:
            check(state.status, step.target, f"job {job_id}")
    except errors.InvalidTransition as error:
        return Taken(job_id, state, refused=error)
    return Taken(job_id, state, step)


def _as_repeated(taken: Taken, ours: Collection[str]) -> Taken:
    if taken.job_id in ours:
        return taken._replace(refused=None, repeated=True)
    if taken.step is None or taken.before is None:
        return taken
    return taken._replace(step=None, refused=_became(taken.before))


def _became(state: JobState) -> errors.InvalidTransition:
    return errors.InvalidTransition(f"became {state.status} meanwhile", status=state.status)
