"""What a worker does beside its jobs: fires schedules, advances retries, raises alerts, removes old jobs.

Each method is one step of a thread and returns how many seconds to wait before the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sloppyjobs.retention import maintain
from sloppyjobs.storage.ports import MAINTENANCE, answer_timeout
from sloppyjobs.worker.storage import WorkerStorage

if TYPE_CHECKING:
    from sloppyjobs.jobs import Jobs

TICK_SECONDS = 1.0
SHORTEST_TICK = 0.1
RETRY_RUNS_SECONDS = 2.0
"""How often a worker looks whether a retry of a cause of death has something to do."""
MAINTENANCE_SECONDS = 60.0
FIRST_MAINTENANCE_SECONDS = 10.0
"""How long after its start a worker first removes old jobs: until then it has jobs to run that waited for it."""
ALERT_SECONDS = 10.0
"""How often a worker looks whether somebody is to be told of something."""


class PeriodicWork:
    """The steps of one worker, which is the owner of the locks that they take."""

    def __init__(
        self,
        jobs: Jobs,
        worker_id: str,
        storage: WorkerStorage,
        advance_retry_runs: Callable[[], int],
        evaluate_alerts: Callable[[str | None], int],
    ) -> None:
        self._jobs = jobs
        self._worker_id = worker_id
        self._storage = storage
        self._advance_retry_runs = advance_retry_runs
        self._evaluate_alerts = evaluate_alerts
        self._schedules_synced = False
        self._limits_synced = False
        self._retry_runs_at = -RETRY_RUNS_SECONDS
        self._maintains = False

    def tick(self) -> float:
        """Advance retries and fire schedules. Looks first: most seconds have nothing to fire."""
        self.retry_runs()
        self.sync_schedules()
        due_in = self._storage.firing.next_in()
        if due_in is not None and due_in <= 0:
            self.fire_schedules()
            return SHORTEST_TICK
        return TICK_SECONDS if due_in is None else max(SHORTEST_TICK, min(TICK_SECONDS, due_in))

    def retry_runs(self) -> float:
        """Advance the retries of causes of death, every other second."""
        wait = self._retry_runs_at + RETRY_RUNS_SECONDS - time.monotonic()
        if wait > 0:
            return wait
        self._retry_runs_at = time.monotonic()
        self._advance_retry_runs()
        return RETRY_RUNS_SECONDS

    def alerts(self) -> float:
        """Look whether a rule for alerts is met, unless another worker has just done so."""
        self._evaluate_alerts(self._worker_id)
        return ALERT_SECONDS

    def maintain(self) -> float:
        """Remove old jobs; not at once, because the statements for that are compiled at their first use."""
        if not self._maintains:
            self._maintains = True
            return FIRST_MAINTENANCE_SECONDS
        with answer_timeout(at_least=MAINTENANCE):
            maintain(self._jobs, owner=self._worker_id)
        return MAINTENANCE_SECONDS

    def run_all_due(self, *, recurring: bool) -> None:
        """Advance every retry that is due now and, where asked for, fire every schedule."""
        self._advance_retry_runs()
        self.sync_limits()
        self._evaluate_alerts(None)
        if recurring:
            self.sync_schedules()
            self.fire_schedules()

    def sync_limits(self) -> None:
        """Write the limits and queues that the code declares, once in the worker's life."""
        if not self._limits_synced:
            self._jobs.declared_limits.sync()
            self._jobs.declared_queues.sync()
            self._limits_synced = True

    def sync_schedules(self) -> None:
        """Write the schedules that the code declares, once in the worker's life."""
        if not self._schedules_synced:
            self._jobs.schedules.sync()
            self._schedules_synced = True

    def fire_schedules(self) -> None:
        """Enqueue what schedules are due."""
        self._jobs.tick_recurring(owner=self._worker_id)
