"""After a settlement was accepted: numbers for the metrics, and the hooks that the application has asked for.

A settlement is a worker's own, or that of an attempt whose worker was not heard of any more.

Hooks run in a thread of their own, so that a slow one holds up neither settlements nor claims.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import queue
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from sloppyjobs import telemetry
from sloppyjobs.hooks import Hooks, JobHook
from sloppyjobs.model import Ended, Job
from sloppyjobs.states import AttemptStatus, Decision, Status
from sloppyjobs.storage import SqlStorage

if TYPE_CHECKING:
    from sloppyjobs.worker.metrics import WorkerMetrics

log = logging.getLogger("sloppyjobs.hooks")
log_lost = logging.getLogger("sloppyjobs.worker")

_Call = tuple[tuple[JobHook, ...], Job, Decision]


class Aftermath:
    """Tells metrics and hooks what became of attempts. Costs nothing while nobody listens."""

    def __init__(self, hooks: Hooks, storage: SqlStorage) -> None:
        self._hooks = hooks
        self._storage = storage
        self._calls: queue.SimpleQueue[list[_Call] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.metrics: WorkerMetrics | None = None

    @property
    def wanted(self) -> bool:
        """Whether anybody listens."""
        return self.metrics is not None or bool(self._hooks.dead or self._hooks.retry)

    def settled(self, ended: Sequence[Ended], *, wait: bool = False) -> None:
        """These outcomes were accepted. With ``wait`` the hooks have been called when this returns."""
        if self.metrics is not None:
            for job, settlement in ended:
                self.metrics.settled(job.name, outcome(settlement.decision), settlement.run_seconds)
        calls = [
            (hooks, job, settlement.decision)
            for job, settlement in ended
            if (hooks := self._hooks_for(settlement.decision))
        ]
        if calls and wait:
            self._call(calls)
        elif calls:
            self._calls.put(calls)
            self._serve()

    def lost(self, ended: Sequence[Ended], *, wait: bool = False) -> None:
        """These attempts were given up, because their leases had expired."""
        for job, settlement in ended:
            log_lost.warning(
                "job %s (%s) lost its worker %s in attempt %d; it is %s",
                *(job.id, job.name, settlement.worker_id, settlement.attempt, settlement.decision.path[-1]),
            )
        if ended and self.wanted:
            self.settled([Ended(telemetry.without_trace(job), one) for job, one in ended], wait=wait)

    def close(self, timeout: float) -> None:
        """Let the hooks that are due finish, for so many seconds at most."""
        if self._thread is not None:
            self._calls.put(None)
            self._thread.join(timeout)
            self._thread = None

    def _hooks_for(self, decision: Decision) -> tuple[JobHook, ...]:
        match outcome(decision):
            case "dead":
                return self._hooks.dead
            case "retrying" | "lost":
                return self._hooks.retry
            case _:
                return ()

    def _serve(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._repeat, name="sloppyjobs-hooks", daemon=True)
            self._thread.start()

    def _repeat(self) -> None:
        while (calls := self._calls.get()) is not None:
            self._call(calls)

    def _call(self, calls: Sequence[_Call]) -> None:
        for hooks, job, decision in calls:
            try:
                told = self._as_settled(job, decision)
            except Exception:
                log.exception("the hooks for job %s could not be called", job.id)
                continue
            for hook in hooks:
                self._call_one(hook, told)

    def _call_one(self, hook: JobHook, job: Job) -> None:
        try:
            with self._hooks.surroundings():
                answer = hook(job)
                if inspect.iscoroutine(answer):
                    asyncio.run(answer)
        except Exception:
            log.exception("the hook %r failed for job %s, which is %s all the same", hook, job.id, job.status)

    def _as_settled(self, job: Job, decision: Decision) -> Job:
        """The job as the settlement left it, and as it may not be any more."""
        now = self._storage.clock.now()
        failure = decision.failure
        status = decision.path[-1]
        dead = status is Status.DEAD
        return msgspec.structs.replace(
            job,
            status=status,
            run_at=now + timedelta(seconds=decision.delay) if status is Status.RETRYING else job.run_at,
            updated_at=now,
            finished_at=now if dead else None,
            locked_by=None,
            locked_until=None,
            error_code=failure.code if failure else None,
            error_type=failure.type if failure else None,
            error_message=failure.message if failure else None,
            error_frame=failure.frame if failure else None,
        )


def outcome(decision: Decision) -> str:
    """How an attempt ended, in a word: succeeded, retrying, dead, cancelled, snoozed, released or lost.

    Lost is one whose lease expired and whose job is queued again.
    """
    status = decision.path[-1]
    if decision.attempt in _OF_THEIR_OWN and status is not Status.DEAD:
        return decision.attempt.value
    return status.value


_OF_THEIR_OWN = (AttemptStatus.SNOOZED, AttemptStatus.RELEASED, AttemptStatus.LOST)
