"""What follows an accepted settlement: metrics, log records, and the hooks of the application.

The settlement is one of the worker's own, or of an attempt whose lease expired.

Hooks run in a thread of their own, so that a slow one delays neither settlements nor claims.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from sloppyjobs.domain.log_lines import get_logger
from sloppyjobs.domain.model import Ended, Job
from sloppyjobs.domain.states import Decision, Status, outcome_name
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.logs import ATTEMPTS
from sloppyjobs.observe import traces
from sloppyjobs.observe.hooks import Hooks, JobHook
from sloppyjobs.worker.deferred_calls import DeferredCalls
from sloppyjobs.worker.observe.attempt_log import AttemptLog
from sloppyjobs.worker.storage import HookStorage

if TYPE_CHECKING:
    from sloppyjobs.worker.observe.metrics import WorkerMetrics

log = get_logger("sloppyjobs.hooks")
attempts = logging.getLogger(ATTEMPTS)

_Call = tuple[tuple[JobHook, ...], Job, Decision]


class SettlementHooks:
    """Tells metrics, the log and hooks how attempts ended. Successes cost nothing while nobody listens."""

    def __init__(self, hooks: Hooks, storage: HookStorage, definitions: Definitions) -> None:
        self._hooks = hooks
        self._storage = storage
        self._log = AttemptLog(definitions, storage)
        self._calls: DeferredCalls[list[_Call]] = DeferredCalls("sloppyjobs-hooks", self._call)
        self.metrics: WorkerMetrics | None = None

    @property
    def wants_successes(self) -> bool:
        """Whether anybody listens for successful attempts; the others are always reported."""
        return self.metrics is not None or attempts.isEnabledFor(logging.DEBUG)

    def settled(self, ended: Sequence[Ended], *, wait: bool = False) -> None:
        """These outcomes were accepted. With ``wait`` they are logged and the hooks called when this returns."""
        self._log.settled(ended, wait=wait)
        if self.metrics is not None:
            for job, settlement in ended:
                self.metrics.settled(job.name, outcome_name(settlement.decision), settlement.run_seconds)
        if not (self._hooks.dead or self._hooks.retry):
            return
        calls = [
            (hooks, job, settlement.decision)
            for job, settlement in ended
            if (hooks := self._hooks_for(settlement.decision))
        ]
        if calls and wait:
            self._call(calls)
        elif calls:
            self._calls.put(calls)

    def lost(self, ended: Sequence[Ended], *, wait: bool = False) -> None:
        """These attempts ended, because their leases had expired."""
        self.settled([Ended(traces.without_trace(job), one) for job, one in ended], wait=wait)

    def close(self, timeout: float) -> None:
        """Let the log and the hooks that are due finish, for so many seconds each at most."""
        self._log.close(timeout)
        self._calls.close(timeout)

    def _hooks_for(self, decision: Decision) -> tuple[JobHook, ...]:
        match outcome_name(decision):
            case "dead":
                return self._hooks.dead
            case "retrying" | "lost":
                return self._hooks.retry
            case _:
                return ()

    def _call(self, calls: Sequence[_Call]) -> None:
        for hooks, job, decision in calls:
            try:
                settled = self._as_settled(job, decision)
            except Exception:
                log.exception("the hooks for job %s could not be called", job.id)
                continue
            for hook in hooks:
                self._call_one(hook, settled)

    def _call_one(self, hook: JobHook, job: Job) -> None:
        try:
            with self._hooks.hook_context():
                answer = hook(job)
                if inspect.iscoroutine(answer):
                    asyncio.run(answer)
        except BaseException:
            # A hook that calls sys.exit must not end the thread that calls the others.
            log.exception("the hook %r failed for job %s, which is %s all the same", hook, job.id, job.status)

    def _as_settled(self, job: Job, decision: Decision) -> Job:
        """The job as the settlement left it; others may have changed it since."""
        now = self._storage.clock.now()
        failure = decision.failure
        status = decision.path[-1]
        dead = status is Status.DEAD
        return msgspec.structs.replace(
            job,
            status=status,
            run_at=now + timedelta(seconds=decision.delay) if decision.retries else job.run_at,
            updated_at=now,
            finished_at=now if dead else None,
            locked_by=None,
            locked_until=None,
            error_code=failure.code if failure else None,
            error_type=failure.type if failure else None,
            error_message=failure.message if failure else None,
            error_frame=failure.frame if failure else None,
        )
