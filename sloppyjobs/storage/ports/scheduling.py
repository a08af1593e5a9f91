"""What the scheduler asks of a store."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from sloppyjobs.domain.model import Job
from sloppyjobs.storage.ports.operators import Command
from sloppyjobs.storage.ports.schedules import (
    DecideFiring,
    FirePosition,
    MakeJob,
    MakeSchedule,
    NewSchedule,
    StoredSchedule,
)


class SchedulePort(Protocol):
    """Schedules: registered, read, paused, triggered and removed; a store has it as ``schedules``.

    A command that is given is audited in the transaction that does it.
    """

    def register(self, new: NewSchedule) -> StoredSchedule | None:
        """Write a schedule, or update the one of that name; None for a declared one whose only time is past."""
        ...

    def change(self, name: str, make: MakeSchedule, command: Command) -> StoredSchedule:
        """Write what ``make`` makes of the schedule of that name, or of None; ``make`` is asked under its lock."""
        ...

    def mark_vanished(
        self, names: Collection[str], application: str | None, job_names: Collection[str] | None
    ) -> list[str]:
        """Stop the application's declared schedules that are not among ``names``; which these were."""
        ...

    def get(self, name: str) -> StoredSchedule:
        """The schedule of that name, or ``UnknownSchedule``."""
        ...

    def page(self, limit: int, after: str | None = None, *, backward: bool = False) -> list[StoredSchedule]:
        """Up to ``limit`` schedules in the order of their names or backward, beyond a name."""
        ...

    def jobs_of(
        self, schedule_id: str, limit: int, after: FirePosition | None = None, *, backward: bool = False
    ) -> list[Job]:
        """Up to ``limit`` jobs of a schedule beyond a position, newest occurrence first or backward."""
        ...

    def of_keys(self, start: str, end: str) -> str | None:
        """The schedule of the job with the greatest idempotency key from ``start`` to ``end``."""
        ...

    def set_paused(self, name: str, paused: bool, command: Command | None = None) -> bool:
        """Pause or resume; False when it was so already, and then nothing is written."""
        ...

    def trigger(self, name: str, make: MakeJob, command: Command | None = None) -> Job:
        """Enqueue the job that ``make`` makes of the schedule; its cursor stays where it is."""
        ...

    def delete(self, name: str, command: Command | None = None) -> StoredSchedule:
        """Remove a schedule, and return it as it was. Its jobs stay as they are."""
        ...


class FiringPort(Protocol):
    """Due schedules; a store has it as ``firing``."""

    def due(self, limit: int) -> list[str]:
        """The ids of up to ``limit`` due schedules in next-run order; last those that had failed before."""
        ...

    def next_in(self) -> float | None:
        """In how many seconds a schedule is due, 0 when one is due already; None when there is none."""
        ...

    def fire(self, schedule_id: str, decide: DecideFiring) -> list[Job] | None:
        """Fire a schedule if it is still due; the jobs that this call inserted, None where another fires it."""
        ...
