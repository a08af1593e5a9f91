"""Limits: jobs that find no permit wait without an attempt, and permits come back with every kind of end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.model import Claim, Job
from sloppyjobs.domain.retry import NO_RETRY, Retry
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.records import attempts, transitions


@pytest.fixture
def work(jobs: Jobs) -> Jobs:
    """Jobs with a name that everybody uses here, and a limit of one at once."""
    jobs.declare("work", retry=NO_RETRY)
    jobs.limit("api", concurrency=1)
    return jobs


def _enqueue(jobs: Jobs, number: int, **options: Any) -> list[Job]:
    return [jobs.enqueue("work", resource="api", **options) for _ in range(number)]


def _claim(jobs: Jobs, limit: int = 100, worker: str = "worker-1") -> list[Claim]:
    return jobs.claim(worker, queues=("*",), limit=limit)


def _statuses(jobs: Jobs, made: list[Job]) -> list[str]:
    return [jobs.get(job.id).status.value for job in made]


# Permits at the claim


def test_a_job_that_finds_no_permit_waits_without_an_attempt(work: Jobs) -> None:
    made = _enqueue(work, 3)
    [claim] = _claim(work)
    assert claim.id == made[0].id
    assert _statuses(work, made) == ["processing", "waiting", "waiting"]
    parked = work.get(made[1].id)
    assert parked.waiting_for == "permit"
    assert parked.attempt_count == 0
    assert attempts(work, made[1].id) == []
    assert transitions(work, made[1].id) == ["created:queued", "parked:waiting"]
    assert _claim(work) == []
    assert transitions(work, made[1].id) == ["created:queued", "parked:waiting"]


def test_a_permit_goes_to_the_next_in_line_with_the_settlement(work: Jobs) -> None:
    made = _enqueue(work, 3)
    for place, job in enumerate(made):
        [claim] = _claim(work)
        assert claim.id == job.id
        assert work.complete(claim)
        assert _statuses(work, made)[place + 1 :] == ["queued", "waiting"][: 2 - place]
    assert transitions(work, made[2].id)[1:] == [
        "parked:waiting",
        "unblocked:queued",
        "claimed:processing",
        "succeeded:succeeded",
    ]


def test_queued_jobs_hold_no_permit(work: Jobs) -> None:
    _enqueue(work, 3, queue="unworked")
    _enqueue(work, 1, queue="worked")
    assert len(work.claim("worker-1", queues=("worked",), limit=5)) == 1


def test_jobs_of_a_resource_without_a_limit_are_not_limited(work: Jobs) -> None:
    for _ in range(5):
        work.enqueue("work", resource="unheard-of")
    assert len(_claim(work)) == 5


def test_each_partition_has_its_own_permits(work: Jobs) -> None:
    for tenant in ("a", "b", "c"):
        _enqueue(work, 2, partition=tenant)
    _enqueue(work, 2)
    assert sorted(str(claim.job.partition_key) for claim in _claim(work)) == ["None", "a", "b", "c"]


def test_a_long_line_of_one_partition_does_not_keep_others(work: Jobs) -> None:
    work.enqueue_many([("work", None, {"resource": "api", "partition": "large"})] * 1200)
    [small] = _enqueue(work, 1, partition="small")
    plain = work.enqueue("work")
    claimed: set[str] = set()
    for _ in range(20):
        # One claim parks for a moment only, and then takes what it has found.
        claimed |= {claim.id for claim in _claim(work, limit=3)}
        if len(claimed) >= 3:
            break
    assert {small.id, plain.id} <= claimed
    assert len(claimed) == 3


def test_permits_are_given_in_the_order_of_the_claim(work: Jobs, clock: FakeClock) -> None:
    [running] = _enqueue(work, 1)
    [claim] = _claim(work)
    later = _enqueue(work, 1)[0]
    clock.advance(1)
    urgent = _enqueue(work, 1, priority=5)[0]
    clock.advance(1)
    last = _enqueue(work, 1)[0]
    assert _claim(work) == []
    order = []
    while claim:
        order.append(claim.id)
        work.complete(claim)
        found = _claim(work)
        claim = found[0] if found else None  # type: ignore[assignment]
    assert order == [running.id, urgent.id, later.id, last.id]


def test_who_comes_late_does_not_overtake_the_line(work: Jobs) -> None:
    first, second = _enqueue(work, 2)
    [claim] = _claim(work)
    assert claim.id == first.id
    work.limit("api", concurrency=2)
    _enqueue(work, 1)
    assert [claim.id for claim in _claim(work)] == [second.id]


def test_a_definition_names_resource_and_partition(jobs: Jobs) -> None:
    jobs.declare("by-key", resource="api", partition="tenant")
    jobs.declare("by-function", resource="api", partition=lambda payload: payload["tenant"] // 10)
    keyed = jobs.enqueue("by-key", {"tenant": "t-1"})
    made = jobs.enqueue("by-function", {"tenant": 42})
    assert (keyed.resource, keyed.partition_key) == ("api", "t-1")
    assert made.partition_key == "4"
    other = jobs.enqueue("by-key", {"tenant": "t-1"}, resource="other", partition="p")
    assert (other.resource, other.partition_key) == ("other", "p")
    several = jobs.enqueue_many([("by-key", {"tenant": tenant}) for tenant in "abc"])
    assert [job.partition_key for job in several] == ["a", "b", "c"]
    with pytest.raises(errors.InvalidOption, match="partition"):
        jobs.enqueue("by-key", {"customer": 1})


# Ends


def _die(jobs: Jobs, claim: Claim) -> None:
    assert jobs.fail(claim, ValueError("no"))


PERMIT_ENDS: dict[str, Callable[[Jobs, Claim], Any]] = {
    "succeeded": lambda jobs, claim: jobs.complete(claim),
    "dead": _die,
    "cancelled": lambda jobs, claim: jobs.admin.cancel(claim.id),
}


@pytest.mark.parametrize("end", PERMIT_ENDS)
def test_a_permit_comes_back_with_every_kind_of_end(work: Jobs, end: str) -> None:
    first, second = _enqueue(work, 2)
    [claim] = _claim(work)
    assert claim.id == first.id
    PERMIT_ENDS[end](work, claim)
    assert work.get(second.id).status == "queued"
    assert [claim.id for claim in _claim(work)] == [second.id]
    assert work.admin.get_limit("api").held == 1


def test_a_permit_comes_back_with_the_lease(work: Jobs, clock: FakeClock) -> None:
    made = _enqueue(work, 2)
    _claim(work)
    clock.advance(29)
    assert _claim(work) == []
    clock.advance(2)
    work.storage.sweep()
    assert work.get(made[1].id).status == "queued"
    assert work.admin.get_limit("api").held == 0


def test_a_permit_does_not_come_back_while_its_lease_is_renewed(work: Jobs, clock: FakeClock) -> None:
    _enqueue(work, 2)
    [claim] = _claim(work)
    for _ in range(100):
        clock.advance(20)
        assert work.heartbeat(claim)
        work.storage.sweep()
    assert _claim(work) == []


def test_a_job_that_retries_gives_its_permit_back(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("flaky", retry=Retry(max_attempts=2, backoff="fixed", initial=60, jitter=False))
    jobs.limit("api", concurrency=1)
    first, second = (jobs.enqueue("flaky", resource="api") for _ in range(2))
    [claim] = _claim(jobs)
    jobs.fail(claim, "later")
    [claim] = _claim(jobs)
    assert claim.id == second.id
    clock.advance(25)
    assert jobs.heartbeat(claim, 300)
    clock.advance(60)
    assert _claim(jobs) == []
    assert jobs.get(first.id).status == "waiting"
    jobs.complete(claim)
    assert [claim.attempt for claim in _claim(jobs)] == [2]


def test_jobs_in_line_can_be_cancelled_paused_and_replaced(work: Jobs) -> None:
    made = _enqueue(work, 5)
    [claim] = _claim(work)
    work.admin.cancel(made[1].id)
    work.admin.pause(made[2].id)
    newer = work.replace(made[3].id, {"newer": True})
    assert newer.resource == "api"
    work.complete(claim)
    assert _statuses(work, made) == ["succeeded", "cancelled", "paused", "cancelled", "queued"]
    [claim] = _claim(work)
    assert claim.id == made[4].id
    work.admin.resume(made[2].id)
    assert work.get(made[2].id).status == "waiting"
    work.complete(claim)
    [claim] = _claim(work)
    assert claim.id == made[2].id
    work.complete(claim)
    assert [claim.id for claim in _claim(work)] == [newer.id]


def test_a_job_that_was_paused_in_line_goes_on_when_there_is_room(work: Jobs) -> None:
    first, second = _enqueue(work, 2)
    [claim] = _claim(work)
    assert claim.id == first.id
    work.admin.pause(second.id)
    work.complete(claim)
    assert work.admin.resume(second.id).status == "queued"


def test_a_job_in_line_expires(work: Jobs, clock: FakeClock) -> None:
    made = _enqueue(work, 1) + _enqueue(work, 2, expires=60)
    [claim] = _claim(work)
    work.heartbeat(claim, 600)
    clock.advance(61)
    work.storage.sweep()
    assert _statuses(work, made) == ["processing", "cancelled", "cancelled"]
    assert str(work.admin.get_limit("api").waiting) == "0"


def test_a_child_in_line_is_not_released_by_its_parents(work: Jobs) -> None:
    parent = work.enqueue("work")
    child = work.enqueue("work", depends_on=[parent], resource="api")
    _enqueue(work, 1)
    claims = {claim.job.resource: claim for claim in _claim(work)}
    work.complete(claims[None])
    assert _claim(work) == []
    assert work.get(child.id).waiting_for == "permit"
    work.storage.cleanup.release_waiting(100)
    assert work.get(child.id).status == "waiting"
    work.complete(claims["api"])
    assert [claim.id for claim in _claim(work)] == [child.id]


# Changes


def test_a_raised_limit_lets_jobs_go_on_and_a_lowered_one_ends_none(work: Jobs) -> None:
    made = _enqueue(work, 5)
    _claim(work)
    work.limit("api", concurrency=3)
    assert _statuses(work, made) == ["processing", "queued", "queued", "waiting", "waiting"]
    claims = _claim(work)
    assert len(claims) == 2
    work.admin.set_limit("api", concurrency=2, actor="ada")
    assert len(work.admin.list_jobs(status="processing").items) == 3
    work.complete(claims[0])
    assert _claim(work) == []
    work.complete(claims[1])
    assert len(_claim(work)) == 1


def test_a_limit_that_is_removed_lets_everybody_go_on(work: Jobs, clock: FakeClock) -> None:
    made = _enqueue(work, 4)
    _claim(work)
    work.admin.delete_limit("api", actor="ada", reason="gone")
    assert _statuses(work, made) == ["processing", "queued", "queued", "queued"]
    assert len(_claim(work)) == 3
    with pytest.raises(errors.UnknownLimit):
        work.admin.get_limit("api")
    with pytest.raises(errors.UnknownLimit):
        work.admin.set_limit("api", concurrency=1)


def test_a_limit_that_no_code_declares_any_more_limits_nothing(make_storage: Any, clock: FakeClock) -> None:
    before, after = (Jobs(make_storage(clock), application="shop") for _ in range(2))
    for jobs in (before, after):
        jobs.declare("work")
    before.declare_limit("api", concurrency=1)
    before.declared_limits.sync()
    made = _enqueue(before, 3)
    _claim(before)
    after.declare_limit("other", concurrency=1)
    assert after.declared_limits.sync() == ["api"]
    assert _statuses(after, made) == ["processing", "queued", "queued"]
    assert after.admin.get_limit("api").vanished
    before.declared_limits.sync()
    assert not after.admin.get_limit("api").vanished


def test_what_an_operator_changed_stays_until_the_code_says_something_else(make_storage: Any, clock: FakeClock) -> None:
    jobs = Jobs(make_storage(clock))
    jobs.declare_limit("api", concurrency=10)
    jobs.declared_limits.sync()
    jobs.admin.set_limit("api", concurrency=2)
    jobs.declared_limits.sync()
    assert jobs.admin.get_limit("api").concurrency == 2
    assert jobs.admin.get_limit("api").changed
    newer = Jobs(make_storage(clock))
    newer.declare_limit("api", concurrency=11)
    newer.declared_limits.sync()
    assert newer.admin.get_limit("api").concurrency == 11
    with pytest.raises(errors.DuplicateJob):
        newer.declare_limit("api", concurrency=12)


def test_a_worker_declares_its_limits_before_it_claims(jobs: Jobs) -> None:
    ran: list[int] = []
    jobs.define("note", lambda ctx, payload: ran.append(payload), resource="api")
    jobs.declare_limit("api", concurrency=1)
    jobs.enqueue_many([("note", number) for number in range(3)])
    worker = jobs.create_worker(recurring=False)
    assert worker.run_once() == 1
    assert worker.run_until_idle()["succeeded"] == 2
    assert ran == [0, 1, 2]


def test_the_permit_of_a_running_job_can_be_taken_away(work: Jobs) -> None:
    first, second = _enqueue(work, 2)
    [claim] = _claim(work)
    work.admin.release_permit(first.id, actor="ada", reason="the handler is gone")
    assert work.get(first.id).status == "processing"
    assert [claim.id for claim in _claim(work)] == [second.id]
    assert work.complete(claim)
    with pytest.raises(errors.PermitNotHeld):
        work.admin.release_permit(first.id)
    [entry] = work.admin.audit(action="release_permit").items
    assert (entry.target, entry.actor, entry.detail["resource"]) == (first.id, "ada", "api")


# Rates


def test_a_rate_is_a_bucket_of_tokens(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("work")
    jobs.limit("api", rate=3, per=60)
    made = _enqueue(jobs, 6)
    claims = _claim(jobs)
    assert len(claims) == 3
    assert jobs.storage.sweep().next_in == pytest.approx(20)
    clock.advance(19)
    assert _claim(jobs) == []
    clock.advance(1)
    claims += _claim(jobs)
    assert [claim.id for claim in claims] == [job.id for job in made[:4]]
    assert all(map(jobs.complete, claims))
    clock.advance(600)
    assert len(_claim(jobs)) == 2
    assert len(_enqueue(jobs, 5)) == 5
    assert len(_claim(jobs)) == 1


def test_a_rate_counts_starts_and_not_ends(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("work")
    jobs.limit("api", concurrency=1, rate=2, per=10)
    _enqueue(jobs, 4)
    for _ in range(2):
        [claim] = _claim(jobs)
        jobs.complete(claim)
    assert _claim(jobs) == []
    clock.advance(5)
    [claim] = _claim(jobs)
    clock.advance(5)
    assert _claim(jobs) == []
    jobs.complete(claim)
    assert len(_claim(jobs)) == 1


def test_partitions_have_buckets_of_their_own(jobs: Jobs) -> None:
    jobs.declare("work")
    jobs.limit("api", rate=1, per=3600)
    for tenant in ("a", "b"):
        _enqueue(jobs, 3, partition=tenant)
    assert sorted(str(claim.job.partition_key) for claim in _claim(jobs)) == ["a", "b"]


# Repair


def test_the_sweep_makes_up_for_a_permit_whose_job_does_not_run(work: Jobs, clock: FakeClock) -> None:
    first, second = _enqueue(work, 2)
    _claim(work)
    # As a cluster whose servers do not see each other's locks, or somebody's hand, might leave it.
    work.storage.inspection.set_job(first.id, status="succeeded")
    clock.advance(1)
    work.storage.sweep()
    assert work.get(second.id).status == "queued"
    work.storage.inspection.set_job(first.id, status="processing")


def test_a_permit_that_is_left_to_a_job_which_nobody_takes_goes_to_another(work: Jobs, clock: FakeClock) -> None:
    [claim_first] = _enqueue(work, 1)
    [claim] = _claim(work)
    _enqueue(work, 1, queue="left")
    _enqueue(work, 1, queue="worked")
    assert _claim(work) == []
    work.complete(claim)
    assert work.claim("worker-1", queues=("worked",)) == []
    clock.advance(6)
    assert [claim.job.queue for claim in work.claim("worker-1", queues=("worked",))] == ["worked"]
    assert claim_first.id == claim.id


# Explanations


def test_an_explanation_says_the_place_in_line_and_who_holds_the_permits(work: Jobs) -> None:
    made = _enqueue(work, 4, partition="tenant:42")
    _claim(work)
    told = work.admin.explain(made[3].id)
    assert told.reasons[0].code == "permit"
    assert "2 jobs are ahead of it in line" in told.verdict
    assert made[0].id in told.verdict
    assert "'tenant:42'" in told.verdict
    assert "next in line" in work.admin.explain(made[1].id).verdict
    hidden = work.admin.explain(made[1].id, scope=["other"]).verdict
    assert made[0].id not in hidden


def test_an_explanation_says_when_the_next_token_comes(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("work")
    jobs.limit("api", rate=1, per=60)
    made = _enqueue(jobs, 2)
    _claim(jobs)
    reason = jobs.admin.explain(made[1].id).reasons[0]
    assert reason.until == clock.now() + timedelta(seconds=60)


def test_an_explanation_says_that_nothing_limits_a_resource(work: Jobs) -> None:
    job = work.enqueue("work", resource="unheard-of")
    assert "not_limited" in [reason.code for reason in work.admin.explain(job.id).reasons]


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
