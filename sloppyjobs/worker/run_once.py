"""One deterministic pass, for tests: what is due now, one job after the other, settled when it returns."""

from __future__ import annotations

import threading
import time
from collections import Counter

from sloppyjobs.domain.model import Claim, Ended, Settlement
from sloppyjobs.domain.states import Outcome, decide
from sloppyjobs.storage.ports.claims import ClaimRequest
from sloppyjobs.worker import executor
from sloppyjobs.worker.loop import TURN_LIMIT, Turnstile
from sloppyjobs.worker.observe import outcomes
from sloppyjobs.worker.task import Task


def run_once(turnstile: Turnstile) -> Counter[str]:
    """Claim everything that is due, then run and settle it in claim order. What handlers enqueue waits.

    Returns how many attempts had which outcome.
    """
    ended: Counter[str] = Counter()
    claims = _everything_due(turnstile)
    renewed = time.monotonic()
    for position, claim in enumerate(claims):
        if time.monotonic() - renewed > turnstile.settings.lease / 3:
            remaining = [(later.job.id, later.attempt) for later in claims[position:]]
            turnstile.storage.renew(turnstile.worker_id, remaining, turnstile.settings.lease)
            renewed = time.monotonic()
        ended[_execute(turnstile, claim)] += 1
    return ended


def _everything_due(turnstile: Turnstile) -> list[Claim]:
    storage, settings = turnstile.storage, turnstile.settings
    while True:
        swept = storage.sweep()
        turnstile.aftermath.lost(swept.lost, wait=True)
        if not swept.expired and not swept.promoted:
            break
    names = turnstile.definitions.handled()
    if not names:
        return []
    request = ClaimRequest(turnstile.worker_id, settings.queues, names, TURN_LIMIT, settings.lease)
    claims: list[Claim] = []
    while batch := storage.claim(request):
        claims += batch
    return claims


def _execute(turnstile: Turnstile, claim: Claim) -> str:
    task = Task.hold(claim, turnstile.definitions.require(claim.job.name), turnstile.reports)
    around = turnstile.surroundings.around()
    if around is not None:
        task.handler = around(task.definition)
    damage = claim.job.damage
    outcome = _outcome(turnstile, task) if damage is None else executor.unreadable(damage)
    turnstile.reports.conclude(task.fence)
    turnstile.reports.flush()
    decision = decide(claim.attempt, claim.job.max_attempts, outcome)
    settlement = Settlement(claim.job.id, claim.attempt, turnstile.worker_id, decision, task.run_seconds())
    accepted = turnstile.storage.settle([settlement])
    if not accepted:
        return "stale"
    turnstile.aftermath.settled([Ended(task.claim.job, settlement)], wait=True)
    return outcomes.outcome(decision)


def _outcome(turnstile: Turnstile, task: Task) -> Outcome:
    if task.definition.isolation == "thread" and task.claim.job.timeout is None:
        task.begin()
        return executor.run(task)
    return _elsewhere(turnstile, task)


def _elsewhere(turnstile: Turnstile, task: Task) -> Outcome:
    """In a runner of its own, so that a timeout can end the wait for a handler that does not stop."""
    outcomes: list[Outcome] = []
    ended = threading.Event()

    def finish(done: Task, outcome: Outcome) -> None:
        if done.finish():
            outcomes.append(outcome)
            ended.set()

    runner = turnstile.new_runner(task.definition.isolation, 1, finish)
    try:
        runner.submit([task])
        while not ended.wait(left := _seconds_left(task)) and left != 0.0:
            pass
        if task.finish():
            outcomes.append(executor.timed_out(task))
            task.signal.abort("timeout")
        else:
            # The handler was faster by a hair; its outcome is on its way.
            ended.wait()
    finally:
        runner.close()
    return outcomes[0]


def _seconds_left(task: Task) -> float | None:
    deadline = task.deadline()
    return None if deadline is None else max(0.0, deadline - time.monotonic())
