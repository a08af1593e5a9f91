"""Settling and claiming while answers are lost: one's own work is recognised, somebody else's is not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import msgspec
import pytest
from proxy import FaultyProxy
from sqlalchemy.exc import DBAPIError

from sloppyjobs import Jobs, Retry, storage
from sloppyjobs.domain.dependencies import After
from sloppyjobs.domain.model import Claim, Job, Settlement
from sloppyjobs.domain.states import Cancelled, Failed, Failure, Outcome, Released, Snoozed, Succeeded, decide
from sloppyjobs.storage import SqlStore, database
from sloppyjobs.storage.ports.claims import ClaimRequest
from sloppyjobs.storage.unavailable import StorageUnavailable

pytestmark = pytest.mark.timeout(90)

SETTLES = "UPDATE sloppy_job_attempts"
CLAIMS = "INSERT INTO sloppy_job_attempts"

Turn = Callable[[SqlStore, list[Settlement], ClaimRequest | None], tuple[set[str], Any]]
TURNS: dict[str, Turn] = {
    "by the statements of PostgreSQL": lambda s, settlements, request: s.turn(settlements, request),
    "by those of every database": SqlStore.turn,
}
OUTCOMES: dict[str, tuple[Outcome, str]] = {
    "succeeded": (Succeeded('{"answer":42}'), "succeeded"),
    "failed": (Failed(Failure("E", "no"), 60.0), "retrying"),
    "dead": (Failed(Failure("E", "no"), 0.0, retryable=False), "dead"),
    "timed out": (Failed(Failure("E", "late"), 60.0, timed_out=True), "retrying"),
    "snoozed": (Snoozed(60.0), "retrying"),
    "released": (Released(), "queued"),
    "cancelled": (Cancelled("not wanted"), "cancelled"),
}


@pytest.fixture
def jobs(proxied_url: str) -> Iterator[Jobs]:
    """Through the proxy."""
    found = Jobs(storage.postgres(proxied_url))
    found.declare("greet")
    yield found
    found.storage.close()


@pytest.fixture(params=TURNS.values(), ids=TURNS.keys())
def turn(request: pytest.FixtureRequest) -> Turn:
    found: Turn = request.param
    return found


def claimed(jobs: Jobs, number: int = 1, **options: Any) -> list[Claim]:
    jobs.enqueue_many([("greet", {"n": n}, options) for n in range(number)])
    claims = jobs.claim("w1", limit=number, lease=600)
    assert len(claims) == number
    return claims


def decided(claim: Claim, outcome: Outcome) -> Settlement:
    return Settlement(claim.id, claim.attempt, claim.worker_id, decide(claim.attempt, claim.job.max_attempts, outcome))


def walked(jobs: Jobs, job_id: str) -> list[str]:
    return [event.to_status for event in jobs.admin.events(job_id)]


# Settling


@pytest.mark.parametrize(("outcome", "status"), OUTCOMES.values(), ids=OUTCOMES.keys())
def test_a_settlement_that_finds_its_own_outcome_is_accepted(
    proxy: FaultyProxy, jobs: Jobs, turn: Turn, outcome: Outcome, status: str
) -> None:
    [claim] = claimed(jobs)
    proxy.drop_answer_to(SETTLES)
    assert turn(jobs.storage, [decided(claim, outcome)], None)[0] == {claim.id}
    assert proxy.answers_dropped == 1
    assert jobs.get(claim.id).status == status
    assert turn(jobs.storage, [decided(claim, outcome)], None)[0] == set(), "the second time it is late"
    assert walked(jobs, claim.id).count(status) == (2 if status == "queued" else 1)


@pytest.mark.parametrize("status", ["succeeded", "dead"])
def test_a_parent_whose_answer_was_lost_lets_its_children_start_once(
    proxy: FaultyProxy, jobs: Jobs, turn: Turn, status: str
) -> None:
    parent = jobs.enqueue("greet")
    child = jobs.enqueue("greet", depends_on=After(parent, on="always")).id
    [claim] = jobs.claim("w1", lease=600)
    settlement = msgspec.structs.replace(decided(claim, OUTCOMES[status][0]), followups=claim.followups)
    proxy.drop_answer_to(SETTLES)
    assert turn(jobs.storage, [settlement], None)[0] == {claim.id}
    assert proxy.answers_dropped == 1
    assert turn(jobs.storage, [settlement], None)[0] == set(), "the second time it is late"
    assert walked(jobs, claim.id).count(status) == 1
    assert walked(jobs, child) == ["waiting", "queued"]


def test_of_a_batch_only_what_was_ours_is_accepted(proxy: FaultyProxy, jobs: Jobs, turn: Turn) -> None:
    claims = claimed(jobs, 3)
    jobs.admin.cancel(claims[1].id)
    proxy.drop_answer_to(SETTLES)
    accepted, _ = turn(jobs.storage, [decided(claim, Succeeded()) for claim in claims], None)
    assert proxy.answers_dropped == 1
    assert accepted == {claims[0].id, claims[2].id}
    assert [jobs.get(claim.id).status for claim in claims] == ["succeeded", "cancelled", "succeeded"]


def test_complete_is_true_once(proxy: FaultyProxy, jobs: Jobs) -> None:
    [claim] = claimed(jobs)
    proxy.drop_answer_to(SETTLES)
    assert jobs.complete(claim, "done") is True
    assert proxy.answers_dropped == 1
    assert jobs.complete(claim, "done") is False
    assert jobs.get(claim.id).result == "done"


def test_fail_is_true_and_its_hook_is_called_once(proxy: FaultyProxy, jobs: Jobs) -> None:
    dead: list[Job] = []
    jobs.on_dead(dead.append)
    [claim] = claimed(jobs, max_attempts=1)
    proxy.drop_answer_to(SETTLES)
    assert jobs.fail(claim, "no") is True
    assert proxy.answers_dropped == 1
    assert jobs.fail(claim, "no") is False
    assert [(job.id, job.status) for job in dead] == [(claim.id, "dead")]


def test_a_caller_who_was_told_of_the_fault_may_call_again(
    proxy: FaultyProxy, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead: list[Job] = []
    jobs.on_dead(dead.append)
    claim, other = claimed(jobs, 2, max_attempts=1)
    with monkeypatch.context() as patch:
        patch.setattr(database, "RETRY_SECONDS", -1.0)
        proxy.drop_answer_to(SETTLES)
        with pytest.raises(StorageUnavailable) as told:
            jobs.fail(claim, "no")
        assert proxy.answers_dropped == 1
        assert told.value.maybe_done
    assert not jobs.complete(claim), "that is another outcome"
    assert [jobs.fail(claim, "no"), jobs.fail(claim, "no")] == [True, False]
    assert [job.id for job in dead] == [claim.id]
    assert jobs.complete(other)


def test_a_caller_is_told_that_it_may_be_done_when_the_server_cannot_be_asked_again(
    proxy: FaultyProxy, jobs: Jobs
) -> None:
    [claim] = claimed(jobs)
    proxy.drop_answer_to(SETTLES)
    proxy.refuse = True
    with pytest.raises(StorageUnavailable) as told:
        jobs.complete(claim)
    assert proxy.answers_dropped == 1
    assert told.value.maybe_done
    proxy.refuse = False
    assert [jobs.complete(claim), jobs.complete(claim)] == [True, False]


def test_what_another_has_settled_meanwhile_is_stale(proxy: FaultyProxy, jobs: Jobs) -> None:
    [claim] = claimed(jobs)
    jobs.admin.cancel(claim.id)
    proxy.drop_answer_to("FOR UPDATE")
    assert jobs.complete(claim) is False
    assert proxy.answers_dropped == 1


def test_hooks_hear_of_a_lost_lease_when_the_answer_to_the_sweep_is_lost(proxy: FaultyProxy, jobs: Jobs) -> None:
    dead: list[Job] = []
    jobs.on_dead(dead.append)
    jobs.enqueue("greet", max_attempts=1)
    [claim] = jobs.claim("w1", lease=0.001)
    proxy.drop_answer_to(SETTLES)
    while not dead:
        jobs.claim("w2")
    assert proxy.answers_dropped == 1
    assert [(job.id, job.status) for job in dead] == [(claim.id, "dead")]


# Claiming


def test_a_claim_whose_answer_was_lost_finds_what_it_took(proxy: FaultyProxy, jobs: Jobs, turn: Turn) -> None:
    sent = jobs.enqueue_many([("greet", {"n": n}) for n in range(5)])
    [held] = jobs.claim("w1", limit=1)
    proxy.drop_answer_to(CLAIMS)
    _, claims = turn(jobs.storage, [], ClaimRequest("w1", limit=3))
    assert proxy.answers_dropped == 1
    assert [claim.id for claim in claims] == [job.id for job in sent[1:4]]
    assert [(claim.attempt, claim.payload) for claim in claims] == [(1, {"n": n}) for n in (1, 2, 3)]
    assert [claim.id for claim in turn(jobs.storage, [], ClaimRequest("w1", limit=3))[1]] == [sent[4].id]
    assert all(jobs.complete(claim) for claim in (held, *claims))


def test_a_turn_settles_and_claims_although_its_answers_are_lost(proxy: FaultyProxy, jobs: Jobs, turn: Turn) -> None:
    claims = claimed(jobs, 2)
    waiting = jobs.enqueue("greet")
    proxy.drop_answer_to(CLAIMS)
    proxy.drop_answer_to(SETTLES)
    settlements = [decided(claim, Succeeded()) for claim in claims]
    accepted, taken = turn(jobs.storage, settlements, ClaimRequest("w1"))
    assert (accepted, [claim.id for claim in taken]) == ({claim.id for claim in claims}, [waiting.id])
    assert jobs.get(waiting.id).attempt_count == 1


def test_a_claim_that_failed_is_found_by_the_next_one(
    proxy: FaultyProxy, jobs: Jobs, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = jobs.enqueue("greet"), jobs.enqueue("greet")
    if turn is SqlStore.turn:
        # It claims on a connection of the pool, which must be there before new ones are refused.
        jobs.get(first.id)
    with monkeypatch.context() as patch:
        patch.setattr(database, "RETRY_SECONDS", -1.0)
        proxy.drop_answer_to(CLAIMS)
        proxy.refuse = True
        with pytest.raises(DBAPIError):
            turn(jobs.storage, [], ClaimRequest("w1"))
        assert proxy.answers_dropped == 1
        proxy.refuse = False
    assert [claim.id for claim in turn(jobs.storage, [], ClaimRequest("w2"))[1]] == [second.id]
    assert [claim.id for claim in turn(jobs.storage, [], ClaimRequest("w1"))[1]] == [first.id]
    assert turn(jobs.storage, [], ClaimRequest("w1"))[1] == []


def test_two_who_claim_under_one_id_do_not_find_each_others_work(proxy: FaultyProxy, jobs: Jobs) -> None:
    jobs.enqueue_many([("greet", n) for n in range(4)])
    barrier = Barrier(2)

    def claim(_: int) -> list[str]:
        barrier.wait()
        return [claim.id for claim in jobs.claim("w1", limit=2)]

    proxy.drop_answer_to(CLAIMS, count=2)
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(claim, range(2))
    assert proxy.answers_dropped == 2
    assert len({*one, *other}) == len(one) + len(other) == 4


# A worker


def test_a_worker_calls_its_hooks_once_and_calls_nothing_stale(
    proxy: FaultyProxy, proxied_url: str, eventually: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    jobs = Jobs(storage.postgres(proxied_url))
    dead: list[str] = []
    jobs.on_dead(lambda job: dead.append(job.id))

    @jobs.define("fail", retry=Retry(max_attempts=1))
    def fail(_ctx: Any, _payload: Any) -> None:
        raise ValueError("no")

    @jobs.define("greet")
    def greet(_ctx: Any, payload: Any) -> Any:
        return payload

    proxy.drop_answer_to(CLAIMS)
    proxy.drop_answer_to(SETTLES)
    sent = jobs.enqueue_many([(name, n) for n in range(10) for name in ("greet", "fail")])
    worker = jobs.create_worker(concurrency=4, lease=600, heartbeat=60, recurring=False, maintenance=False)
    with caplog.at_level(logging.WARNING, "sloppyjobs.worker"):
        worker.start()
        # Long before a lease would have brought back what a claim took unheard.
        finished = [eventually(lambda id=job.id: _finished(jobs, id)) for job in sent]
        eventually(lambda: len(dead) == 10)
        assert worker.stop(timeout=30)
    assert proxy.answers_dropped == 2
    assert [(job.status, job.attempt_count) for job in finished] == [("succeeded", 1), ("dead", 1)] * 10
    assert sorted(dead) == sorted(job.id for job in finished if job.status == "dead")
    assert "stale" not in caplog.text
    jobs.storage.close()


def _finished(jobs: Jobs, job_id: str) -> Job | None:
    job = jobs.get(job_id)
    return job if job.finished_at is not None else None
