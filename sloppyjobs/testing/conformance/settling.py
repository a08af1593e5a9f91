"""Settling: what the end of an attempt writes, and how a lease is kept until then."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.states import Cancelled, Failed, Failure, Outcome, Released, Snoozed, Succeeded
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.storage.ports.claims import ClaimRequest
from sloppyjobs.testing.conformance.outcomes import Settle, claimed, decided, failed
from sloppyjobs.testing.conformance.records import attempts, ends, events, row, transitions


def test_a_success_is_written_to_job_attempt_and_events(jobs: Jobs, clock: FakeClock, settle_batch: Settle) -> None:
    [claim] = claimed(jobs)
    clock.advance(3)
    assert settle_batch([decided(claim, Succeeded('{"answer":42}'), 2.5)]) == {claim.id}
    job = jobs.get(claim.id)
    assert (job.status, job.result, job.finished_at) == ("succeeded", {"answer": 42}, clock.now())
    assert (job.locked_by, job.locked_until, job.error_code) == (None, None, None)
    [attempt] = attempts(jobs, claim.id)
    assert (attempt.status, attempt.finished_at, attempt.run_seconds) == ("succeeded", clock.now(), 2.5)
    assert transitions(jobs, claim.id) == ["created:queued", "claimed:processing", "succeeded:succeeded"]
    last = events(jobs, claim.id)[-1]
    assert (last.worker_id, last.attempt_number, last.created_at) == ("w1", 1, clock.now())


def test_a_failure_is_written_to_job_attempt_and_events(jobs: Jobs, clock: FakeClock, settle_batch: Settle) -> None:
    [claim] = claimed(jobs)
    assert settle_batch([decided(claim, failed(delay=5), 0.25)]) == {claim.id}
    job = jobs.get(claim.id)
    assert (job.status, job.run_at, job.finished_at) == ("retrying", clock.now() + timedelta(seconds=5), None)
    error = (job.error_code, job.error_message, job.error_type, job.error_frame)
    assert error == ("CODE", "what happened", "SomeError", "module:function")
    [attempt] = attempts(jobs, claim.id)
    assert (attempt.status, attempt.traceback, attempt.run_seconds) == ("failed", "the traceback", 0.25)
    assert transitions(jobs, claim.id)[2:] == ["failed:failed", "retry_scheduled:retrying"]
    assert [event.message for event in events(jobs, claim.id)[2:]] == ["what happened", None]


def test_a_retry_without_a_delay_is_queued_at_once(jobs: Jobs, clock: FakeClock, settle_batch: Settle) -> None:
    first, second = claimed(jobs, 2)
    clock.advance(3)
    assert settle_batch([decided(first, failed(delay=0)), decided(second, failed(delay=5))]) == {first.id, second.id}
    job = jobs.get(first.id)
    assert (job.status, job.run_at, job.error_message) == ("queued", clock.now(), "what happened")
    assert transitions(jobs, first.id)[2:] == ["failed:failed", "retry_scheduled:retrying", "due:queued"]
    assert [event.message for event in events(jobs, first.id)[2:]] == ["what happened", None, None]
    assert jobs.get(second.id).status == "retrying"
    assert [again.id for again in jobs.claim("w1", limit=2)] == [first.id]


def test_a_success_clears_the_error_of_the_attempt_before(jobs: Jobs, clock: FakeClock, settle_batch: Settle) -> None:
    [claim] = claimed(jobs)
    settle_batch([decided(claim, failed(delay=0))])
    [again] = jobs.claim("w1")
    settle_batch([decided(again, Succeeded())])
    job = jobs.get(claim.id)
    assert (job.error_code, job.error_message, job.error_type, job.error_frame) == (None, None, None, None)
    assert ends(jobs, claim.id) == [(1, "failed"), (2, "succeeded")]


@pytest.mark.parametrize(
    ("outcome", "status", "attempt", "path", "budget"),
    [
        (Released(), "queued", "released", ["failed:failed", "requeued:queued"], 4),
        (Snoozed(9), "retrying", "snoozed", ["failed:failed", "retry_scheduled:retrying"], 4),
        (Cancelled("not wanted"), "cancelled", "cancelled", ["cancelled:cancelled"], 3),
        (failed(timed_out=True), "retrying", "timed_out", ["failed:failed", "retry_scheduled:retrying"], 3),
        (failed(retryable=False), "dead", "failed", ["failed:failed", "dead:dead"], 3),
    ],
    ids=["released", "snoozed", "cancelled", "timed out", "not retryable"],
)
def test_every_other_end_walks_its_edges(
    jobs: Jobs, settle_batch: Settle, outcome: Outcome, status: str, attempt: str, path: list[str], budget: int
) -> None:
    [claim] = claimed(jobs)
    assert settle_batch([decided(claim, outcome)]) == {claim.id}
    job = jobs.get(claim.id)
    assert (job.status, job.max_attempts, job.attempt_count) == (status, budget, 1)
    assert ends(jobs, claim.id) == [(1, attempt)]
    assert transitions(jobs, claim.id)[2:] == path


def test_a_released_job_keeps_its_place(jobs: Jobs, clock: FakeClock, settle_batch: Settle) -> None:
    first, _second = claimed(jobs, 2)
    clock.advance(10)
    settle_batch([decided(first, Released())])
    assert jobs.get(first.id).run_at == first.job.run_at


def test_many_are_settled_at_once(jobs: Jobs, settle_batch: Settle) -> None:
    claims = claimed(jobs, 40)
    accepted = settle_batch([decided(claim, Succeeded(claim.payload_json)) for claim in reversed(claims)])
    assert accepted == {claim.id for claim in claims}
    assert [jobs.get(claim.id).result for claim in claims] == list(range(40))


def test_many_of_every_kind_are_settled_at_once(jobs: Jobs, settle_batch: Settle) -> None:
    outcomes: list[Outcome] = [Succeeded(), failed(), Released(), Snoozed(1), Cancelled("no"), Succeeded('"yes"')]
    claims = claimed(jobs, 6)
    settle_batch([decided(claim, outcome) for claim, outcome in zip(claims, outcomes, strict=True)])
    settled = [jobs.get(claim.id) for claim in claims]
    expected = ["succeeded", "retrying", "queued", "retrying", "cancelled", "succeeded"]
    assert [job.status for job in settled] == expected
    assert (settled[0].result, settled[5].result) == (None, "yes")


def test_what_each_of_many_ends_says_is_written_to_its_own_job(
    jobs: Jobs, clock: FakeClock, settle_batch: Settle
) -> None:
    claims = claimed(jobs, 9)
    said = [
        Failure(
            f"CODE{n % 2}", f"message {n}", f"Error{n % 3}", None if n == 4 else f"module:work{n % 2}", f"trace {n}"
        )
        for n in range(6)
    ]
    outcomes: list[Outcome] = [Failed(one, 10.0 + n, retryable=n % 2 == 0) for n, one in enumerate(said)]
    outcomes += [Cancelled("reason 6"), Cancelled("reason 7"), Snoozed(30)]
    settle_batch([decided(claim, outcome) for claim, outcome in zip(reversed(claims), outcomes, strict=True)])
    for number, (claim, one) in enumerate(zip(reversed(claims), said, strict=False)):
        job, [attempt] = jobs.get(claim.id), attempts(jobs, claim.id)
        assert (job.error_code, job.error_message, job.error_type, job.error_frame) == (
            (one.code, one.message, one.type, one.frame)
        )
        assert (attempt.error_code, attempt.traceback) == (one.code, one.traceback)
        assert [event.message for event in events(jobs, claim.id)[2:]] == [one.message, None]
        delay = clock.now() + timedelta(seconds=10 + number)
        assert (job.status, job.run_at) == (("retrying", delay) if number % 2 == 0 else ("dead", claim.job.run_at))
    for number in (6, 7):
        job = jobs.get(claims[8 - number].id)
        assert (job.status, job.error_code, job.error_message) == ("cancelled", None, None)
        assert events(jobs, job.id)[-1].message == f"reason {number}"
    snoozed = jobs.get(claims[0].id)
    assert (snoozed.status, snoozed.run_at) == ("retrying", clock.now() + timedelta(seconds=30))
    assert (snoozed.attempt_count, snoozed.max_attempts) == (1, claims[0].job.max_attempts + 1)


def test_a_turn_settles_and_claims(jobs: Jobs) -> None:
    first, second = claimed(jobs, 2)
    waiting = jobs.enqueue("greet")
    settlements = [decided(first, Succeeded()), decided(second, failed())]
    accepted, claims = jobs.storage.turn(settlements[:1], ClaimRequest("w1", limit=5))
    assert (accepted, [claim.id for claim in claims]) == ({first.id}, [waiting.id])
    accepted, claims = jobs.storage.turn(settlements[1:], ClaimRequest("w1", limit=5))
    assert (accepted, claims) == ({second.id}, [])
    assert jobs.storage.turn([], None) == (set(), [])


def test_a_result_that_is_not_json_is_refused_and_the_claim_goes_on(jobs: Jobs) -> None:
    [claim] = claimed(jobs)
    with pytest.raises(errors.InvalidPayload, match="result"):
        jobs.complete(claim, object())
    assert jobs.complete(claim, {"fine": True})


def test_settlements_are_counted_by_the_minute(jobs: Jobs, clock: FakeClock, settle_batch: Settle) -> None:
    first, second, third = claimed(jobs, 3)
    clock.advance(10)
    settle_batch([decided(first, Succeeded(), 1.5), decided(second, Succeeded(), 0.5)])
    settle_batch([decided(third, failed(retryable=False), 0.25)])
    [counted] = jobs.storage.inspection.counters()
    assert counted.minute == clock.now().replace(second=0)
    assert (counted.queue, counted.name) == ("default", "greet")
    assert (counted.succeeded, counted.failed, counted.dead, counted.run_seconds) == (2, 1, 1, 2.25)


def test_the_row_of_a_finished_job_keeps_its_payload_for_a_retry(jobs: Jobs) -> None:
    [claim] = claimed(jobs)
    jobs.complete(claim)
    assert row(jobs, claim.id).payload == "0"
