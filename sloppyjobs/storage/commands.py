"""What an operator may do to a job: single, fenced walks along the edges of the state machine."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, select, update

from sloppyjobs import errors
from sloppyjobs.model import Job
from sloppyjobs.states import FINISHED, AttemptStatus, Status, check, event_type
from sloppyjobs.storage import rows
from sloppyjobs.storage.column_types import NAME_LENGTH
from sloppyjobs.storage.database import cursor_of
from sloppyjobs.storage.redactions import Redacting


class Step(NamedTuple):
    """Where a command takes a job, the values it sets on the way, and the name of the event."""

    target: Status
    values: dict[str, Any]
    event: str


Decide = Callable[[Job, str | None, datetime], Step | None]
"""What a command means for a job, its stored retry policy and the time; None when there is nothing to do.

Raises ``InvalidTransition`` where the command is not allowed.
"""


class Commanding(Redacting):
    """Transitions that somebody asks for."""

    def get_job(self, job_id: str, connection: Connection | None = None) -> Job:
        """The job with this id, or ``UnknownJob``."""
        self.ensure_schema(connection)
        jobs = self.tables.jobs
        query = select(*rows.columns(jobs, rows.JOB_FIELDS)).where(jobs.c.id == possible_id(job_id))
        row = self.read(lambda c: c.execute(query).one_or_none(), connection)
        if row is None:
            raise unknown(job_id)
        return rows.job(row)

    def transition(
        self,
        connection: Connection,
        job_id: str,
        target: Status,
        *,
        values: dict[str, Any] | None = None,
        actor: str | None = None,
        message: str | None = None,
    ) -> tuple[Job, bool]:
        """Walk one edge, under the row's lock; a job that is there already is returned as it is.

        Raises ``InvalidTransition`` where the state machine has no such edge. The flag says whether anything
        was written.
        """
        row = self._locked_job(connection, job_id)
        before = rows.job(row)
        if before.status is target:
            return before, False
        check(before.status, target, f"job {job_id}")
        step = Step(target, values or {}, event_type(before.status, target))
        self._write_edge(connection, before, step, actor, message)
        return rows.job(self._locked_job(connection, job_id)), True

    def command(
        self,
        connection: Connection,
        job_id: str,
        decide: Decide,
        *,
        actor: str | None = None,
        message: str | None = None,
    ) -> tuple[Job, Step | None]:
        """Decide under the row's lock what a command means for the job, and do it.

        Returns the job as it was before, and the step that was taken; None when there was nothing to do.
        """
        row = self._locked_job(connection, job_id)
        before = rows.job(row)
        step = decide(before, row.retry_policy, self.now(connection))
        if step is not None:
            check(before.status, step.target, f"job {job_id}")
            self._write_edge(connection, before, step, actor, message)
        return before, step

    def _locked_job(self, connection: Connection, job_id: str) -> Row[Any]:
        jobs = self.tables.jobs
        columns = rows.columns(jobs, (*rows.JOB_FIELDS, "retry_policy"))
        query = select(*columns).where(jobs.c.id == possible_id(job_id))
        row = connection.execute(self.locked(query)).one_or_none()
        if row is None:
            raise unknown(job_id)
        return row

    def _write_edge(
        self,
        connection: Connection,
        before: Job,
        step: Step,
        actor: str | None,
        message: str | None,
    ) -> None:
        target = step.target
        now = self.now(connection)
        jobs, attempts = self.tables.jobs, self.tables.attempts
        changes: dict[str, Any] = {
            "status": target.value,
            "updated_at": now,
            "locked_by": None,
            "locked_until": None,
            # Retention counts from the end of the work, not from the soft delete that follows it.
            "finished_at": (before.finished_at or now) if target in FINISHED else None,
            **step.values,
        }
        connection.execute(update(jobs).where(jobs.c.id == before.id).values(changes))
        if before.status is Status.PROCESSING:
            running = (attempts.c.job_id == before.id, attempts.c.attempt_number == before.attempt_count)
            ended = {
                "status": AttemptStatus.CANCELLED.value,
                "finished_at": now,
                "error_code": errors.CANCELLED,
                "error_message": message,
            }
            connection.execute(update(attempts).where(*running).values(ended))
        self.prepared("record edge", self._record_edge).many(
            cursor_of(connection),
            [
                {
                    "job_id": before.id,
                    "event_type": step.event,
                    "from_status": before.status.value,
                    "to_status": target.value,
                    "attempt_number": before.attempt_count if before.status is Status.PROCESSING else None,
                    "worker_id": before.locked_by,
                    "actor": actor,
                    "message": message,
                    "created_at": self.to_driver(now),
                }
            ],
        )
        if target is Status.QUEUED or before.status is Status.PROCESSING:
            self.announce(connection)


def possible_id(job_id: object) -> str:
    """The id, if a row could have it; ``UnknownJob`` for what no database would even take as text."""
    if not isinstance(job_id, str) or len(job_id) > NAME_LENGTH or not job_id.isprintable():
        raise unknown(job_id)
    return job_id


def unknown(job_id: object) -> errors.UnknownJob:
    """The error for an id that no row has."""
    shown = repr(job_id)
    if len(shown) > 2 * NAME_LENGTH:
        shown = shown[: 2 * NAME_LENGTH] + "…"
    return errors.UnknownJob(f"no job has the id {shown}; it may have been purged")
