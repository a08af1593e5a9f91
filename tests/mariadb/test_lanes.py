"""A claim that goes on where the last one ended misses nothing, and looks for other lanes in the same round trip."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sloppyjobs import Jobs, storage
from sloppyjobs.domain.model import Settlement
from sloppyjobs.domain.states import Released, decide
from sloppyjobs.storage.dialects.mariadb.lanes import MANY_HEADS
from sloppyjobs.storage.ports.claims import ALL_QUEUES, ClaimRequest

MANY = MANY_HEADS


@pytest.fixture
def busy(jobs: Jobs) -> Jobs:
    """Jobs of which a worker has just claimed many, and there are more."""
    jobs.enqueue_many([("greet", n) for n in range(3 * MANY)])
    assert len(_claimed(jobs)) == MANY
    return jobs


def _claimed(jobs: Jobs, limit: int = MANY, queues: Sequence[str] = (ALL_QUEUES,)) -> list[str]:
    """As workers claim, without a look at leases before."""
    return [claim.id for claim in jobs.storage.claim(ClaimRequest("w1", queues, limit=limit))]


def test_a_claim_takes_two_blocks_and_a_commit(busy: Jobs, sent: list[str]) -> None:
    sent.clear()
    assert len(_claimed(busy)) == MANY
    assert [sql.split()[0] for sql in sent] == ["BEGIN", "BEGIN"]
    # It begins behind what was claimed before.
    assert "priority < 0 OR" in sent[0].replace("`", "")


def test_the_order_goes_on(busy: Jobs) -> None:
    second, third = _claimed(busy), _claimed(busy)
    assert [len(second), len(third), len(_claimed(busy))] == [MANY, MANY, 0]
    assert sorted(second + third) == second + third


def test_a_job_of_higher_priority_is_claimed_at_once(busy: Jobs) -> None:
    urgent = busy.enqueue("greet", priority=5)
    assert _claimed(busy)[0] == urgent.id


def test_a_job_of_lower_priority_is_claimed_last(busy: Jobs) -> None:
    late = busy.enqueue("greet", priority=-5)
    assert late.id not in _claimed(busy)
    assert _claimed(busy, MANY + 1)[-1] == late.id


def test_a_job_that_came_back_is_claimed_before_the_lane_is_called_empty(jobs: Jobs) -> None:
    jobs.enqueue_many([("greet", n) for n in range(2 * MANY)])
    first = jobs.storage.claim(ClaimRequest("w1", limit=MANY))[0]
    back = Settlement(first.id, first.attempt, "w1", decide(first.attempt, first.job.max_attempts, Released()))
    assert jobs.storage.settle([back]) == {first.id}
    assert first.id in _claimed(jobs, 2 * MANY)


@pytest.mark.parametrize("queue", ["a", "z"])
@pytest.mark.parametrize("name", ["count", "greet", "zip"])
def test_another_lane_is_seen_at_once(busy: Jobs, queue: str, name: str) -> None:
    busy.declare("zip")
    urgent = busy.enqueue(name, queue=queue, priority=1)
    claimed = _claimed(busy)
    assert claimed[0] == urgent.id
    assert len(claimed) == MANY


def test_a_lane_of_the_same_queue_is_seen_at_once(busy: Jobs) -> None:
    busy.declare("zip")
    urgent = {busy.enqueue(name, priority=1).id for name in ("count", "zip")}
    assert urgent == set(_claimed(busy)[:2])


def test_a_queue_that_is_paused_meanwhile_gives_nothing(busy: Jobs) -> None:
    busy.admin.pause_queue("default")
    assert _claimed(busy) == []
    busy.admin.resume_queue("default")
    assert len(_claimed(busy)) == MANY


@pytest.mark.parametrize("queues", [["default"], ["other", "default"], ["other"]])
def test_queues_that_are_asked_for(busy: Jobs, queues: list[str]) -> None:
    busy.enqueue("greet", queue="third", priority=9)
    other = busy.enqueue("greet", queue="other", priority=9)
    claimed = _claimed(busy, queues=queues)
    assert len(claimed) == (MANY if "default" in queues else 1)
    assert (other.id in claimed) == ("other" in queues)


def test_a_server_in_the_mode_of_oracle_gets_single_statements(mariadb_url: str) -> None:
    store = storage.from_url(f"{mariadb_url}?sql_mode=ORACLE,STRICT_TRANS_TABLES")
    jobs = Jobs(store)
    jobs.declare("greet")
    jobs.enqueue_many([("greet", n) for n in range(MANY)])
    for claim in jobs.claim("w1", limit=MANY)[:2]:
        jobs.complete(claim)
    assert jobs.admin.stats(minutes=5).total.succeeded == 2
    store.close()
