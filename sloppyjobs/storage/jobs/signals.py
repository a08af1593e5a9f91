"""Signals to jobs: the first one of a name wins, and is kept until the handler asks for it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, insert, null, select, update
from sqlalchemy.exc import DBAPIError

from sloppyjobs import errors
from sloppyjobs.domain.states import FINISHED
from sloppyjobs.domain.steps import MOST, StepKind, StepState
from sloppyjobs.storage.admin.audit import Audit
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import Conflict, all_changed
from sloppyjobs.storage.jobs.keys import Keys
from sloppyjobs.storage.jobs.rows import possible_id, unknown
from sloppyjobs.storage.jobs.suspended import Suspended
from sloppyjobs.storage.ports.operators import Command, JobState
from sloppyjobs.storage.ports.steps import SentSignal

CALLER_TRIES = 10
"""How often a signal in a caller's transaction is tried, where its job moves on between the read and the write."""


class Signals:
    """Sends signals to jobs."""

    def __init__(self, database: Database, suspended: Suspended, keys: Keys, audit: Audit) -> None:
        self.database = database
        self.tables = database.tables
        self.suspended = suspended
        self.keys = keys
        self.audit = audit

    def send(
        self, job_id: str, signal: SentSignal, command: Command | None = None, connection: Connection | None = None
    ) -> bool:
        """Give a job a signal; False where it has one of this name."""
        if connection is not None:
            self.database.dialect.refuse_caller(connection)
        self.database.ensure_schema(connection)
        job_id = possible_id(job_id)
        if connection is None:
            return self.database.write(lambda c: self._send(c, job_id, signal, command))
        return self.database.write(lambda c: self._send_for_caller(c, job_id, signal), connection)

    def job_with_key(self, business_key: str, connection: Connection | None = None) -> str:
        """The id of the live job with a business key, else of the latest one; ``UnknownJob`` where there is none."""
        self.database.ensure_schema(connection)
        return self.database.read(lambda c: self._job_with_key(c, business_key), connection)

    def _job_with_key(self, connection: Connection, business_key: str) -> str:
        kept = self.database.dialect.kept_key(business_key)
        holder = self.keys.holders(connection, [kept]).get(kept)
        if holder is not None and holder.status is not None and holder.status not in FINISHED:
            return holder.job_id
        c = self.tables.jobs.c
        # One that gives its key up when it starts has none while it runs.
        latest = select(c.id).where(c.business_key == business_key).order_by(c.created_at.desc(), c.id.desc()).limit(1)
        found: str | None = connection.execute(latest).scalar_one_or_none()
        if found is None:
            raise errors.UnknownJob(f"no job has the business key {business_key!r}")
        return found

    def _send_for_caller(self, connection: Connection, job_id: str, signal: SentSignal) -> bool:
        """In a savepoint: a caller may go on after a refusal, and his transaction cannot be run again from here."""
        self.database.dialect.ensure_begun(connection)
        tries = 0
        while True:
            try:
                with connection.begin_nested():
                    return self._send(connection, job_id, signal, None)
            except Conflict:
                tries += 1
                if tries == CALLER_TRIES:
                    raise

    def _send(self, connection: Connection, job_id: str, signal: SentSignal, command: Command | None) -> bool:
        state = self.suspended.transitions.lock_states(connection, [job_id]).get(job_id)
        if state is None:
            raise unknown(job_id)
        found = self._row(connection, job_id, signal.name)
        if found is not None and found.state != StepState.WAITING:
            # Also an answer to one whose own first answer was lost.
            return bool(found.token == signal.token)
        if state.status in FINISHED:
            text = f"job {job_id} is {state.status} and takes no signals"
            raise errors.InvalidTransition(text, status=state.status, command="signal")
        now = self.database.now(connection)
        if found is None:
            self._keep_early(connection, state, signal, now)
        else:
            self._hand_over(connection, state, signal, now, None if command is None else command.actor)
        if command is not None:
            self.audit.write(connection, command, "job", job_id, {"signal": signal.name})
        return True

    def _keep_early(self, connection: Connection, state: JobState, signal: SentSignal, now: datetime) -> None:
        """Nobody waits for it yet."""
        steps = self.tables.steps
        number = connection.execute(select(func.count()).where(steps.c.job_id == state.id)).scalar_one()
        if number >= MOST:
            raise errors.InvalidStep(f"job {state.id} has {number:,} steps and signals; it can have {MOST:,}")
        self.suspended.touch(connection, [state])
        row = {
            "job_id": state.id,
            "kind": StepKind.SIGNAL.value,
            "name": signal.name,
            "state": StepState.EARLY.value,
            "attempt_number": state.attempt_count,
            "place": 0,
            "created_at": now,
            **_value(signal, now),
        }
        try:
            connection.execute(insert(steps).values(row))
        except DBAPIError as error:
            if self.database.dialect.is_duplicate(error):
                raise Conflict("another signal of this name came meanwhile") from error
            raise

    def _hand_over(
        self, connection: Connection, state: JobState, signal: SentSignal, now: datetime, actor: str | None
    ) -> None:
        """The handler has asked for it."""
        steps = self.tables.steps
        ready = {"state": StepState.READY.value, "wake_at": null(), **_value(signal, now)}
        waiting = (steps.c.job_id == state.id, steps.c.kind == StepKind.SIGNAL.value, steps.c.name == signal.name)
        still = steps.c.state == StepState.WAITING.value
        all_changed(connection.execute(update(steps).where(*waiting, still).values(ready)).rowcount, 1)
        self.suspended.go_on(connection, [state], f"the signal {signal.name} came", actor)

    def _row(self, connection: Connection, job_id: str, name: str) -> Any:
        c = self.tables.steps.c
        query = select(c.state, c.token).where(c.job_id == job_id, c.kind == StepKind.SIGNAL.value, c.name == name)
        return connection.execute(query).one_or_none()


def _value(signal: SentSignal, now: datetime) -> dict[str, Any]:
    return {"result": signal.value, "size": len(signal.value.encode()), "token": signal.token, "finished_at": now}
