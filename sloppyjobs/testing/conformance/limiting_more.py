"""Limits, further: rates, repair, explanations, refusals, and many who claim at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.limiting import claim_all, enqueue_limited

# Rates


def test_a_rate_is_a_bucket_of_tokens(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("work")
    jobs.limit("api", rate=3, per=60)
    made = enqueue_limited(jobs, 6)
    claims = claim_all(jobs)
    assert len(claims) == 3
    assert jobs.storage.sweep().next_in == pytest.approx(20)
    clock.advance(19)
    assert claim_all(jobs) == []
    clock.advance(1)
    claims += claim_all(jobs)
    assert [claim.id for claim in claims] == [job.id for job in made[:4]]
    assert all(map(jobs.complete, claims))
    clock.advance(600)
    assert len(claim_all(jobs)) == 2
    assert len(enqueue_limited(jobs, 5)) == 5
    assert len(claim_all(jobs)) == 1


def test_a_rate_counts_starts_and_not_ends(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("work")
    jobs.limit("api", concurrency=1, rate=2, per=10)
    enqueue_limited(jobs, 4)
    for _ in range(2):
        [claim] = claim_all(jobs)
        jobs.complete(claim)
    assert claim_all(jobs) == []
    clock.advance(5)
    [claim] = claim_all(jobs)
    clock.advance(5)
    assert claim_all(jobs) == []
    jobs.complete(claim)
    assert len(claim_all(jobs)) == 1


def test_partitions_have_buckets_of_their_own(jobs: Jobs) -> None:
    jobs.declare("work")
    jobs.limit("api", rate=1, per=3600)
    for tenant in ("a", "b"):
        enqueue_limited(jobs, 3, partition=tenant)
    assert sorted(str(claim.job.partition_key) for claim in claim_all(jobs)) == ["a", "b"]


def test_a_faster_rate_is_in_force_at_once_whatever_was_taken_by_the_slower_one(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("work")
    jobs.limit("api", rate=1, per=86_400)
    enqueue_limited(jobs, 5)
    assert len(claim_all(jobs)) == 1
    jobs.admin.set_limit("api", rate=4, per=8)
    assert claim_all(jobs) == []
    for _ in range(4):
        clock.advance(2)
        assert len(claim_all(jobs)) == 1


def test_a_faster_rate_that_came_while_nobody_waited_is_in_force_soon(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("work")
    jobs.limit("api", rate=1, per=86_400)
    enqueue_limited(jobs, 1)
    assert len(claim_all(jobs)) == 1
    jobs.admin.set_limit("api", rate=1, per=2)
    enqueue_limited(jobs, 1)
    assert claim_all(jobs) == []
    jobs.storage.sweep()
    clock.advance(2)
    assert len(claim_all(jobs)) == 1


def test_a_clock_that_steps_back_stops_no_rate(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("work")
    jobs.limit("api", rate=2, per=60)
    enqueue_limited(jobs, 2)
    assert len(claim_all(jobs)) == 2
    clock.advance(timedelta(hours=-1))
    enqueue_limited(jobs, 2)
    assert claim_all(jobs) == []
    jobs.storage.sweep()
    clock.advance(30)
    assert len(claim_all(jobs)) == 1


def test_clocks_that_differ_a_little_take_no_bucket_for_too_empty(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("work")
    jobs.limit("api", rate=10, per=10)
    enqueue_limited(jobs, 20)
    assert len(claim_all(jobs)) == 10
    # The nodes of a cluster sweep in turns, and one of them is behind by five seconds.
    for ahead in (-5, 5, -5, 5):
        clock.advance(ahead)
        jobs.storage.sweep()
        assert claim_all(jobs) == []


# Repair


def test_the_sweep_makes_up_for_a_permit_whose_job_does_not_run(limited: Jobs, clock: FakeClock) -> None:
    first, second = enqueue_limited(limited, 2)
    claim_all(limited)
    # As a cluster whose servers do not see each other's locks, or somebody's hand, might leave it.
    limited.storage.inspection.set_job(first.id, status="succeeded")
    clock.advance(1)
    limited.storage.sweep()
    assert limited.get(second.id).status == "queued"
    limited.storage.inspection.set_job(first.id, status="processing")


def test_a_permit_that_is_left_to_a_job_which_nobody_takes_goes_to_another(limited: Jobs, clock: FakeClock) -> None:
    [claim_first] = enqueue_limited(limited, 1)
    [claim] = claim_all(limited)
    enqueue_limited(limited, 1, queue="left")
    enqueue_limited(limited, 1, queue="worked")
    assert claim_all(limited) == []
    limited.complete(claim)
    assert limited.claim("worker-1", queues=("worked",)) == []
    clock.advance(6)
    assert [claim.job.queue for claim in limited.claim("worker-1", queues=("worked",))] == ["worked"]
    assert claim_first.id == claim.id


# Explanations


def test_an_explanation_says_the_place_in_line_and_who_holds_the_permits(limited: Jobs) -> None:
    made = enqueue_limited(limited, 4, partition="tenant:42")
    claim_all(limited)
    told = limited.admin.explain(made[3].id)
    assert told.reasons[0].code == "permit"
    assert "2 jobs are ahead of it in line" in told.verdict
    assert made[0].id in told.verdict
    assert "'tenant:42'" in told.verdict
    assert "next in line" in limited.admin.explain(made[1].id).verdict
    hidden = limited.admin.explain(made[1].id, scope=["other"]).verdict
    assert made[0].id not in hidden


def test_an_explanation_says_when_the_next_token_comes(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("work")
    jobs.limit("api", rate=1, per=60)
    made = enqueue_limited(jobs, 2)
    claim_all(jobs)
    reason = jobs.admin.explain(made[1].id).reasons[0]
    assert reason.until == clock.now() + timedelta(seconds=60)


def test_an_explanation_says_that_nothing_limits_a_resource(limited: Jobs) -> None:
    job = limited.enqueue("work", resource="unheard-of")
    assert "not_limited" in [reason.code for reason in limited.admin.explain(job.id).reasons]


# Refusals


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": -1}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"concurrency": 1.5}, "concurrency"),
        ({"rate": 0, "per": 1}, "rate"),
        ({"rate": -5, "per": 1}, "rate"),
        ({"rate": 5}, "rate"),
        ({"per": 5}, "per"),
        ({"rate": 5, "per": 0}, "per"),
        ({"rate": 5, "per": -1}, "per"),
        ({"rate": 5, "per": "a minute"}, "per"),
    ],
)
def test_limits_that_cannot_work_are_refused_by_name(jobs: Jobs, values: dict[str, Any], field: str) -> None:
    for refuse in (jobs.limit, jobs.declare_limit):
        with pytest.raises(errors.InvalidOption) as refused:
            refuse("api", **values)
        assert refused.value.field == field
    assert jobs.admin.list_limits().items == ()


def test_names_of_limits_and_partitions_are_checked(jobs: Jobs) -> None:
    jobs.declare("work")
    for name in ("", " ", "a" * 129, 5):
        with pytest.raises(errors.InvalidOption):
            jobs.limit(name, concurrency=1)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidOption):
            jobs.enqueue("work", resource=name)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidOption, match="resource"):
        jobs.enqueue("work", partition="alone")
    with pytest.raises(errors.InvalidOption, match="resource"):
        jobs.enqueue_many([("work", None, {"partition": "alone"})])
    with pytest.raises(errors.InvalidOption, match="resource"):
        jobs.declare("other", partition="tenant")
    with pytest.raises(errors.InvalidOption, match="pause the queue"):
        jobs.limit("api", concurrency=0)


# Many at once


def test_permits_are_never_more_than_the_limit_however_many_claim(live_jobs: Jobs) -> None:
    live_jobs.declare("work")
    live_jobs.limit("api", concurrency=3)
    live_jobs.enqueue_many([("work", None, {"resource": "api", "partition": str(n % 2)}) for n in range(60)])
    running: dict[str, int] = {"0": 0, "1": 0}
    lock, most = threading.Lock(), dict(running)
    done: list[str] = []

    def drain(worker: int) -> None:
        while len(done) < 60:
            claims = live_jobs.claim(f"worker-{worker}", queues=("*",), limit=4)
            with lock:
                for claim in claims:
                    partition = str(claim.job.partition_key)
                    running[partition] += 1
                    most[partition] = max(most[partition], running[partition])
            for claim in claims:
                partition = str(claim.job.partition_key)
                with lock:
                    # Before the settlement, with which another one may start.
                    running[partition] -= 1
                assert live_jobs.complete(claim)
                done.append(claim.id)

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(drain, number) for number in range(4)]:
            future.result(timeout=60)
    assert len(set(done)) == 60
    assert max(most.values()) <= 3
    limit = live_jobs.admin.get_limit("api")
    assert (limit.held, str(limit.waiting)) == (0, "0")
