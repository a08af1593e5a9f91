"""What an operator sees of schedules and does to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

from sloppyjobs.admin.filters import command_given, scope_of
from sloppyjobs.domain import options
from sloppyjobs.domain.states import Status
from sloppyjobs.domain.stored_words import known_or
from sloppyjobs.schedules.occurrences import Recurring
from sloppyjobs.schedules.registry import Schedules
from sloppyjobs.schedules.settings import ScheduleChanges, ScheduleSettings
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.reads import Ran
from sloppyjobs.views import JobView, Occurrence, Page

LAST = 12
"""Occurrences of each schedule that a list shows."""


class ScheduleAdmin:
    """Reads and commands on schedules; those that code declares are changed there."""

    _storage: Store
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
        shown = options.listed("schedules", schedules)
        if not all(isinstance(one, Recurring) for one in shown):
            raise options.refuse("schedules", schedules, "must be schedules, as list_recurring tells them")
        ids = [one.id for one in shown]
        found = self._storage.recent_runs.last_runs(ids, LAST)
        return {
            one.name: tuple(
                _occurrence(ran)
                for ran in found.get(one.id, ())
                if ran.status in tuple(Status) and (scope is None or ran.queue in scope)
            )
            for one in shown
        }

    def create_recurring(
        self,
        name: str,
        job_name: str,
        payload: Any = None,
        *,
        actor: str | None = None,
        reason: str | None = None,
        **settings: Unpack[ScheduleSettings],
    ) -> Recurring:
        """Write a new schedule; the settings are those of ``Jobs.recurring``. ``DuplicateJob`` where the name is taken.

        Raises what ``Jobs.recurring`` raises for a schedule that cannot work, before anything is written.
        """
        command = command_given("create_recurring", actor, reason)
        return self._schedules.create(name, job_name, payload, settings, command)

    def edit_recurring(
        self, name: str, *, actor: str | None = None, reason: str | None = None, **changes: Unpack[ScheduleChanges]
    ) -> Recurring:
        """Change a schedule; what is not given stays as it is, its paused state always.

        One of ``cron``, ``every`` and ``at`` takes the place of the timing that it has, and the next occurrence is the
        first one after now. A schedule that is declared in code is changed there: ``InvalidTransition``.
        ``UnknownSchedule`` where there is none of that name.
        """
        unknown = changes.keys() - ScheduleChanges.__annotations__.keys()
        if unknown:
            raise options.unknown(min(unknown), ScheduleChanges.__annotations__, "edit_recurring")
        return self._schedules.edit(name, dict(changes), command_given("edit_recurring", actor, reason))

    def pause_recurring(self, name: str, *, actor: str | None = None, reason: str | None = None) -> Recurring:
        """Let a schedule not fire until it is resumed. Jobs that it enqueued go on."""
        return self._schedules.pause(name, command_given("pause_recurring", actor, reason))

    def resume_recurring(self, name: str, *, actor: str | None = None, reason: str | None = None) -> Recurring:
        """Let a schedule fire again, from its next occurrence on; what it missed is not made up for."""
        return self._schedules.resume(name, command_given("resume_recurring", actor, reason))

    def trigger_recurring(self, name: str, *, actor: str | None = None, reason: str | None = None) -> JobView:
        """Enqueue one job of a schedule now, paused or not; when it fires next does not change."""
        command = command_given("trigger_recurring", actor, reason)
        return self.get_job(self._schedules.trigger(name, actor=command.actor, command=command).id)

    def delete_recurring(self, name: str, *, actor: str | None = None, reason: str | None = None) -> Recurring:
        """Remove a schedule for good, and return it as it was. Jobs that it enqueued go on."""
        return self._schedules.delete(name, command_given("delete_recurring", actor, reason))


def _occurrence(ran: Ran) -> Occurrence:
    return Occurrence(
        at=ran.occurrence_at,
        job_id=ran.id,
        status=known_or(Status.FAILED, ran.status),
        manual=ran.idempotency_key is None,
        run_seconds=ran.run_seconds,
        ended=ran.attempt_status,
    )
