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
from sloppyjobs.testing.conformance.records import attempts, ends, row, transitions
from sloppyjobs.testing.conformance.stepping import Calls, names, run, stepped

WAIT = 30
SLEPT = ["created:queued", "claimed:processing", "suspended:waiting", "woken:queued", "claimed:processing"]


def _sleeps(ctx: Any, _payload: Any) -> str:
    ctx.sleep("cool-down", 60)
    return f"attempt {ctx.attempt}"


def _waits(ctx: Any, _payload: Any) -> Any:
    return ctx.wait_for("approved", timeout=100)


async def _waits_in_a_coroutine(ctx: Any, _payload: Any) -> Any:
    return await ctx.wait_for("approved", timeout=100)


def _status(jobs: Jobs, job: Job) -> tuple[str, str | None]:
    found = jobs.get(job.id)
    return found.status.value, found.waiting_for


# Sleep


def test_a_sleep_frees_the_worker_and_counts_no_attempt(jobs: Jobs, clock: FakeClock) -> None:
    job = stepped(jobs, _sleeps, retry=NO_RETRY)
    assert run(jobs) == 1
    assert _status(jobs, job) == ("waiting", "sleep")
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
    stepped(jobs, _sleeps)
    run(jobs)
    assert jobs.storage.sweep().next_in == 60
    clock.advance(timedelta(seconds=45))
    assert jobs.storage.sweep().next_in == 15
    clock.advance(15)
    assert jobs.storage.sweep().promoted == 1
    assert jobs.storage.sweep().next_in is None


def test_more_wake_than_one_sweep_takes(jobs: Jobs, clock: FakeClock) -> None:
    jobs.define("work", _sleeps)
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


@pytest.mark.parametrize("handler", [_waits, _waits_in_a_coroutine], ids=["function", "coroutine"])
def test_a_signal_wakes_the_job_that_waits_for_it(jobs: Jobs, handler: Any) -> None:
    job = stepped(jobs, handler, retry=NO_RETRY)
    run(jobs)
    assert _status(jobs, job) == ("waiting", "signal")
    assert jobs.signal(job.id, "other", 1)
    assert run(jobs) == 0, "it waits for another one"
    assert jobs.signal(job, "approved", {"by": "ada"})
    assert run(jobs) == 1
    assert (jobs.get(job.id).status, jobs.get(job.id).result) == ("succeeded", {"by": "ada"})
    assert transitions(jobs, job.id) == [*SLEPT, "succeeded:succeeded"]


def test_a_signal_that_comes_first_is_kept(jobs: Jobs) -> None:
    job = stepped(jobs, _waits)
    assert jobs.signal(job.id, "approved", None)
    assert names(jobs, job) == [("signal", "approved", "early")]
    assert run(jobs) == 1
    assert (jobs.get(job.id).status, jobs.get(job.id).result) == ("succeeded", None)
    assert names(jobs, job) == [("signal", "approved", "done")]


def test_the_first_signal_wins(jobs: Jobs) -> None:
    job = stepped(jobs, _waits)
    assert jobs.signal(job.id, "approved", 1)
    assert not jobs.signal(job.id, "approved", 2)
    run(jobs)
    assert jobs.get(job.id).result == 1
    assert not jobs.signal(job.id, "approved", 3), "it has had this one"
    with pytest.raises(errors.InvalidTransition, match="succeeded"):
        jobs.signal(job.id, "refunded", 3)


def test_of_many_that_signal_at_once_one_wins(jobs: Jobs) -> None:
    job = stepped(jobs, _waits)
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
    jobs.define("work", _waits)
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
    job = stepped(jobs, _waits)
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
    job = stepped(jobs, _waits)
    with pytest.raises(error):
        jobs.signal(**{key: job.id if value == "JOB" else value for key, value in given.items()})
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
        assert _status(jobs, job) == ("waiting", "signal")
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


# Timeouts


def test_a_wait_that_times_out_raises_in_the_handler(jobs: Jobs, clock: FakeClock, calls: Calls) -> None:
    def handler(ctx: Any, _payload: Any) -> str:
        try:
            ctx.wait_for("approved", timeout=100)
        except errors.SignalTimeout:
            ctx.step("refuse", calls, "refuse")
        if ctx.attempt == 2:
            raise ValueError("once more")
        return "refused"

    job = stepped(jobs, handler)
    run(jobs)
    clock.advance(100)
    run(jobs)
    assert (jobs.get(job.id).result, calls.made) == ("refused", ["refuse"]), "also in the attempt after that"
    assert names(jobs, job) == [("signal", "approved", "timed_out"), ("step", "refuse", "done")]


def test_a_timeout_that_is_not_caught_is_not_retried_until_an_operator_does(jobs: Jobs, clock: FakeClock) -> None:
    job = stepped(jobs, _waits)
    run(jobs)
    clock.advance(100)
    run(jobs)
    dead = jobs.get(job.id)
    assert (dead.status, dead.error_code) == ("dead", "SLOPPY_E_JOBS_SIGNAL_TIMEOUT")
    with pytest.raises(errors.InvalidTransition):
        jobs.signal(job.id, "late")
    assert not jobs.signal(job.id, "approved"), "its time is over"
    jobs.admin.retry(job.id)
    run(jobs)
    assert _status(jobs, job) == ("waiting", "signal")
    assert jobs.signal(job.id, "approved", "at last")
    run(jobs)
    assert jobs.get(job.id).result == "at last"


# Commands


def test_a_sleeping_job_can_be_cancelled(jobs: Jobs, clock: FakeClock) -> None:
    job = stepped(jobs, _sleeps)
    run(jobs)
    jobs.admin.cancel(job.id)
    clock.advance(60)
    assert (run(jobs), jobs.get(job.id).status) == (0, "cancelled")
    assert jobs.storage.sweep().next_in is None


@pytest.mark.parametrize("resumed", ["before", "after"])
def test_a_sleeping_job_can_be_paused(jobs: Jobs, clock: FakeClock, resumed: str) -> None:
    job = stepped(jobs, _sleeps)
    run(jobs)
    jobs.admin.pause(job.id)
    clock.advance(30 if resumed == "before" else 90)
    assert (run(jobs), _status(jobs, job)) == (0, ("paused", "sleep"))
    jobs.admin.resume(job.id)
    assert run(jobs) == (0 if resumed == "before" else 1)
    clock.advance(30)
    run(jobs)
    assert jobs.get(job.id).status == "succeeded"


def test_a_paused_job_gets_its_signal_when_it_is_resumed(jobs: Jobs) -> None:
    job = stepped(jobs, _waits)
    run(jobs)
    jobs.admin.pause(job.id)
    assert jobs.signal(job.id, "approved", 1)
    assert (run(jobs), jobs.get(job.id).status) == (0, "paused")
    jobs.admin.resume(job.id)
    run(jobs)
    assert jobs.get(job.id).result == 1


def test_to_run_a_sleeping_job_now_ends_its_sleep(jobs: Jobs) -> None:
    job = stepped(jobs, _sleeps)
    run(jobs)
    assert jobs.admin.get_job(job.id).actions == ("run_now", "pause", "cancel")
    jobs.admin.run_now(job.id)
    run(jobs)
    assert jobs.get(job.id).status == "succeeded"


def test_a_job_that_waits_for_a_signal_cannot_be_run_without_it(jobs: Jobs) -> None:
    job = stepped(jobs, _waits)
    run(jobs)
    assert "run_now" not in jobs.admin.get_job(job.id).actions
    with pytest.raises(errors.InvalidTransition, match="run_now"):
        jobs.admin.run_now(job.id)


def test_a_suspended_job_can_be_replaced(jobs: Jobs) -> None:
    job = stepped(jobs, _waits)
    run(jobs)
    new = jobs.replace(job.id, {"order": 8})
    assert (jobs.get(job.id).status, names(jobs, new)) == ("cancelled", [])


def test_a_handler_that_catches_everything_is_suspended_all_the_same(jobs: Jobs, clock: FakeClock) -> None:
    def handler(ctx: Any, _payload: Any) -> Any:
        try:
            ctx.sleep("cool-down", 60)
        except BaseException as error:
            if ctx.metadata["how"] == "raises":
                raise ValueError("hidden") from error
            return "not yet"
        return "slept"

    jobs.define("work", handler, retry=NO_RETRY)
    made = [jobs.enqueue("work", metadata={"how": how}) for how in ("returns", "raises")]
    run(jobs)
    assert [_status(jobs, job) for job in made] == [("waiting", "sleep")] * 2
    assert all("Suspension" in jobs.admin.logs(job.id).items[0].message for job in made)
    clock.advance(60)
    run(jobs)
    assert [jobs.get(job.id).result for job in made] == ["slept"] * 2


def test_several_waits_at_once_wake_one_by_one(jobs: Jobs) -> None:
    async def handler(ctx: Any, _payload: Any) -> list[Any]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ctx.wait_for(name)) for name in ("a", "b")]
        return [task.result() for task in tasks]

    job = stepped(jobs, handler, retry=NO_RETRY)
    run(jobs)
    for name in ("b", "a"):
        assert _status(jobs, job) == ("waiting", "signal")
        assert jobs.signal(job.id, name, name)
        run(jobs)
    assert jobs.get(job.id).result == ["a", "b"]


# Upkeep


def test_what_is_suspended_for_nothing_is_found_by_the_cleanup(jobs: Jobs) -> None:
    job = stepped(jobs, _waits)
    run(jobs)
    assert jobs.storage.cleanup.release_waiting(100) == 0
    jobs.storage.inspection.set_step(job.id, "approved", state="done")
    assert "doctor --repair" in jobs.admin.explain(job.id).verdict
    assert jobs.storage.cleanup.release_waiting(100) == 1
    assert jobs.get(job.id).status == "queued"


def test_steps_go_with_their_job_and_the_archive_keeps_what_they_were(
    jobs: Jobs, clock: FakeClock, calls: Calls
) -> None:
    job = stepped(jobs, lambda ctx, payload: ctx.step("charge", calls, "charge", "canary"))
    run(jobs)
    jobs.admin.delete(job.id)
    clock.advance(timedelta(days=400))
    assert jobs.admin.purge(archive=True).jobs == 1
    assert jobs.storage.steps.known(job.id) == []
    [kept] = jobs.storage.inspection.archive()
    assert '"name":"charge"' in kept.history
    assert '"canary"' not in kept.history.partition('"steps"')[2]


def test_why_a_suspended_job_does_not_run(jobs: Jobs, clock: FakeClock) -> None:
    asleep = stepped(jobs, _sleeps)
    jobs.define("wait", _waits)
    waits = jobs.enqueue("wait")
    run(jobs)
    clock.advance(20)
    told = jobs.admin.explain(asleep.id)
    assert told.verdict.startswith("It sleeps (cool-down) until")
    assert (told.reasons[0].code, told.reasons[0].until) == ("asleep", clock.now() + timedelta(seconds=40))
    told = jobs.admin.explain(waits.id)
    assert "waiting for the signal 'approved' for 20 s" in told.verdict
    assert [reason.code for reason in told.reasons] == ["signal", "signal_timeout", "waiting", "attempts"]


def test_a_signal_of_an_operator_is_audited(jobs: Jobs) -> None:
    job = stepped(jobs, _waits)
    run(jobs)
    assert jobs.admin.signal(job.id, "approved", {"token": "canary"}, actor="ada", reason="by phone")
    assert not jobs.admin.signal(job.id, "approved", {}, actor="bob")
    [entry] = jobs.admin.audit(job.id)
    assert (entry.action, entry.actor, entry.reason) == ("signal", "ada", "by phone")
    assert entry.detail == {"signal": "approved"}
    assert jobs.admin.events(job.id).items[-1].actor == "ada"
    assert "canary" not in repr(list(jobs.admin.steps(job.id)))
    assert ends(jobs, job.id) == [(1, "suspended")]
