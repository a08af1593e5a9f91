"""The sweep: expired leases return, due times come true, a bounded number at a time."""

from __future__ import annotations

from datetime import timedelta

from sloppyjobs import errors
from sloppyjobs.domain.retry import Retry
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.records import attempts, count, ends, events, transitions


def test_a_lease_that_has_run_out_returns_the_job_to_the_queue(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    job = jobs.enqueue("greet")
    jobs.claim("w1", lease=30)
    clock.advance(31)
    assert jobs.storage.sweep().expired == 1
    back = jobs.get(job.id)
    assert (back.status, back.locked_by, back.locked_until, back.finished_at) == ("queued", None, None, None)
    assert (back.error_code, back.run_at, back.attempt_count) == (errors.LeaseExpired.code, job.run_at, 1)
    assert transitions(jobs, job.id) == ["created:queued", "claimed:processing", "failed:failed", "requeued:queued"]


def test_a_lost_attempt_is_closed_as_lost_and_says_whose_it_was(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    job = jobs.enqueue("greet")
    jobs.claim("w1", lease=30)
    clock.advance(31)
    jobs.storage.sweep()
    [attempt] = attempts(jobs, job.id)
    assert (attempt.status, attempt.finished_at) == ("lost", clock.now())
    assert attempt.error_code == errors.LeaseExpired.code
    assert "w1" in str(attempt.error_message)
    assert events(jobs, job.id)[2].message == attempt.error_message


def test_a_lease_holds_to_its_last_instant(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    jobs.enqueue("greet")
    jobs.claim("w1", lease=30)
    clock.advance(30)
    assert jobs.storage.sweep().expired == 0


def test_a_job_that_loses_every_worker_is_dead_when_its_attempts_are_used_up(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("abort", retry=Retry(max_attempts=2))
    job = jobs.enqueue("abort")
    for worker in ("w1", "w2"):
        assert len(jobs.claim(worker, lease=30)) == 1
        clock.advance(31)
    assert jobs.claim("w3") == []
    dead = jobs.get(job.id)
    assert (dead.status, dead.error_code, dead.finished_at) == ("dead", errors.LeaseExpired.code, clock.now())
    assert transitions(jobs, job.id)[-2:] == ["failed:failed", "dead:dead"]
    assert ends(jobs, job.id) == [(1, "lost"), (2, "lost")]


def test_a_sweep_says_which_attempts_were_lost_and_what_became_of_them(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    again = jobs.enqueue("greet", correlation_id="order-7", metadata={"team": "growth"})
    dead = jobs.enqueue("greet", max_attempts=1)
    held = jobs.claim("w1", limit=2, lease=30)
    assert jobs.storage.sweep().lost == ()
    clock.advance(31)
    lost = {one.job.id: one for one in jobs.storage.sweep().lost}
    assert lost.keys() == {again.id, dead.id}
    assert {one.job.id: one.job for one in held} == {id: one.job for id, one in lost.items()}, "as it was held"
    paths = {id: one.settlement.decision.path for id, one in lost.items()}
    assert paths == {again.id: ("failed", "queued"), dead.id: ("failed", "dead")}
    assert {(one.settlement.attempt, one.settlement.worker_id) for one in lost.values()} == {(1, "w1")}
    assert jobs.storage.sweep().lost == ()


def test_a_claim_sweeps_first(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    lost, later = jobs.enqueue("greet"), jobs.enqueue("greet", delay=20)
    jobs.claim("w1", lease=10)
    clock.advance(20)
    claims = jobs.claim("w2", limit=10)
    assert [(claim.id, claim.attempt) for claim in claims] == [(lost.id, 2), (later.id, 1)]


def test_a_scheduled_job_is_queued_when_its_time_has_come(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    job = jobs.enqueue("greet", delay=60)
    clock.advance(59.999)
    assert jobs.storage.sweep().promoted == 0
    clock.advance(0.001)
    assert jobs.storage.sweep().promoted == 1
    due = jobs.get(job.id)
    assert (due.status, due.run_at, due.updated_at) == ("queued", job.run_at, clock.now())
    assert transitions(jobs, job.id) == ["created:scheduled", "due:queued"]


def test_a_retrying_job_is_queued_when_its_time_has_come(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    job = jobs.enqueue("greet")
    jobs.fail(jobs.claim("w1")[0], "no", retry_after=60)
    assert jobs.storage.sweep().promoted == 0
    clock.advance(60)
    assert jobs.storage.sweep().promoted == 1
    assert transitions(jobs, job.id)[-2:] == ["retry_scheduled:retrying", "due:queued"]


def test_a_sweep_is_bounded(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    jobs.enqueue_many([("greet",)] * 7)
    jobs.claim("w1", limit=7, lease=30)
    jobs.enqueue_many([("greet", {}, {"delay": 10})] * 7)
    clock.advance(31)
    swept = [jobs.storage.sweep(limit=3) for _ in range(4)]
    assert [(one.expired, one.promoted) for one in swept] == [(3, 3), (3, 3), (1, 1), (0, 0)]


def test_a_sweep_takes_the_oldest_first(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    late, early = jobs.enqueue("greet", delay=20), jobs.enqueue("greet", delay=10)
    clock.advance(20)
    jobs.storage.sweep(limit=1)
    assert (jobs.get(early.id).status, jobs.get(late.id).status) == ("queued", "scheduled")


def test_a_sweep_says_when_there_is_something_for_the_next(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    assert jobs.storage.sweep().next_in is None
    jobs.enqueue("greet", delay=timedelta(minutes=5))
    assert jobs.storage.sweep().next_in == 300
    jobs.enqueue("greet")
    jobs.claim("w1", lease=30)
    assert jobs.storage.sweep().next_in == 30


def test_a_sweep_without_work_writes_nothing(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    jobs.enqueue("greet")
    jobs.enqueue("greet", delay=60)
    jobs.claim("w1")
    before = count(jobs, "events")
    assert jobs.storage.sweep()[:2] == (0, 0)
    assert count(jobs, "events") == before
