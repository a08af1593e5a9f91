"""Leases of held attempts are renewed, the worker's row is touched, and lost attempts are stopped."""

from __future__ import annotations

import time
from collections.abc import Callable

from sloppyjobs import errors
from sloppyjobs.domain.model import WorkerInfo
from sloppyjobs.storage.ports import answer_timeout
from sloppyjobs.storage.ports.claims import Fence
from sloppyjobs.worker.loop import WorkerLoop
from sloppyjobs.worker.task import Task

CHECK_SECONDS = 1.0
"""How soon a handler learns that its job was cancelled."""

PREFETCH_SECONDS = 1.0
"""A job that was prefetched and has not started by then is released, so that other workers can have it."""


class Leases:
    """One step of the thread that renews the leases."""

    def __init__(self, loop: WorkerLoop, info: Callable[[], WorkerInfo]) -> None:
        self._loop = loop
        self._storage = loop.storage
        self._info = info
        self._next_heartbeat = 0.0

    def step(self) -> float:
        """Renew or check, stop what is lost, release what waits too long; returns the seconds until the next step."""
        settings, now = self._loop.settings, time.monotonic()
        tasks = self._loop.tasks.unfinished()
        if now >= self._next_heartbeat:
            with answer_timeout(at_most=settings.renewal_timeout):
                still_held = self._loop.reports.renew_leases(self._fences)
                wanted = self._storage.workers.heartbeat(self._info())
            # Only then: one that failed is retried by the next step, which would have nothing else to ask. A worker
            # that does something else from now on says so by the next step, too.
            self._next_heartbeat = now if self._loop.obey(wanted) else now + settings.heartbeat
        else:
            still_held = self._storage.still_held(self._loop.worker_id, [task.fence for task in tasks])
        for task in tasks:
            if task.fence not in still_held and not task.finished:
                self._loop.tasks.abandon(task, self._why_lost(task))
        self._release_unstarted(tasks, now)
        self._loop.reports.flush()
        return min(CHECK_SECONDS, settings.heartbeat)

    def _fences(self) -> list[Fence]:
        return [task.fence for task in self._loop.tasks.unfinished()]

    def _why_lost(self, task: Task) -> str:
        try:
            job = self._storage.get_job(task.claim.id)
        except errors.UnknownJob:
            return "the job is gone"
        return "cancelled" if job.status == "cancelled" else "the lease was lost"

    def _release_unstarted(self, tasks: list[Task], now: float) -> None:
        fixed = self._loop.settings.prefetch is not None
        full = self._loop.full()
        for task in tasks:
            if fixed and task.definition.isolation not in full:
                # A fixed number is to be held ready; but not behind handlers that never return.
                continue
            if now - task.claimed_at > PREFETCH_SECONDS and self._loop.tasks.release(task):
                self._loop.prefetch.waited_too_long()
