"""Limits in the turns of workers: permits are taken with the claim and given back with the settlement, many at once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from sloppyjobs.domain.model import Claim, Settlement
from sloppyjobs.domain.states import Cancelled, Failed, Failure, Outcome, Released, Snoozed, Succeeded, decide
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.storage.ports.claims import ClaimRequest

FAILURE = Failure("CODE", "what happened", "SomeError", "module:function", "the traceback")
REQUEST = ClaimRequest("worker-1", ("*",), ("work",), 10)


@pytest.fixture
def turning(jobs: Jobs) -> Jobs:
    """Jobs of which a worker has met some that need permits, so that it expects more of them."""
    jobs.declare("work")
    jobs.limit("warm", concurrency=1)
    jobs.enqueue("work", resource="warm")
    [met] = jobs.claim("worker-1", queues=("*",), limit=10)
    jobs.complete(met)
    return jobs


def turn(jobs: Jobs, settlements: list[Settlement], limit: int = 10) -> list[Claim]:
    """Settle these, all of which must be accepted, and claim anew."""
    accepted, claims = jobs.storage.turn(settlements, REQUEST._replace(limit=limit))
    assert accepted == {one.job_id for one in settlements}
    return list(claims)


def ended(claims: list[Claim], outcome: Outcome | None = None) -> list[Settlement]:
    """The ends of these attempts, as a worker tells them."""
    return [
        Settlement(
            claim.id,
            claim.attempt,
            claim.worker_id,
            decide(claim.attempt, 3, outcome or Succeeded()),
            0.01,
            claim.job.batch_id,
            claim.followups,
        )
        for claim in claims
    ]


def permits(jobs: Jobs, name: str = "api") -> int:
    return jobs.admin.get_limit(name).held


def test_turns_under_a_limit_that_does_not_bind_run_everything(turning: Jobs) -> None:
    turning.limit("api", concurrency=50)
    turning.enqueue_many([("work", None, {"resource": "api", "partition": str(place % 3)}) for place in range(60)])
    seen: Counter[str] = Counter()
    claims = turn(turning, [])
    while claims:
        assert permits(turning) == len(claims) == 10
        seen.update(claim.id for claim in claims)
        claims = turn(turning, ended(claims))
    assert len(seen) == 60
    assert set(seen.values()) == {1}
    assert permits(turning) == 0


def test_turns_under_a_limit_that_binds_never_hold_more(turning: Jobs) -> None:
    turning.limit("api", concurrency=2)
    turning.enqueue_many([("work", None, {"resource": "api", "partition": str(place % 2)}) for place in range(20)])
    order: dict[str, list[str]] = {"0": [], "1": []}
    claims = turn(turning, [])
    while claims:
        assert permits(turning) == len(claims)
        assert max(Counter(claim.job.partition_key for claim in claims).values()) <= 2
        for claim in claims:
            order[str(claim.job.partition_key)].append(claim.id)
        turning.storage.turn(ended(claims), None)
        claims = turn(turning, [])
    assert [len(ids) for ids in order.values()] == [10, 10]
    assert order == {partition: sorted(ids) for partition, ids in order.items()}


def test_a_settlement_in_a_turn_lets_the_next_in_line_go_on(turning: Jobs) -> None:
    turning.limit("api", concurrency=1)
    turning.enqueue_many([("work", None, {"resource": "api"})] * 3)
    claims = turn(turning, [])
    assert len(claims) == 1
    for left in (2, 1):
        assert str(turning.admin.get_limit("api").waiting) == str(left)
        turning.storage.turn(ended(claims), None)
        # Without a sweep in between.
        claims = turn(turning, [])
        assert len(claims) == 1


@pytest.mark.parametrize(
    "outcome",
    [
        Succeeded(),
        Failed(FAILURE, 60.0),
        Failed(FAILURE, 0.0, retryable=False),
        Cancelled("not wanted"),
        Released(),
        Snoozed(60.0),
    ],
    ids=["succeeded", "retried", "dead", "cancelled", "released", "snoozed"],
)
def test_permits_come_back_with_every_outcome_in_a_turn(turning: Jobs, outcome: Outcome) -> None:
    turning.limit("api", concurrency=5)
    turning.enqueue_many([("work", None, {"resource": "api"})] * 5)
    claims = turn(turning, [])
    assert permits(turning) == 5
    turning.storage.turn(ended(claims[:3], outcome), None)
    assert permits(turning) == 2
    turning.storage.turn(ended(claims[3:]), None)
    assert permits(turning) == 0


def test_jobs_of_a_batch_under_a_limit_are_counted_and_give_back_their_permits(turning: Jobs) -> None:
    turning.limit("api", concurrency=20)
    with turning.batch("import") as batch:
        batch.enqueue_many([("work", None, {"resource": "api"}) for _ in range(12)])
    claims = turn(turning, [])
    dead = ended(claims[:2], Failed(FAILURE, 0.0, retryable=False))
    rest = turn(turning, [*dead, *ended(claims[2:])])
    assert permits(turning) == len(rest) == 2
    turning.storage.turn(ended(rest), None)
    view = turning.admin.get_batch(batch.id)
    assert (view.outstanding, view.succeeded, view.dead) == (0, 10, 2)
    assert permits(turning) == 0


def test_turns_take_tokens_of_a_rate(turning: Jobs, clock: FakeClock) -> None:
    turning.limit("api", rate=4, per=8)
    turning.enqueue_many([("work", None, {"resource": "api"})] * 12)
    started = [len(turn(turning, [], limit=2)) for _ in range(3)]
    assert started == [2, 2, 0]
    for seconds, number in ((2, 1), (4, 2), (1.5, 0), (0.5, 1), (80, 4)):
        clock.advance(seconds)
        turning.storage.sweep()
        assert len(turn(turning, [])) == number, seconds


def test_turns_start_nothing_while_a_lowered_limit_is_exceeded(turning: Jobs) -> None:
    turning.limit("api", concurrency=10)
    turning.enqueue_many([("work", None, {"resource": "api"})] * 8)
    claims = turn(turning, [], limit=4)
    assert len(claims) == 4
    turning.admin.set_limit("api", concurrency=2)
    assert turn(turning, []) == []
    turning.storage.turn(ended(claims[:2]), None)
    assert turn(turning, []) == []
    turning.storage.turn(ended(claims[2:]), None)
    assert len(turn(turning, [])) == 2


def test_a_turn_takes_plain_jobs_beside_limited_ones(turning: Jobs) -> None:
    turning.limit("api", concurrency=1)
    turning.limit("both", concurrency=5, rate=3, per=60)
    options: list[dict[str, Any]] = [{}, {"resource": "api"}, {"resource": "unheard-of"}, {"resource": "both"}]
    turning.enqueue_many([("work", None, options[place % 4]) for place in range(16)])
    claims = turn(turning, [], limit=16)
    assert Counter(claim.job.resource for claim in claims) == {None: 4, "api": 1, "unheard-of": 4, "both": 3}


def test_the_admin_says_who_is_first_in_line_since_when_and_what_a_rate_has_left(
    turning: Jobs, clock: FakeClock
) -> None:
    turning.limit("api", concurrency=1)
    turning.limit("rated", rate=5, per=50)
    options = [{"resource": "api", "partition": one} for one in "aab"] + [{"resource": "rated"}] * 2
    made = turning.enqueue_many([("work", None, one) for one in options])
    since = clock.now()
    turn(turning, [])
    clock.advance(30)
    [full] = turning.admin.full_partitions(["api", "rated"])
    assert (full.resource, full.partition, str(full.waiting)) == ("api", "a", "1")
    assert (full.held, full.concurrency, full.tokens, full.next_since) == (1, 1, None, since)
    line, idle = turning.admin.limit_details("api").partitions
    assert (line.partition, line.next_id, line.next_name, line.next_since) == ("a", made[1].id, "work", since)
    assert (idle.partition, idle.next_id, idle.next_since) == ("b", None, None)
    hidden = turning.admin.limit_details("api", scope=["other"]).partitions[0]
    assert (hidden.next_id, hidden.next_name, hidden.next_since) == (None, None, since)
