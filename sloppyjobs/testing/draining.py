"""``drain`` and ``inline``: run jobs in a test, without a worker process and without waiting."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sloppyjobs import errors
from sloppyjobs.domain import options
from sloppyjobs.domain.model import Job, NewJob
from sloppyjobs.internals import internals
from sloppyjobs.jobs import Jobs
from sloppyjobs.testing.waking import Waking

LIMIT = 1_000
SHOWN_JOBS = 5


def drain(
    jobs: Jobs, limit: int = LIMIT, *, skip_sleeps: bool = False, signals: Mapping[str, Any] | None = None
) -> int:
    """Run everything that is due until nothing is, and return how many attempts were executed.

    That includes what handlers enqueue, retries without a delay, and schedules that are due. A job that is due later
    waits until the test moves its clock. Jobs whose handler is not defined here are left alone. Raises ``JobsError``,
    naming the jobs, when ``limit`` attempts did not bring it to an end.

    With ``skip_sleeps`` jobs whose handlers sleep go on: a ``FakeClock`` is moved to the instants at which they wake,
    and by any other clock their sleeps are cut short. ``signals`` are sent to jobs that wait for them, by their names.
    """
    waking = Waking(jobs, skip_sleeps, signals or {})
    return _drain(jobs, options.whole("limit", limit, least=1), waking, recurring=True)


@contextmanager
def inline(
    jobs: Jobs, limit: int = LIMIT, *, skip_sleeps: bool = False, signals: Mapping[str, Any] | None = None
) -> Iterator[None]:
    """Inside the block, whatever is due is run at every enqueue, in the calling thread, before ``enqueue`` returns.

    An exception in a handler settles its job as usual, and does not reach the caller. What a handler enqueues runs
    when the handler has ended. ``enqueue`` answers with the job as it was written; ``jobs.get`` shows what came of it.

    With ``session=`` or ``connection=`` nothing is run, because the job does not exist before the caller commits. It
    is run by the next enqueue outside a transaction, or by ``drain``.

    ``skip_sleeps`` and ``signals`` are those of ``drain``.
    """
    running = _Inline(jobs, options.whole("limit", limit, least=1), Waking(jobs, skip_sleeps, signals or {}))
    internals(jobs).observers.append(running.enqueued)
    try:
        yield
    finally:
        internals(jobs).observers.remove(running.enqueued)


class _Inline:
    """Drains at every enqueue; one drain at a time, which also runs what is enqueued meanwhile."""

    def __init__(self, jobs: Jobs, limit: int, waking: Waking) -> None:
        self._jobs = jobs
        self._waking = waking
        self._limit = limit
        self._wanted = False
        self._draining = threading.Lock()

    def enqueued(self, _new: NewJob, job: Job, committed: bool) -> None:
        if not committed or job.status != "queued":
            return
        self._wanted = True
        # The handlers' own enqueues find the lock taken, and leave it to the drain that is under way.
        while self._wanted and self._draining.acquire(blocking=False):
            try:
                self._wanted = False
                _drain(self._jobs, self._limit, self._waking, recurring=False)
            finally:
                self._draining.release()


def _drain(jobs: Jobs, limit: int, waking: Waking, *, recurring: bool) -> int:
    worker = jobs.create_worker(recurring=recurring, maintenance=False)
    executed = 0
    while (ran := worker.run_once()) or waking.wake():
        executed += ran
        if executed >= limit and (due := _still_due(jobs)):
            shown = ", ".join(f"{name} ({job_id})" for job_id, name in due)
            raise errors.JobsError(
                f"{executed} attempts were executed and there is still something due: {shown}; "
                f"if that is right, call it with a limit above {limit}"
            )
    return executed


def _still_due(jobs: Jobs) -> list[tuple[str, str]]:
    return jobs.storage.lists.due(jobs.definitions.handled(), SHOWN_JOBS)
