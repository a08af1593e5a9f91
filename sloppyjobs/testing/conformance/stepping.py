"""Durable steps: a step that is done is never run again for its job, whatever becomes of the attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.model import Claim, Job
from sloppyjobs.domain.retry import NO_RETRY, Retry
from sloppyjobs.domain.steps import StepKind
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.records import ends

AGAIN = Retry(max_attempts=4, backoff="none", jitter=False)


def run(jobs: Jobs) -> int:
    """Run what is due until nothing is."""
    worker, ran = jobs.create_worker(), 0
    while done := worker.run_once():
        ran += done
    return ran


def stepped(jobs: Jobs, handler: Callable[..., Any], **settings: Any) -> Job:
    """A job with this handler."""
    jobs.define("work", handler, **{"retry": AGAIN, **settings})
    return jobs.enqueue("work", {"order": 7})


def names(jobs: Jobs, job: Job) -> list[tuple[str, str, str]]:
    """Kind, name and state of what the job has, in order."""
    return [(one.kind, one.name, one.state) for one in jobs.admin.steps(job.id)]


class Calls:
    """Functions for steps, and how often each was called."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __call__(self, name: str, result: Any = None) -> Any:
        self.made.append(name)
        return result

    async def later(self, name: str, result: Any = None) -> Any:
        """The same as a coroutine."""
        await asyncio.sleep(0)
        return self(name, result)


@pytest.fixture
def calls() -> Calls:
    """What the steps of the test have called."""
    return Calls()


def test_a_step_that_is_done_is_not_run_again(jobs: Jobs, calls: Calls) -> None:
    def handler(ctx: Any, payload: Any) -> Any:
        first = ctx.step("load", calls, "load", {"order": payload["order"], "lines": [1, 2]})
        if ctx.attempt == 1:
            raise ValueError("after the first step")
        second = ctx.step("charge", calls, "charge", first["order"] * 2)
        if ctx.attempt == 2:
            raise ValueError("after the second step")
        return [first, second]

    job = stepped(jobs, handler)
    run(jobs)
    assert calls.made == ["load", "charge"]
    assert (jobs.get(job.id).status, jobs.get(job.id).result) == ("succeeded", [{"order": 7, "lines": [1, 2]}, 14])
    assert ends(jobs, job.id) == [(1, "failed"), (2, "failed"), (3, "succeeded")]
    assert names(jobs, job) == [("step", "load", "done"), ("step", "charge", "done")]


def test_a_coroutine_has_steps_too(jobs: Jobs, calls: Calls) -> None:
    async def handler(ctx: Any, _payload: Any) -> Any:
        first = await ctx.step("awaited", calls.later, "awaited", 1)
        second = await ctx.step("plain", calls, "plain", 2)
        if ctx.attempt == 1:
            raise ValueError("once more")
        return [first, second]

    job = stepped(jobs, handler)
    run(jobs)
    assert (jobs.get(job.id).result, calls.made) == ([1, 2], ["awaited", "plain"])


def test_a_step_that_raises_fails_the_attempt_and_is_run_again(jobs: Jobs, calls: Calls) -> None:
    def fragile(attempt: int) -> str:
        calls("fragile")
        if attempt == 1:
            raise ConnectionError("no answer")
        return "there"

    def handler(ctx: Any, _payload: Any) -> Any:
        ctx.step("first", calls, "first")
        return ctx.step("fragile", fragile, ctx.attempt)

    job = stepped(jobs, handler)
    run(jobs)
    assert (jobs.get(job.id).result, calls.made) == ("there", ["first", "fragile", "fragile"])


@dataclass
class Receipt:
    """What a step returns."""

    number: int
    paid: bool = True


def _charge(number: int) -> Receipt:
    return Receipt(number)


def test_a_result_has_the_type_that_its_function_says_in_every_attempt(jobs: Jobs) -> None:
    seen: list[Any] = []

    def handler(ctx: Any, _payload: Any) -> None:
        seen.append(ctx.step("typed", _charge, 3))
        seen.append(ctx.step("as-json", lambda: (1, 2)))
        if ctx.attempt == 1:
            raise ValueError("once more")

    stepped(jobs, handler)
    run(jobs)
    assert seen == [Receipt(3), [1, 2], Receipt(3), [1, 2]]


def test_steps_may_come_go_and_change_their_order(jobs: Jobs, calls: Calls) -> None:
    def handler(ctx: Any, _payload: Any) -> Any:
        if ctx.attempt == 1:
            ctx.step("gone", calls, "gone")
            ctx.step("kept", calls, "kept", 1)
            raise ValueError("deployed anew")
        return [ctx.step("new", calls, "new", 2), ctx.step("kept", calls, "kept", 3)]

    job = stepped(jobs, handler)
    run(jobs)
    assert (jobs.get(job.id).result, calls.made) == ([2, 1], ["gone", "kept", "new"])


def test_a_result_that_no_longer_fits_is_a_failure_with_its_own_code(jobs: Jobs) -> None:
    def handler(ctx: Any, _payload: Any) -> None:
        if ctx.attempt == 1:
            ctx.step("charge", lambda: {"number": "three"})
            raise ValueError("the next version returns a Receipt")
        ctx.step("charge", _charge, 3)

    job = stepped(jobs, handler, retry=Retry(max_attempts=2, backoff="none"))
    run(jobs)
    dead = jobs.get(job.id)
    assert (dead.status, dead.error_code) == ("dead", "SLOPPY_E_JOBS_INVALID_STEP")
    assert "'charge'" in str(dead.error_message)
    assert "number" in str(dead.error_message)


def _twice(ctx: Any) -> None:
    ctx.step("charge", int)
    ctx.step("charge", int)


def _awaitable(ctx: Any) -> None:
    async def late() -> int:
        return 1

    ctx.step("late", late)


NO_STEPS: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "the same name twice": (_twice, "INVALID_STEP", "'charge-2'"),
    "an empty name": (lambda ctx: ctx.step(" ", int), "INVALID_OPTION", "name"),
    "a space at the end": (lambda ctx: ctx.step("charge ", int), "INVALID_OPTION", "space"),
    "a long name": (lambda ctx: ctx.sleep("x" * 129, 1), "INVALID_OPTION", "128"),
    "no text": (lambda ctx: ctx.wait_for(7), "INVALID_OPTION", "text"),
    "not a number": (lambda ctx: ctx.step("odd", float, "nan"), "INVALID_PAYLOAD", "'odd'"),
    "not JSON": (lambda ctx: ctx.step("odd", object), "INVALID_PAYLOAD", "object"),
    "too large": (lambda ctx: ctx.step("large", lambda: "x" * 2_000_000), "INVALID_PAYLOAD", "too large"),
    "a coroutine": (_awaitable, "INVALID_STEP", "async def"),
    "a negative sleep": (lambda ctx: ctx.sleep("odd", -1), "INVALID_OPTION", "seconds"),
    "a timeout that is no number": (lambda ctx: ctx.wait_for("odd", timeout="soon"), "INVALID_OPTION", "timeout"),
}


@pytest.mark.parametrize("case", NO_STEPS)
def test_what_cannot_be_a_step_is_refused_in_place(jobs: Jobs, case: str) -> None:
    odd, code, named = NO_STEPS[case]
    job = stepped(jobs, lambda ctx, payload: odd(ctx), retry=NO_RETRY)
    run(jobs)
    dead = jobs.get(job.id)
    assert (dead.status, dead.error_code) == ("dead", f"SLOPPY_E_JOBS_{code}")
    assert named in str(dead.error_message)
    assert [name for _, name, _ in names(jobs, job)] in ([], ["charge"])


def _held(jobs: Jobs, worker: str = "w1") -> tuple[Claim, tuple[str, int]]:
    [claim] = jobs.claim(worker, lease=30)
    return claim, (claim.id, claim.attempt)


def test_an_attempt_that_has_ended_keeps_nothing(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("work")
    job = jobs.enqueue("work")
    _, old = _held(jobs)
    store = jobs.storage.steps
    assert store.keep("w1", old, "in-time", "1", 0.1, 1)
    clock.advance(31)
    jobs.storage.sweep()
    assert not store.keep("w1", old, "late", "2", 0.1, 2)
    _, new = _held(jobs)
    assert not store.keep("w1", old, "late", "2", 0.1, 2), "the same worker has it again, as another attempt"
    assert store.ask("w1", old, StepKind.SLEEP, "late", 60, 2) is None
    assert not store.keep("w2", new, "foreign", "2", 0.1, 2)
    assert store.keep("w1", new, "current", "3", 0.1, 2)
    jobs.admin.cancel(job.id)
    assert not store.keep("w1", new, "after", "4", 0.1, 3)
    assert [name for _, name, _ in names(jobs, job)] == ["in-time", "current"]


def test_a_handler_whose_attempt_has_ended_is_told_at_its_next_step(jobs: Jobs, calls: Calls) -> None:
    seen: list[type] = []

    def handler(ctx: Any, _payload: Any) -> None:
        jobs.admin.cancel(ctx.job_id)
        try:
            ctx.step("late", calls, "late")
        except errors.JobsError as error:
            seen.append(type(error))
            raise

    job = stepped(jobs, handler)
    run(jobs)
    assert seen == [errors.StaleLease]
    assert (jobs.get(job.id).status, names(jobs, job)) == ("cancelled", [])


def test_a_retry_of_a_dead_job_goes_on_after_its_steps(jobs: Jobs, calls: Calls) -> None:
    def handler(ctx: Any, _payload: Any) -> str:
        ctx.step("first", calls, "first")
        if ctx.attempt == 1:
            raise ValueError("dead")
        return "alive"

    job = stepped(jobs, handler, retry=NO_RETRY)
    run(jobs)
    assert jobs.get(job.id).status == "dead"
    jobs.admin.retry(job.id)
    run(jobs)
    assert (jobs.get(job.id).result, calls.made) == ("alive", ["first"])


def test_results_are_redacted_and_bounded_when_they_are_shown(jobs: Jobs) -> None:
    def handler(ctx: Any, _payload: Any) -> None:
        ctx.step("login", lambda: {"password": "canary-1", "user": "ada", "pin": "canary-2"})
        ctx.step("large", lambda: "x" * 100_000)

    job = stepped(jobs, handler, redact=("pin",))
    run(jobs)
    login, large = jobs.admin.steps(job.id)
    assert login.result_preview is not None
    assert "canary" not in repr(login)
    assert "ada" in login.result_preview.text
    assert (large.result_preview, large.size) == (None, 100_002)


def test_steps_are_read_page_by_page(jobs: Jobs, calls: Calls) -> None:
    def handler(ctx: Any, _payload: Any) -> None:
        for number in range(5):
            ctx.step(f"n{number}", calls, "n")

    job = stepped(jobs, handler)
    run(jobs)
    first = jobs.admin.steps(job.id, page_size=2)
    second = jobs.admin.steps(job.id, page_size=2, cursor=first.next_cursor)
    assert [one.name for one in (*first, *second)] == ["n0", "n1", "n2", "n3"]
    back = jobs.admin.steps(job.id, page_size=2, cursor=second.previous_cursor)
    assert [one.name for one in back] == ["n0", "n1"]
    with pytest.raises(errors.UnknownJob):
        jobs.admin.steps("job_unknown")
