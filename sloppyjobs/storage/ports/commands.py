"""What operators do, what is kept of it, and what is removed when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from sloppyjobs.domain.states import Status
from sloppyjobs.storage.ports.operators import (
    Asked,
    AuditFilter,
    AuditRow,
    Command,
    Decide,
    Moved,
    Outcome,
    Run,
    SentForm,
    Tally,
)
from sloppyjobs.storage.ports.reads import Cause, Key, Scope


class AuditPort(Protocol):
    """Commands on jobs and queues, each in one transaction with its audit entry; a store has it as ``audit``."""

    def command_job(self, job_id: str, decide: Decide, command: Command) -> bool:
        """Command one job; False when there was nothing to do, and then nothing is written."""
        ...

    def command_jobs(
        self,
        ids: Sequence[str],
        decide: Decide,
        command: Command,
        *,
        since: int,
        detail: Callable[[Sequence[Outcome]], Mapping[str, Any]],
    ) -> list[Outcome]:
        """Command several jobs, each fenced on its own; those with an event after ``since`` are left alone."""
        ...

    def begin_command(self) -> int:
        """The mark from which a command on many jobs counts what others change meanwhile."""
        ...

    def set_queue_paused(self, name: str, paused: bool, until: datetime | None, command: Command) -> bool:
        """Pause a queue, which need not exist yet, or resume it; False when it was so already."""
        ...

    def record(self, command: Command, target_type: str, target: str, detail: Mapping[str, Any]) -> None:
        """Write an entry of something that is done already."""
        ...

    def entries(
        self, wanted: AuditFilter, after: Key | None, *, backward: bool, limit: int
    ) -> tuple[list[AuditRow], Key | None]:
        """Entries beyond a key, latest first or backward, and the key after which to go on."""
        ...


class RetryRunPort(Protocol):
    """Retries of a cause of death; a store has it as ``retry_runs``."""

    def begin_canary(self, asked: Asked, count: int) -> Run:
        """Retry the oldest ``count`` dead jobs of a cause, and remember which; ``InvalidTransition`` for none."""
        ...

    def begin_rest(self, asked: Asked, rate: float) -> Run:
        """Let the workers retry all that are dead of a cause now; ``InvalidTransition`` where a run does so."""
        ...

    def advance(self, run_id: str, decide: Decide) -> int:
        """Retry what is due by the rate of a run, or end the run; how many it retried."""
        ...

    def stop(self, run_id: str, command: Command) -> bool:
        """Stop a run; False where it has ended already."""
        ...


class RetryRunRowPort(Protocol):
    """The rows of these retries, and what has become of their jobs; a store has it as ``retry_run_rows``."""

    def due(self) -> list[str]:
        """The ids of the runs that have something to do now."""
        ...

    def get(self, run_id: str) -> Run | None:
        """The run with this id."""
        ...

    def latest(self, asked: Sequence[tuple[str, str]], scope: Scope) -> list[Run]:
        """The latest run of each cause and kind that somebody with this scope sees, where there is one."""
        ...

    def tallies(self, runs: Sequence[Run]) -> list[Tally]:
        """What has become of the jobs of each run."""
        ...

    def member_ids(self, run_id: str) -> list[str]:
        """The latest jobs of a run."""
        ...

    def run_cause(self, cause: str) -> Cause | None:
        """What a cause consists of, where it was ever retried as such."""
        ...


class FormKeyPort(Protocol):
    """Forms that were sent, each done once; a store has it as ``form_keys``."""

    def claim(self, key: str, claimed_by: str) -> SentForm:
        """Take a key that nobody has taken; the result says whose it is."""
        ...

    def sent(self, key: str) -> SentForm | None:
        """Who has taken a key; None where nobody has."""
        ...

    def finish(self, key: str, claimed_by: str, answer: str) -> None:
        """Keep the answer for whoever sends the form another time."""
        ...

    def release(self, key: str, claimed_by: str) -> None:
        """Give a key back: nothing was done."""
        ...

    def remove(self, before: datetime, limit: int) -> int:
        """Remove up to ``limit`` keys that were taken before an instant."""
        ...


class ThrottlePort(Protocol):
    """Failures of clients, counted over a span of time; a store has it as ``throttles``."""

    def failures(self, client: str, window: float) -> tuple[int, float]:
        """How often a client has failed in its present span, and how many seconds are left of that."""
        ...

    def count(self, client: str, window: float) -> None:
        """Count one failure more; the first after the end of a span begins the next."""
        ...

    def remove(self, before: datetime) -> int:
        """Remove the spans that began before an instant."""
        ...


class RetentionPort(Protocol):
    """The soft delete of finished jobs, and the removal of deleted ones; a store has it as ``retention``."""

    def soft_delete(self, status: Status, before: datetime, limit: int, command: Command) -> Moved:
        """Move up to ``limit`` jobs of a finished status that ended before an instant to ``deleted``."""
        ...

    def purge(self, before: datetime, limit: int, *, archive: bool) -> Moved:
        """Remove up to ``limit`` jobs that were deleted before an instant, or move them to the archive.

        Those stay of which something is needed still: a result by a job that may run, a key until its window is over.
        """
        ...


class CleanupPort(Protocol):
    """Removal of what nobody reads any more, up to ``limit`` rows a call; a store has it as ``cleanup``."""

    def remove_stats(self, before: datetime, limit: int) -> int:
        """Remove the oldest counters of before an instant."""
        ...

    def roll_up_stats(self, before: datetime, limit: int) -> int:
        """Add up counters of minutes before an instant to one row an hour; how many it took."""
        ...

    def remove_workers(self, before: datetime, limit: int) -> int:
        """Remove workers that were last heard of before an instant."""
        ...

    def remove_locks(self, before: datetime, limit: int) -> int:
        """Remove locks that expired before an instant."""
        ...

    def remove_audit(self, before: datetime, limit: int) -> int:
        """Remove the oldest audit entries of before an instant."""
        ...

    def remove_deaths(self, before: datetime, limit: int) -> int:
        """Remove what is remembered of deaths before an instant."""
        ...

    def release_waiting(self, limit: int) -> int:
        """Look again at jobs that wait for others, and let those go on that need not; how many it was."""
        ...

    def mend_batches(self, limit: int) -> int:
        """Look again at jobs that batches wait for, and remove the rows of those that have ended; how many it was."""
        ...

    def remove_batches(self, before: datetime, limit: int) -> int:
        """Remove batches that ended before an instant."""
        ...

    def remove_keys(self, before: datetime, limit: int) -> int:
        """Remove business keys from before an instant whose jobs have ended and whose windows are over."""
        ...

    def remove_retry_runs(self, before: datetime, limit: int) -> int:
        """Remove retries of causes that ended before an instant."""
        ...
