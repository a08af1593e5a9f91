"""Keeping what is held: leases are renewed, the worker's row is touched, and lost attempts are stopped."""

from __future__ import annotations

import time
from collections.abc import Callable

from sloppyjobs import errors
from sloppyjobs.domain.model import WorkerInfo
from sloppyjobs.storage.ports import answer_timeout
from sloppyjobs.worker.loop import Turnstile
from sloppyjobs.worker.task import Task

LOOK_SECONDS = 1.0
"""How soon a handler learns that its job was cancelled."""

HOARD_SECONDS = 1.0
"""A job that was fetched ahead and has not started by then is given back, so that others can have it."""


class Leases:
    """One step of the thread that keeps the leases."""

    def __init__(self, turnstile: Turnstile, info: Callable[[], WorkerInfo]) -> None:
        self._turnstile = turnstile
        self._storage = turnstile.storage
        self._info = info
        self._next_beat = 0.0

    def step(self) -> float:
        """Renew or look, stop what is lost, give back what is hoarded; returns the seconds until the next step."""
        settings, now = self._turnstile.settings, time.monotonic()
        held = self._turnstile.held()
        fences = [task.fence for task in held]
        if now >= self._next_beat:
            self._next_beat = now + settings.heartbeat
            with answer_timeout(at_most=settings.renewal_timeout):
                kept = set(self._storage.renew(self._turnstile.worker_id, fences, settings.lease))
                self._storage.workers.heartbeat(self._info())
        else:
            kept = self._storage.still_held(self._turnstile.worker_id, fences)
        for task in held:
            if task.fence not in kept and not task.finished:
                self._turnstile.abandon(task, self._why(task))
        self._give_back_hoarded(held, now)
        self._turnstile.reports.flush()
        return min(LOOK_SECONDS, settings.heartbeat)

    def _why(self, task: Task) -> str:
        try:
            job = self._storage.get_job(task.claim.id)
        except errors.UnknownJob:
            return "the job is gone"
        return "cancelled" if job.status == "cancelled" else "the lease was lost"

    def _give_back_hoarded(self, held: list[Task], now: float) -> None:
        fixed = self._turnstile.settings.prefetch is not None
        full = self._turnstile.full()
        for task in held:
            if fixed and task.definition.isolation not in full:
                # It was asked for that so many are held ready; but not behind handlers that never return.
                continue
            if now - task.held_since > HOARD_SECONDS and self._turnstile.give_back(task):
                self._turnstile.prefetch.hoarded()
