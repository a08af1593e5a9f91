"""What an operator sees of schedules and does to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from sqlalchemy import Connection

from sloppyjobs.admin.filters import command_given, scope_of
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.states import Status
from sloppyjobs.schedules.occurrences import Recurring
from sloppyjobs.schedules.registry import Schedules
from sloppyjobs.storage import SqlStorage
from sloppyjobs.storage.ports.operators import Command
from sloppyjobs.storage.ports.reads import Ran
from sloppyjobs.views import JobView, Occurrence, Page

T = TypeVar("T")

LAST = 12
"""Occurrences of each schedule that a list shows."""


class ScheduleAdmin:
    """Reads and commands on schedules; they are changed by registering them again."""

    _storage: SqlStorage
    _schedules: Schedules

    def get_job(self, id: str) -> JobView:
        """The job, as the admin shows it."""
        raise NotImplementedError

    def list_recurring(
        self, *, cursor: str | None = None, page_size: int = 50, queues: Iterable[str] | None = None
    ) -> Page[Recurring]:
        """Every schedule, by name; with ``queues``, only those whose jobs go to these."""
        return self._schedules.page(page_size, cursor, scope_of(queues))

    def get_recurring(self, name: str) -> Recurring:
        """One schedule; ``UnknownSchedule`` where there is none of that name."""
        return self._schedules.get(name)

    def last_occurrences(
        self, schedules: Sequence[Recurring], *, queues: Iterable[str] | None = None
    ) -> Mapping[str, tuple[Occurrence, ...]]:
        """The last 12 jobs of each of these schedules, by its name, latest first; ``queues`` as everywhere."""
        self._storage.ensure_schema()
        scope = scope_of(queues)
        ids = [one.id for one in schedules]
        found = self._storage.recent_runs.last_runs(ids, LAST)
        return {
            one.name: tuple(
                _occurrence(ran)
                for ran in found.get(one.id, ())
                if ran.status in tuple(Status) and (scope is None or ran.queue in scope)
            )
            for one in schedules
        }

    def pause_recurring(self, name: str, *, actor: str | None = None, reason: str | None = None) -> Recurring:
        """Let a schedule not fire until it is resumed. Jobs that it enqueued go on."""
        return self._set_paused(name, True, command_given("pause_recurring", actor, reason))

    def resume_recurring(self, name: str, *, actor: str | None = None, reason: str | None = None) -> Recurring:
        """Let a schedule fire again, from its next occurrence on; what it missed is not made up for."""
        return self._set_paused(name, False, command_given("resume_recurring", actor, reason))

    def trigger_recurring(self, name: str, *, actor: str | None = None, reason: str | None = None) -> JobView:
        """Enqueue one job of a schedule now, paused or not; when it fires next does not change."""
        command = command_given("trigger_recurring", actor, reason)

        def work(connection: Connection) -> Job:
            job = self._schedules.trigger(name, actor=command.actor, connection=connection)
            self._storage.audit.record(command, "schedule", name, {"job": job.id}, connection)
            return job

        return self.get_job(self._in_transaction(work).id)

    def delete_recurring(self, name: str, *, actor: str | None = None, reason: str | None = None) -> Recurring:
        """Remove a schedule for good, and return it as it was. Jobs that it enqueued go on."""
        command = command_given("delete_recurring", actor, reason)

        def work(connection: Connection) -> Recurring:
            gone = self._schedules.delete(name, connection)
            self._storage.audit.record(command, "schedule", name, {"job_name": gone.job_name}, connection)
            return gone

        return self._in_transaction(work)

    def _set_paused(self, name: str, paused: bool, command: Command) -> Recurring:
        def work(connection: Connection) -> None:
            if self._storage.schedules.set_paused(name, paused, connection):
                self._storage.audit.record(command, "schedule", name, {}, connection)

        self._in_transaction(work)
        return self._schedules.get(name)

    def _in_transaction(self, work: Callable[[Connection], T]) -> T:
        self._storage.ensure_schema()
        return self._storage.database.write(work)


def _occurrence(ran: Ran) -> Occurrence:
    return Occurrence(
        at=ran.occurrence_at,
        job_id=ran.id,
        status=Status(ran.status),
        manual=ran.idempotency_key is None,
        run_seconds=ran.run_seconds,
        ended=ran.attempt_status,
    )
