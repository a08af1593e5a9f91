"""Retries: when a failed attempt is tried again, how often, and which attempts count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.retry import NO_RETRY, Retry
from sloppyjobs.enqueue.definitions import RetryLater, Snooze
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.records import ends, transitions


def _fails(ctx: Any, payload: Any) -> None:
    raise ValueError(f"attempt {ctx.attempt}")


def _delays(jobs: Jobs, clock: FakeClock, job: Job) -> list[float]:
    """Run the job until it is dead; how long it waited after each attempt."""
    worker = jobs.create_worker()
    delays: list[float] = []
    while worker.run_once():
        after = jobs.get(job.id)
        if after.status == "dead":
            return delays
        delays.append((after.run_at - clock.now()).total_seconds())
        clock.set(after.run_at)
    raise AssertionError(f"{jobs.get(job.id)} did not come back when it was due")


@pytest.mark.parametrize(
    ("retry", "expected"),
    [
        (Retry(max_attempts=5, jitter=False), [1, 2, 4, 8]),
        (Retry(max_attempts=5, jitter=False, initial=10, maximum=25), [10, 20, 25, 25]),
        (Retry(max_attempts=4, jitter=False, backoff="linear", initial=3), [3, 6, 9]),
        (Retry(max_attempts=4, jitter=False, backoff="fixed", initial=7), [7, 7, 7]),
        (Retry(max_attempts=4, backoff="none"), [0, 0, 0]),
        (Retry(max_attempts=4, jitter=False, backoff=lambda attempt: attempt**3), [1, 8, 27]),
        (NO_RETRY, []),
    ],
    ids=["exponential", "capped", "linear", "fixed", "none", "callable", "no retry"],
)
def test_a_failed_attempt_is_retried_by_its_policy(
    jobs: Jobs, clock: FakeClock, retry: Retry, expected: list[float]
) -> None:
    jobs.define("fail", _fails, retry=retry)
    job = jobs.enqueue("fail")
    assert _delays(jobs, clock, job) == expected


def test_jitter_spreads_a_delay_over_its_upper_half(jobs: Jobs, clock: FakeClock) -> None:
    jobs.define("fail", _fails, retry=Retry(max_attempts=2, backoff="fixed", initial=100))
    written = jobs.enqueue_many([("fail",)] * 20)
    jobs.create_worker().run_once()
    delays = {(jobs.get(job.id).run_at - clock.now()).total_seconds() for job in written}
    assert all(50 <= delay <= 100 for delay in delays)
    assert len(delays) > 1


def test_a_job_is_dead_when_its_budget_is_used_up(jobs: Jobs, clock: FakeClock) -> None:
    jobs.define("fail", _fails, retry=Retry(max_attempts=3, jitter=False))
    job = jobs.enqueue("fail")
    _delays(jobs, clock, job)
    dead = jobs.get(job.id)
    assert (dead.status, dead.attempt_count, dead.max_attempts) == ("dead", 3, 3)
    assert (dead.error_code, dead.error_type) == (errors.HandlerFailed.code, "ValueError")
    assert (dead.error_message, dead.finished_at) == ("attempt 3", clock.now())
    assert ends(jobs, job.id) == [(1, "failed"), (2, "failed"), (3, "failed")]
    again = ["failed:failed", "retry_scheduled:retrying", "due:queued", "claimed:processing"]
    assert transitions(jobs, job.id) == [
        "created:queued",
        "claimed:processing",
        *again,
        *again,
        "failed:failed",
        "dead:dead",
    ]


def test_a_retry_is_not_due_early(jobs: Jobs, clock: FakeClock) -> None:
    jobs.define("fail", _fails, retry=Retry(backoff="fixed", initial=10, jitter=False))
    jobs.enqueue("fail")
    worker = jobs.create_worker()
    worker.run_once()
    clock.advance(9.999)
    assert worker.run_once() == 0
    clock.advance(0.001)
    assert worker.run_once() == 1


def test_some_errors_are_not_retried(jobs: Jobs) -> None:
    jobs.define("fail", _fails, retry=Retry(give_up_on=(LookupError, ValueError)))
    jobs.define("fall", _fails, retry=Retry(retry_on=(OSError,)))
    for name in ("fail", "fall"):
        job = jobs.enqueue(name)
        jobs.create_worker().run_once()
        assert jobs.get(job.id).status == "dead"


def test_the_policy_is_that_of_the_enqueueing_not_of_the_worker(jobs: Jobs, clock: FakeClock) -> None:
    producer = Jobs(jobs.storage)
    producer.declare("fail", retry=Retry(max_attempts=9, backoff="fixed", initial=500, jitter=False))
    job = producer.enqueue("fail")
    other = producer.enqueue("fail", retry=Retry(max_attempts=2, backoff="fixed", initial=30, jitter=False))
    jobs.define("fail", _fails, retry=NO_RETRY)
    jobs.create_worker().run_once()
    waits = [(jobs.get(one.id).run_at - clock.now()).total_seconds() for one in (job, other)]
    assert waits == [500, 30]


def test_a_worker_written_by_others_fails_by_the_same_policy(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare(
        "fail", retry=Retry(max_attempts=3, backoff="linear", initial=10, jitter=False, give_up_on=(KeyError,))
    )
    job = jobs.enqueue("fail")
    assert jobs.fail(jobs.claim("w1")[0], "in words")
    after = jobs.get(job.id)
    assert (after.error_code, after.error_message) == (errors.HandlerFailed.code, "in words")
    assert (after.run_at - clock.now()).total_seconds() == 10
    clock.set(after.run_at)
    assert jobs.fail(jobs.claim("w1")[0], OSError("gone"), retry_after=77)
    after = jobs.get(job.id)
    assert (after.error_type, (after.run_at - clock.now()).total_seconds()) == ("OSError", 77)
    clock.set(after.run_at)
    assert jobs.fail(jobs.claim("w1")[0], "once more", retry_after=1)
    assert jobs.get(job.id).status == "dead"
    other = jobs.enqueue("fail")
    assert jobs.fail(jobs.claim("w1")[0], KeyError("never"), retry_after=5)
    assert jobs.get(other.id).status == "dead"


def _until_finished(jobs: Jobs, clock: FakeClock, job: Job) -> Job:
    worker = jobs.create_worker()
    while worker.run_once():
        clock.advance(100)
    return jobs.get(job.id)


def _scripted(*steps: Callable[[], Any]) -> Callable[[Any, Any], Any]:
    """A handler that does something else in each attempt."""
    return lambda ctx, payload: steps[ctx.attempt - 1]()


def _raises(error: Exception) -> Callable[[], Any]:
    def step() -> None:
        raise error

    return step


def test_a_snooze_does_not_count(jobs: Jobs, clock: FakeClock) -> None:
    steps = [lambda: Snooze(60), _raises(ValueError()), lambda: Snooze(0), lambda: "done"]
    jobs.define("doze", _scripted(*steps), retry=Retry(max_attempts=2, jitter=False))
    job = _until_finished(jobs, clock, jobs.enqueue("doze"))
    assert (job.status, job.result, job.attempt_count, job.max_attempts) == ("succeeded", "done", 4, 4)
    assert ends(jobs, job.id) == [(1, "snoozed"), (2, "failed"), (3, "snoozed"), (4, "succeeded")]


def test_a_snooze_waits_as_long_as_it_says(jobs: Jobs, clock: FakeClock) -> None:
    jobs.define("doze", lambda ctx, payload: Snooze(60), retry=NO_RETRY)
    job = jobs.enqueue("doze")
    jobs.create_worker().run_once()
    snoozed = jobs.get(job.id)
    assert (snoozed.status, snoozed.error_code) == ("retrying", errors.SNOOZED)
    assert (snoozed.run_at - clock.now()).total_seconds() == 60
    assert transitions(jobs, job.id)[-2:] == ["failed:failed", "retry_scheduled:retrying"]


def test_the_last_attempt_can_be_snoozed_and_the_budget_stays_whole(jobs: Jobs, clock: FakeClock) -> None:
    jobs.define("doze", _scripted(lambda: Snooze(1), lambda: Snooze(1), _raises(ValueError())), retry=NO_RETRY)
    job = _until_finished(jobs, clock, jobs.enqueue("doze"))
    assert (job.status, job.attempt_count, job.max_attempts) == ("dead", 3, 3)


def test_a_handler_that_asks_for_a_retry_uses_an_attempt_up(jobs: Jobs, clock: FakeClock) -> None:
    later = _raises(RetryLater(after=42))
    jobs.define("limited", _scripted(later, later), retry=Retry(max_attempts=2))
    job = jobs.enqueue("limited")
    worker = jobs.create_worker()
    worker.run_once()
    waiting = jobs.get(job.id)
    assert (waiting.status, (waiting.run_at - clock.now()).total_seconds()) == ("retrying", 42)
    clock.advance(42)
    worker.run_once()
    dead = jobs.get(job.id)
    assert (dead.status, dead.attempt_count, dead.max_attempts) == ("dead", 2, 2)
    assert ends(jobs, job.id) == [(1, "failed"), (2, "failed")]
