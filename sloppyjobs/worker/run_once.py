"""One deterministic pass, for tests: what is due now, one job after the other, settled when it returns."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextvars import Context

from sloppyjobs.domain.model import Claim, Ended
from sloppyjobs.domain.states import AttemptStatus, Failed, Outcome, outcome_name
from sloppyjobs.storage.ports.claims import ClaimRequest
from sloppyjobs.worker import executor
from sloppyjobs.worker.loop import TURN_LIMIT, WorkerLoop
from sloppyjobs.worker.task import Task


def run_once(loop: WorkerLoop) -> Counter[str]:
    """Claim everything that is due, then run and settle it in claim order. What handlers enqueue waits.

    Returns how many attempts had which outcome. A handler that is interrupted from the keyboard ends the pass, once its
    attempt is settled.
    """
    ended: Counter[str] = Counter()
    claims = _claim_all(loop)
    renewed = time.monotonic()
    for position, claim in enumerate(claims):
        if time.monotonic() - renewed > loop.settings.lease / 3:
            remaining = [(later.job.id, later.attempt) for later in claims[position:]]
            loop.storage.renew(loop.worker_id, remaining, loop.settings.lease)
            renewed = time.monotonic()
        task = _task(loop, claim)
        outcome = _run(loop, task)
        ended[_settle(loop, task, outcome)] += 1
        if _is_interrupt(outcome):
            raise KeyboardInterrupt
    return ended


def _is_interrupt(outcome: Outcome) -> bool:
    """Whether it was Ctrl-C, which only the main thread is told of, that ended the handler."""
    interrupted = isinstance(outcome, Failed) and outcome.failure.type == KeyboardInterrupt.__name__
    return interrupted and threading.current_thread() is threading.main_thread()


def _claim_all(loop: WorkerLoop) -> list[Claim]:
    storage, settings = loop.storage, loop.settings
    while True:
        swept = storage.sweep()
        if swept.lost:
            loop.settlement_hooks.lost(swept.lost, wait=True)
        if not swept.expired and not swept.promoted:
            break
    names = loop.definitions.handled()
    if not names:
        return []
    request = ClaimRequest(loop.worker_id, settings.queues, names, TURN_LIMIT, settings.lease)
    claims: list[Claim] = []
    while batch := storage.claim(request):
        claims += batch
    return claims


def _task(loop: WorkerLoop, claim: Claim) -> Task:
    definition = loop.definitions.require(claim.job.name)
    return Task.of_claim(claim, definition, loop.reports, loop.middleware.wrapper(), loop.sealing)


def _run(loop: WorkerLoop, task: Task) -> Outcome:
    job = task.claim.job
    if job.damage is not None:
        return executor.unreadable(job.damage)
    if task.claim.expired:
        return executor.not_started()
    if task.unreadable is not None:
        return executor.invalid_payload(task, task.unreadable)
    if task.definition.isolation == "thread" and job.timeout is None:
        task.begin()
        # As in the thread of a worker: a request in which a test enqueues is not the handler's, nor is anything else
        # that the caller's context holds.
        return Context().run(executor.run, task)
    return _run_in_runner(loop, task)


def _settle(loop: WorkerLoop, task: Task, outcome: Outcome) -> str:
    if loop.reports.used:
        loop.reports.end_attempt(task.fence)
        loop.reports.flush()
    settlement = task.settlement(outcome)
    if not loop.storage.settle([settlement]):
        return "stale"
    if settlement.decision.attempt is not AttemptStatus.SUCCEEDED or loop.settlement_hooks.wants_successes:
        loop.settlement_hooks.settled([Ended(task.claim.job, settlement)], wait=True)
    return outcome_name(settlement.decision)


def _run_in_runner(loop: WorkerLoop, task: Task) -> Outcome:
    """In a runner of its own, so that a timeout can end the wait for a handler that does not stop."""
    outcomes: list[Outcome] = []
    ended = threading.Event()

    def finish(done: Task, outcome: Outcome) -> None:
        if done.finish():
            outcomes.append(outcome)
            ended.set()

    runner = loop.runners.new(task.definition.isolation, 1, finish)
    try:
        runner.submit([task])
        while not ended.wait(left := _seconds_left(task)) and left != 0.0:
            pass
        if task.finish():
            outcomes.append(executor.timed_out(task))
            task.signal.abort("timeout")
        else:
            # The handler finished at the same moment; its outcome is about to be appended.
            ended.wait()
    finally:
        runner.close()
    return outcomes[0]


def _seconds_left(task: Task) -> float | None:
    deadline = task.deadline()
    return None if deadline is None else max(0.0, deadline - time.monotonic())
