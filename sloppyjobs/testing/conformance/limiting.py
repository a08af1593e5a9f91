"""Limits: jobs that find no permit wait without an attempt, and permits come back with every kind of end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.model import Claim, Job
from sloppyjobs.domain.retry import NO_RETRY, Retry
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.records import attempts, told_apart, transitions


@pytest.fixture
def limited(jobs: Jobs) -> Jobs:
    """Jobs with a name that everybody uses here, and a limit of one at once."""
    jobs.declare("work", retry=NO_RETRY)
    jobs.limit("api", concurrency=1)
    return jobs


def enqueue_limited(jobs: Jobs, number: int, **options: Any) -> list[Job]:
    """Jobs of the limit that these tests share."""
    return [jobs.enqueue("work", resource="api", **options) for _ in range(number)]


def claim_all(jobs: Jobs, limit: int = 100, worker: str = "worker-1") -> list[Claim]:
    """What is due, of every queue."""
    return jobs.claim(worker, queues=("*",), limit=limit)


def _statuses(jobs: Jobs, made: list[Job]) -> list[str]:
    return [jobs.get(job.id).status.value for job in made]


# Permits at the claim


def test_a_job_that_finds_no_permit_waits_without_an_attempt(limited: Jobs) -> None:
    made = enqueue_limited(limited, 3)
    [claim] = claim_all(limited)
    assert claim.id == made[0].id
    assert _statuses(limited, made) == ["processing", "waiting", "waiting"]
    parked = limited.get(made[1].id)
    assert parked.waiting_for == "permit"
    assert parked.attempt_count == 0
    assert attempts(limited, made[1].id) == []
    assert transitions(limited, made[1].id) == ["created:queued", "parked:waiting"]
    assert claim_all(limited) == []
    assert transitions(limited, made[1].id) == ["created:queued", "parked:waiting"]


def test_a_permit_goes_to_the_next_in_line_with_the_settlement(limited: Jobs) -> None:
    made = enqueue_limited(limited, 3)
    for place, job in enumerate(made):
        [claim] = claim_all(limited)
        assert claim.id == job.id
        assert limited.complete(claim)
        assert _statuses(limited, made)[place + 1 :] == ["queued", "waiting"][: 2 - place]
    assert transitions(limited, made[2].id)[1:] == [
        "parked:waiting",
        "unblocked:queued",
        "claimed:processing",
        "succeeded:succeeded",
    ]


def test_queued_jobs_hold_no_permit(limited: Jobs) -> None:
    enqueue_limited(limited, 3, queue="unworked")
    enqueue_limited(limited, 1, queue="worked")
    assert len(limited.claim("worker-1", queues=("worked",), limit=5)) == 1


def test_jobs_of_a_resource_without_a_limit_are_not_limited(limited: Jobs) -> None:
    for _ in range(5):
        limited.enqueue("work", resource="unheard-of")
    assert len(claim_all(limited)) == 5


def test_each_partition_has_its_own_permits(limited: Jobs) -> None:
    for tenant in ("a", "b", "c"):
        enqueue_limited(limited, 2, partition=tenant)
    enqueue_limited(limited, 2)
    assert sorted(str(claim.job.partition_key) for claim in claim_all(limited)) == ["None", "a", "b", "c"]


def test_partitions_that_differ_in_spaces_at_the_end_are_two_or_one(limited: Jobs) -> None:
    for tenant in ("a", "a ", "a", "a "):
        enqueue_limited(limited, 1, partition=tenant)
    taken = told_apart(limited, ["a", "a "])
    held: list[str] = []
    for _ in range(4 // len(taken)):
        claims = claim_all(limited)
        assert sorted(str(claim.job.partition_key) for claim in claims) == taken
        held += [claim.id for claim in claims if limited.complete(claim)]
    assert len(set(held)) == 4


def test_a_long_line_of_one_partition_does_not_keep_others(limited: Jobs) -> None:
    limited.enqueue_many([("work", None, {"resource": "api", "partition": "large"})] * 1200)
    [small] = enqueue_limited(limited, 1, partition="small")
    plain = limited.enqueue("work")
    claimed: set[str] = set()
    for _ in range(20):
        # One claim parks for a moment only, and then takes what it has found.
        claimed |= {claim.id for claim in claim_all(limited, limit=3)}
        if len(claimed) >= 3:
            break
    assert {small.id, plain.id} <= claimed
    assert len(claimed) == 3


def test_permits_are_given_in_the_order_of_the_claim(limited: Jobs, clock: FakeClock) -> None:
    [running] = enqueue_limited(limited, 1)
    [claim] = claim_all(limited)
    later = enqueue_limited(limited, 1)[0]
    clock.advance(1)
    urgent = enqueue_limited(limited, 1, priority=5)[0]
    clock.advance(1)
    last = enqueue_limited(limited, 1)[0]
    assert claim_all(limited) == []
    order = []
    while claim:
        order.append(claim.id)
        limited.complete(claim)
        found = claim_all(limited)
        claim = found[0] if found else None  # type: ignore[assignment]
    assert order == [running.id, urgent.id, later.id, last.id]


def test_who_comes_late_does_not_overtake_the_line(limited: Jobs) -> None:
    first, second = enqueue_limited(limited, 2)
    [claim] = claim_all(limited)
    assert claim.id == first.id
    limited.limit("api", concurrency=2)
    enqueue_limited(limited, 1)
    assert [claim.id for claim in claim_all(limited)] == [second.id]


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
def test_a_permit_comes_back_with_every_kind_of_end(limited: Jobs, end: str) -> None:
    first, second = enqueue_limited(limited, 2)
    [claim] = claim_all(limited)
    assert claim.id == first.id
    PERMIT_ENDS[end](limited, claim)
    assert limited.get(second.id).status == "queued"
    assert [claim.id for claim in claim_all(limited)] == [second.id]
    assert limited.admin.get_limit("api").held == 1


def test_a_permit_comes_back_with_the_lease(limited: Jobs, clock: FakeClock) -> None:
    made = enqueue_limited(limited, 2)
    claim_all(limited)
    clock.advance(29)
    assert claim_all(limited) == []
    clock.advance(2)
    limited.storage.sweep()
    assert limited.get(made[1].id).status == "queued"
    assert limited.admin.get_limit("api").held == 0


def test_a_permit_does_not_come_back_while_its_lease_is_renewed(limited: Jobs, clock: FakeClock) -> None:
    enqueue_limited(limited, 2)
    [claim] = claim_all(limited)
    for _ in range(100):
        clock.advance(20)
        assert limited.heartbeat(claim)
        limited.storage.sweep()
    assert claim_all(limited) == []


def test_a_job_that_retries_gives_its_permit_back(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("flaky", retry=Retry(max_attempts=2, backoff="fixed", initial=60, jitter=False))
    jobs.limit("api", concurrency=1)
    first, second = (jobs.enqueue("flaky", resource="api") for _ in range(2))
    [claim] = claim_all(jobs)
    jobs.fail(claim, "later")
    [claim] = claim_all(jobs)
    assert claim.id == second.id
    clock.advance(25)
    assert jobs.heartbeat(claim, 300)
    clock.advance(60)
    assert claim_all(jobs) == []
    assert jobs.get(first.id).status == "waiting"
    jobs.complete(claim)
    assert [claim.attempt for claim in claim_all(jobs)] == [2]


def test_jobs_in_line_can_be_cancelled_paused_and_replaced(limited: Jobs) -> None:
    made = enqueue_limited(limited, 5)
    [claim] = claim_all(limited)
    limited.admin.cancel(made[1].id)
    limited.admin.pause(made[2].id)
    newer = limited.replace(made[3].id, {"newer": True})
    assert newer.resource == "api"
    limited.complete(claim)
    assert _statuses(limited, made) == ["succeeded", "cancelled", "paused", "cancelled", "queued"]
    [claim] = claim_all(limited)
    assert claim.id == made[4].id
    limited.admin.resume(made[2].id)
    assert limited.get(made[2].id).status == "waiting"
    limited.complete(claim)
    [claim] = claim_all(limited)
    assert claim.id == made[2].id
    limited.complete(claim)
    assert [claim.id for claim in claim_all(limited)] == [newer.id]


def test_a_job_that_was_paused_in_line_goes_on_when_there_is_room(limited: Jobs) -> None:
    first, second = enqueue_limited(limited, 2)
    [claim] = claim_all(limited)
    assert claim.id == first.id
    limited.admin.pause(second.id)
    limited.complete(claim)
    assert limited.admin.resume(second.id).status == "queued"


def test_a_job_in_line_expires(limited: Jobs, clock: FakeClock) -> None:
    made = enqueue_limited(limited, 1) + enqueue_limited(limited, 2, expires=60)
    [claim] = claim_all(limited)
    limited.heartbeat(claim, 600)
    clock.advance(61)
    limited.storage.sweep()
    assert _statuses(limited, made) == ["processing", "cancelled", "cancelled"]
    assert str(limited.admin.get_limit("api").waiting) == "0"


def test_a_child_in_line_is_not_released_by_its_parents(limited: Jobs) -> None:
    parent = limited.enqueue("work")
    child = limited.enqueue("work", depends_on=[parent], resource="api")
    enqueue_limited(limited, 1)
    claims = {claim.job.resource: claim for claim in claim_all(limited)}
    limited.complete(claims[None])
    assert claim_all(limited) == []
    assert limited.get(child.id).waiting_for == "permit"
    limited.storage.cleanup.release_waiting(100)
    assert limited.get(child.id).status == "waiting"
    limited.complete(claims["api"])
    assert [claim.id for claim in claim_all(limited)] == [child.id]


# Changes


def test_a_raised_limit_lets_jobs_go_on_and_a_lowered_one_ends_none(limited: Jobs) -> None:
    made = enqueue_limited(limited, 5)
    claim_all(limited)
    limited.limit("api", concurrency=3)
    assert _statuses(limited, made) == ["processing", "queued", "queued", "waiting", "waiting"]
    claims = claim_all(limited)
    assert len(claims) == 2
    limited.admin.set_limit("api", concurrency=2, actor="ada")
    assert len(limited.admin.list_jobs(status="processing").items) == 3
    limited.complete(claims[0])
    assert claim_all(limited) == []
    limited.complete(claims[1])
    assert len(claim_all(limited)) == 1


def test_a_limit_that_is_removed_lets_everybody_go_on(limited: Jobs, clock: FakeClock) -> None:
    made = enqueue_limited(limited, 4)
    claim_all(limited)
    limited.admin.delete_limit("api", actor="ada", reason="gone")
    assert _statuses(limited, made) == ["processing", "queued", "queued", "queued"]
    assert len(claim_all(limited)) == 3
    with pytest.raises(errors.UnknownLimit):
        limited.admin.set_limit("api", concurrency=1)
    for unknown in ("api", "", "a\0b", "\ud800", "x" * 5000, None, 7):
        for ask in (limited.admin.get_limit, limited.admin.limit_details, limited.admin.delete_limit):
            with pytest.raises(errors.UnknownLimit):
                ask(unknown)  # type: ignore[arg-type]


def test_a_limit_that_no_code_declares_any_more_limits_nothing(make_storage: Any, clock: FakeClock) -> None:
    before, after = (Jobs(make_storage(clock), application="shop") for _ in range(2))
    for jobs in (before, after):
        jobs.declare("work")
    before.declare_limit("api", concurrency=1)
    before.declared_limits.sync()
    made = enqueue_limited(before, 3)
    claim_all(before)
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


def test_the_permit_of_a_running_job_can_be_taken_away(limited: Jobs) -> None:
    first, second = enqueue_limited(limited, 2)
    [claim] = claim_all(limited)
    limited.admin.release_permit(first.id, actor="ada", reason="the handler is gone")
    assert limited.get(first.id).status == "processing"
    assert [claim.id for claim in claim_all(limited)] == [second.id]
    assert limited.complete(claim)
    with pytest.raises(errors.PermitNotHeld):
        limited.admin.release_permit(first.id)
    [entry] = limited.admin.audit(action="release_permit").items
    assert (entry.target, entry.actor, entry.detail["resource"]) == (first.id, "ada", "api")
