"""Durable sleeps and signals: the worker is free meanwhile, and no wake-up is ever lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.model import Claim, Job
from sloppyjobs.domain.retry import NO_RETRY
from sloppyjobs.domain.states import Suspended
from sloppyjobs.domain.steps import Answer, StepKind, StepState
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.outcomes import decided
from sloppyjobs.testing.conformance.records import attempts, row, transitions
from sloppyjobs.testing.conformance.stepping import names, run, stepped

WAIT = 30
SLEPT = ["created:queued", "claimed:processing", "suspended:waiting", "woken:queued", "claimed:processing"]


def sleeps(ctx: Any, _payload: Any) -> str:
    ctx.sleep("cool-down", 60)
    return f"attempt {ctx.attempt}"


def waits(ctx: Any, _payload: Any) -> Any:
    return ctx.wait_for("approved", timeout=100)


async def _waits_in_a_coroutine(ctx: Any, _payload: Any) -> Any:
    return await ctx.wait_for("approved", timeout=100)


def status(jobs: Jobs, job: Job) -> tuple[str, str | None]:
    found = jobs.get(job.id)
    return found.status.value, found.waiting_for


# Sleep


def test_a_sleep_frees_the_worker_and_counts_no_attempt(jobs: Jobs, clock: FakeClock) -> None:
    job = stepped(jobs, sleeps, retry=NO_RETRY)
    assert run(jobs) == 1
    assert status(jobs, job) == ("waiting", "sleep")
    assert row(jobs, job.id).locked_by is None
    [attempt] = attempts(jobs, job.id)
    assert (attempt.status, attempt.error_code) == ("suspended", None)
    clock.advance(59)
    assert run(jobs) == 0
    clock.advance(1)
    assert run(jobs) == 1
    found = jobs.get(job.id)
    assert (found.status, found.result, found.max_attempts) == ("succeeded", "attempt 2", 2)
    assert transitions(jobs, job.id) == [*SLEPT, "succeeded:succeeded"]
    assert names(jobs, job) == [("sleep", "cool-down", "done")]


def test_the_sweep_says_when_the_next_one_wakes(jobs: Jobs, clock: FakeClock) -> None:
    stepped(jobs, sleeps)
    run(jobs)
    assert jobs.storage.sweep().next_in == 60
    clock.advance(timedelta(seconds=45))
    assert jobs.storage.sweep().next_in == 15
    clock.advance(15)
    assert jobs.storage.sweep().promoted == 1
    assert jobs.storage.sweep().next_in is None


def test_more_wake_than_one_sweep_takes(jobs: Jobs, clock: FakeClock) -> None:
    jobs.define("work", sleeps)
    jobs.enqueue_many([("work", None)] * 5)
    run(jobs)
    clock.advance(60)
    assert [jobs.storage.sweep(limit=2).promoted for _ in range(4)] == [2, 2, 1, 0]


def test_a_sleep_of_nothing_is_over_at_once(jobs: Jobs) -> None:
    job = stepped(jobs, lambda ctx, payload: ctx.sleep("none", 0))
    assert run(jobs) == 1
    assert jobs.get(job.id).status == "succeeded"


def test_a_sleep_counts_from_its_first_call(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("work")
    jobs.enqueue("work")
    [claim] = jobs.claim("w1", lease=30)
    assert _ask(jobs, claim, StepKind.SLEEP, 60) == Answer(StepState.WAITING, seconds=60)
    clock.advance(40)
    jobs.storage.sweep()
    [claim] = jobs.claim("w1", lease=30)
    assert _ask(jobs, claim, StepKind.SLEEP, 60) == Answer(StepState.WAITING, seconds=20)
    clock.advance(20)
    assert _ask(jobs, claim, StepKind.SLEEP, 60) == Answer(StepState.DONE)
    assert jobs.complete(claim)


# Signals


def test_a_permit_ends_no_sleep_that_a_killed_attempt_had_begun(jobs: Jobs, clock: FakeClock) -> None:
    job = stepped(jobs, sleeps, resource="api")
    jobs.limit("api", concurrency=1)
    [killed] = jobs.claim("killed", lease=10)
    assert jobs.storage.steps.ask("killed", (job.id, killed.attempt), StepKind.SLEEP, "cool-down", 60, 0)
    clock.advance(11)
    jobs.storage.sweep()
    jobs.define("other", lambda _ctx, _payload: None, resource="api")
    jobs.enqueue("other", priority=5)
    [other] = jobs.claim("worker-1", limit=2)
    assert status(jobs, job) == ("waiting", "permit")
    jobs.complete(other)
    run(jobs)
    assert status(jobs, job) == ("waiting", "sleep")
    clock.advance(49)
    run(jobs)
    assert jobs.get(job.id).status == "succeeded"


@pytest.mark.parametrize("handler", [waits, _waits_in_a_coroutine], ids=["function", "coroutine"])
def test_a_signal_wakes_the_job_that_waits_for_it(jobs: Jobs, handler: Any) -> None:
    job = stepped(jobs, handler, retry=NO_RETRY)
    run(jobs)
    assert status(jobs, job) == ("waiting", "signal")
    assert jobs.admin.explain(job.id).reasons[-1].text == "Attempts left: 1."
    assert jobs.signal(job.id, "other", 1)
    assert run(jobs) == 0, "it waits for another one"
    assert jobs.signal(job, "approved", {"by": "ada"})
    assert run(jobs) == 1
    assert (jobs.get(job.id).status, jobs.get(job.id).result) == ("succeeded", {"by": "ada"})
    assert transitions(jobs, job.id) == [*SLEPT, "succeeded:succeeded"]


def test_a_signal_that_comes_first_is_kept(jobs: Jobs) -> None:
    job = stepped(jobs, waits)
    assert jobs.signal(job.id, "approved", None)
    assert names(jobs, job) == [("signal", "approved", "early")]
    assert run(jobs) == 1
    assert (jobs.get(job.id).status, jobs.get(job.id).result) == ("succeeded", None)
    assert names(jobs, job) == [("signal", "approved", "done")]


def test_the_first_signal_wins(jobs: Jobs) -> None:
    job = stepped(jobs, waits)
    assert jobs.signal(job.id, "approved", 1)
    assert not jobs.signal(job.id, "approved", 2)
    run(jobs)
    assert jobs.get(job.id).result == 1
    assert not jobs.signal(job.id, "approved", 3), "it has had this one"
    with pytest.raises(errors.InvalidTransition, match="succeeded"):
        jobs.signal(job.id, "refunded", 3)


def test_of_many_that_signal_at_once_one_wins(jobs: Jobs) -> None:
    job = stepped(jobs, waits)
    barrier = threading.Barrier(8)

    def send(number: int) -> bool:
        barrier.wait(WAIT)
        return jobs.signal(job.id, "approved", number)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(8)))
    assert sum(answers) == 1
    run(jobs)
    assert jobs.get(job.id).result == answers.index(True)


def test_a_signal_finds_its_job_by_business_key(jobs: Jobs) -> None:
    jobs.define("work", waits)
    job = jobs.enqueue("work", business_key="order:1")
    pending = jobs.enqueue("work", business_key="order:2", unique="pending")
    run(jobs)
    assert jobs.signal(business_key="order:1", name="approved", payload=1)
    assert jobs.signal(business_key="order:2", name="approved", payload=2)
    run(jobs)
    assert [jobs.get(one.id).result for one in (job, pending)] == [1, 2]
    with pytest.raises(errors.InvalidTransition, match="succeeded"):
        jobs.signal(business_key="order:1", name="refunded")
    with pytest.raises(errors.UnknownJob, match="order:3"):
        jobs.signal(business_key="order:3", name="approved")


def test_a_signal_from_a_coroutine(jobs: Jobs) -> None:
    job = stepped(jobs, waits)
    assert asyncio.run(jobs.signal_async(job.id, "approved", [1]))
    run(jobs)
    assert jobs.get(job.id).result == [1]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"name": "x"}, errors.InvalidOption),
        ({"job_id": "JOB", "business_key": "k", "name": "x"}, errors.InvalidOption),
        ({"job_id": "JOB"}, errors.InvalidOption),
        ({"job_id": "JOB", "name": "x" * 129}, errors.InvalidOption),
        ({"job_id": "JOB", "name": "x", "payload": float("nan")}, errors.InvalidPayload),
        ({"job_id": "JOB", "name": "x", "payload": object()}, errors.InvalidPayload),
        ({"job_id": "job_unknown", "name": "x"}, errors.UnknownJob),
        ({"job_id": "job\0", "name": "x"}, errors.UnknownJob),
    ],
)
def test_a_signal_that_cannot_be_sent_is_refused_whole(jobs: Jobs, given: dict[str, Any], error: type) -> None:
    job = stepped(jobs, waits)
    wanted: dict[str, Any] = {key: job.id if value == "JOB" else value for key, value in given.items()}
    with pytest.raises(error):
        jobs.signal(**wanted)
    assert names(jobs, job) == []


def _ask(jobs: Jobs, claim: Claim, kind: StepKind, seconds: float | None = None) -> Answer | None:
    return jobs.storage.steps.ask(claim.worker_id, (claim.id, claim.attempt), kind, kind.value, seconds, 1)


def _suspend(jobs: Jobs, claim: Claim) -> bool:
    return bool(jobs.storage.settle([decided(claim, Suspended(60.0, "waits"))]))


@pytest.mark.parametrize("first", ["the signal", "the settlement"])
def test_a_signal_between_the_look_and_the_settlement_is_not_lost(jobs: Jobs, first: str) -> None:
    jobs.declare("work")
    job = jobs.enqueue("work")
    [claim] = jobs.claim("w1")
    assert _ask(jobs, claim, StepKind.SIGNAL) == Answer(StepState.WAITING)
    if first == "the signal":
        assert jobs.signal(job.id, "signal", 1)
        assert jobs.get(job.id).status == "processing"
        assert _suspend(jobs, claim)
    else:
        assert _suspend(jobs, claim)
        assert status(jobs, job) == ("waiting", "signal")
        assert jobs.signal(job.id, "signal", 1)
    assert jobs.get(job.id).status == "queued"
    [claim] = jobs.claim("w1")
    assert _ask(jobs, claim, StepKind.SIGNAL) == Answer(StepState.DONE, "1")
    assert jobs.complete(claim)


def test_no_signal_is_lost_to_settlements_at_the_same_moment(jobs: Jobs) -> None:
    jobs.declare("work")
    made = jobs.enqueue_many([("work", None)] * 30)
    claims = jobs.claim("w1", limit=30)
    for claim in claims:
        _ask(jobs, claim, StepKind.SIGNAL)
    barrier = threading.Barrier(2)

    def both(works: Iterable[Any]) -> None:
        for work in works:
            barrier.wait(WAIT)
            work()

    with ThreadPoolExecutor(2) as pool:
        sending = pool.submit(both, [lambda job=job: jobs.signal(job.id, "signal", 1) for job in made])
        settling = pool.submit(both, [lambda claim=claim: _suspend(jobs, claim) for claim in sorted_by(claims, made)])
        for future in (sending, settling):
            future.result(WAIT)
    assert {jobs.get(job.id).status.value for job in made} == {"queued"}


def sorted_by(claims: list[Claim], made: list[Job]) -> list[Claim]:
    """The claims in the order of their jobs."""
    by_id = {claim.id: claim for claim in claims}
    return [by_id[job.id] for job in made]
