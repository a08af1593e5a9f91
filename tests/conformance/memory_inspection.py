"""The ``Inspection`` of the store in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memory_state import State, moved

from sloppyjobs.domain.states import Status
from sloppyjobs.storage.ports.records import (
    AttemptRecord,
    CounterRecord,
    EventRecord,
    JobRecord,
    LockRecord,
    LogRecord,
    QueueRecord,
    WorkerRecord,
)


class MemoryInspection:
    """What is kept, as it is."""

    def __init__(self, state: State) -> None:
        self._state = state

    def job(self, job_id: str) -> JobRecord:
        """The job with this id."""
        return self._state.jobs[job_id]

    def jobs(self) -> list[JobRecord]:
        """Every job, by id."""
        return sorted(self._state.jobs.values())

    def attempts(self, job_id: str | None = None) -> list[AttemptRecord]:
        """Attempts by job and number."""
        found = self._state.attempts
        return [found[key] for key in sorted(found) if job_id is None or key[0] == job_id]

    def events(self, job_id: str | None = None) -> list[EventRecord]:
        """Events, oldest first."""
        return [event for event in self._state.events if job_id is None or event.job_id == job_id]

    def queues(self) -> list[QueueRecord]:
        """Every queue, by name."""
        return [queue for _, queue in sorted(self._state.queues.items())]

    def locks(self) -> list[LockRecord]:
        """Every lock, by name."""
        return [lock for _, lock in sorted(self._state.locks.items())]

    def workers(self) -> list[WorkerRecord]:
        """Every worker, by id."""
        return [worker for _, worker in sorted(self._state.workers.items())]

    def logs(self) -> list[LogRecord]:
        """Every log line, oldest first."""
        return list(self._state.logs)

    def counters(self) -> list[CounterRecord]:
        """The counters, by minute."""
        return [counter for _, counter in sorted(self._state.counters.items())]

    def counts(self) -> dict[str, int]:
        """How much there is of each kind."""
        kinds = ("jobs", "attempts", "events", "queues", "locks", "workers", "logs", "counters")
        return {kind: len(getattr(self._state, kind)) for kind in kinds}

    def add_jobs(self, jobs: Sequence[JobRecord]) -> None:
        """Keep jobs as they are."""
        with self._state as state:
            state.jobs |= {job.id: job for job in jobs}

    def set_job(self, job_id: str, **values: Any) -> None:
        """Change a job."""
        with self._state as state:
            state.jobs[job_id] = state.jobs[job_id]._replace(**values)

    def set_queue(self, name: str, **values: Any) -> None:
        """Change a queue."""
        with self._state as state:
            state.queues[name] = state.queues[name]._replace(**values)

    def cancel(self, job_id: str) -> None:
        """Cancel a job, and its attempt if it has one that runs."""
        with self._state as state:
            now, job = state.clock.now(), state.jobs[job_id]
            running = job.status == "processing"
            number = job.attempt_count if running else None
            state.jobs[job_id] = job._replace(
                status="cancelled", updated_at=now, finished_at=now, locked_by=None, locked_until=None
            )
            state.events += moved(job_id, (Status(job.status), Status.CANCELLED), now, number, job.locked_by)
            if running:
                key = (job_id, job.attempt_count)
                state.attempts[key] = state.attempts[key]._replace(status="cancelled", finished_at=now)
