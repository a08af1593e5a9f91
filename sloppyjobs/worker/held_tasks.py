"""The attempts that a worker holds, from the claim until the settlement is accepted. Any thread may call it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from sloppyjobs.domain.log_lines import get_logger
from sloppyjobs.domain.model import Settlement
from sloppyjobs.domain.states import Outcome, Released
from sloppyjobs.errors import DecryptionFailed
from sloppyjobs.storage.ports.claims import Fence
from sloppyjobs.worker import executor
from sloppyjobs.worker.reports import WorkerReports
from sloppyjobs.worker.stuck import StuckHandlers
from sloppyjobs.worker.task import Task

log = get_logger("sloppyjobs.worker")


class HeldTasks:
    """Tasks by fence, and the queue of those that have finished and are to be settled.

    ``on_finished`` is called when there is something to settle, ``on_free_slot`` when there is room to claim.
    """

    def __init__(
        self,
        concurrency: int,
        reports: WorkerReports,
        on_finished: Callable[[], None],
        on_free_slot: Callable[[], None],
    ) -> None:
        self.stuck = StuckHandlers(concurrency)
        self.finished: deque[tuple[Task, Settlement]] = deque()
        self._reports = reports
        self._on_finished = on_finished
        self._on_free_slot = on_free_slot
        self._tasks: dict[Fence, Task] = {}
        self._with_timeout: dict[Fence, Task] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, task: Task) -> None:
        """Hold a task."""
        fence, job = task.fence, task.claim.job
        self._tasks[fence] = task
        if job.timeout is not None and job.damage is None:
            self._with_timeout[fence] = task

    def remove(self, fence: Fence) -> Task | None:
        """Hold a task no more."""
        return self._tasks.pop(fence, None)

    def clear(self) -> None:
        """Hold nothing, and settle nothing."""
        self._tasks.clear()
        self._with_timeout.clear()
        self.finished.clear()

    def unfinished(self) -> list[Task]:
        """The attempts that are still ours to settle."""
        return [task for task in list(self._tasks.values()) if not task.finished]

    def running(self) -> int:
        """How many handlers run at this moment."""
        return sum(1 for task in list(self._tasks.values()) if task.started is not None and not task.finished)

    # How an attempt ends

    def finish(self, task: Task, outcome: Outcome) -> None:
        """An attempt has ended and is to be settled. Only the first outcome counts."""
        # Decided here, mostly while the loop waits for the database; and before the task counts as finished, so that
        # one whose outcome cannot be decided can still be finished with another.
        settlement = task.settlement(outcome)
        if task.finish():
            self.finished.append((task, settlement))
            self._on_finished()
        else:
            log.info("job %s finished after its attempt had ended; ignored", task.claim.id)
            if self.stuck.remove(task):
                self._on_free_slot()

    def abandon(self, task: Task, reason: str) -> None:
        """The attempt is not ours any more: stop its handler, settle nothing."""
        if not task.withdraw():
            self.stuck.add(task)
        if task.finish():
            log.warning("job %s is not ours any more: %s", task.claim.id, reason)
            task.signal.abort(reason)
            self.remove(task.fence)
            if self._reports.used:
                self._reports.end_attempt(task.fence)
            self._on_free_slot()
        else:
            self.stuck.remove(task)

    def release(self, task: Task) -> bool:
        """Return a task that has not started to its queue; False when it has."""
        if not task.withdraw():
            return False
        self.finish(task, Released())
        return True

    def refuse(self, task: Task, damage: str) -> None:
        """A job whose row cannot be read ends without having run, and alone."""
        task.withdraw()
        log.error("job %s cannot be run, because its row is damaged: %s", task.claim.id, damage)
        self.finish(task, executor.unreadable(damage))

    def refuse_unreadable(self, task: Task, error: DecryptionFailed) -> None:
        """A job whose payload cannot be decrypted ends without having run."""
        task.withdraw()
        self.finish(task, executor.invalid_payload(task, error))

    def expire_unstarted(self, task: Task) -> None:
        """A job that had expired when it was claimed ends without having run."""
        task.withdraw()
        self.finish(task, executor.not_started())

    # Timeouts

    def deadlines(self) -> list[float]:
        """When handlers must have finished, on the monotonic clock."""
        return [deadline for task in self._with_timeout.values() if (deadline := task.deadline()) is not None]

    def expire(self) -> None:
        """End the attempts whose handlers have run longer than their timeout."""
        now = time.monotonic()
        for fence, task in list(self._with_timeout.items()):
            deadline = task.deadline()
            if task.finished:
                del self._with_timeout[fence]
            elif deadline is not None and task.started is not None and now >= deadline:
                self.stuck.add(task)
                self.finish(task, executor.timed_out(task))
                task.signal.abort("timeout")
