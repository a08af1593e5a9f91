"""Children that PostgreSQL claims with the settlement of their parents: only those that a claim would take next."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from sqlalchemy import text

from sloppyjobs import Jobs
from sloppyjobs.domain.followups import Followup
from sloppyjobs.domain.model import Claim, Settlement
from sloppyjobs.domain.states import Succeeded, decide
from sloppyjobs.storage.dialects.postgres.child_claims import LANES
from sloppyjobs.storage.dialects.postgres.expected_children import AWAITED, LEAST_AWAITED, ExpectedChildren
from sloppyjobs.storage.dialects.postgres.turns import PostgresClaims
from sloppyjobs.storage.ports.claims import ClaimRequest, Turns
from sloppyjobs.testing import history

CHILDREN = ClaimRequest("worker", ("default",), {"work", "other"}, limit=2, lease=600)


@pytest.fixture
def jobs(postgres_url: str) -> Iterator[Jobs]:
    found = Jobs(postgres_url)
    found.storage.init()
    for name in ("work", "other", "unknown"):
        found.declare(name)
    yield found
    found.storage.close()


@pytest.fixture
def turns(jobs: Jobs) -> Iterator[Turns]:
    found = jobs.storage.turns()
    yield found
    found.close()


def _parent(jobs: Jobs) -> tuple[str, Claim]:
    parent = jobs.enqueue("work", priority=100)
    [claim] = jobs.storage.claim(CLAIM_ONE)
    assert claim.id == parent.id
    return parent.id, claim


CLAIM_ONE = CHILDREN._replace(limit=1)


def _settle(turns: Turns, claims: Sequence[Claim], children: ClaimRequest | None = CHILDREN) -> list[Claim]:
    decision = decide(1, 3, Succeeded())
    # As a claim says now: children were added after this one.
    bits = int(Followup.DEPENDANTS)
    turns.begin_settle([Settlement(c.id, c.attempt, "worker", decision, 0.0, None, bits) for c in claims], children)
    assert turns.settled() == {claim.id for claim in claims}
    return list(turns.children())


def _statuses(jobs: Jobs, ids: Sequence[str]) -> list[str]:
    return [jobs.get(job_id).status for job_id in ids]


def test_a_child_that_would_be_claimed_next_is_claimed_with_the_end_of_its_parent(jobs: Jobs, turns: Turns) -> None:
    parent, claim = _parent(jobs)
    child = jobs.enqueue("work", {"n": 1}, depends_on=parent).id
    [claimed] = _settle(turns, [claim])
    assert (claimed.id, claimed.attempt, claimed.worker_id, claimed.payload) == (child, 1, "worker", {"n": 1})
    job = jobs.get(child)
    assert (job.status, job.locked_by, job.attempt_count) == ("processing", "worker", 1)
    walked = [(event.event_type, event.from_status, event.to_status) for event in jobs.admin.events(child)]
    assert sorted(walked[-2:]) == sorted([("claimed", "queued", "processing"), ("unblocked", "waiting", "queued")])
    assert [attempt.status for attempt in jobs.admin.attempts(child)] == ["running"]
    assert jobs.complete(claimed)
    assert jobs.get(child).status == "succeeded"


def test_no_more_children_are_claimed_than_there_is_room_for_and_the_first_ones(jobs: Jobs, turns: Turns) -> None:
    parent, claim = _parent(jobs)
    children = [jobs.enqueue("work", depends_on=parent, priority=n).id for n in range(4)]
    assert [one.id for one in _settle(turns, [claim])] == [children[3], children[2]]
    assert _statuses(jobs, children) == ["queued", "queued", "processing", "processing"]


def test_without_a_request_all_children_are_queued(jobs: Jobs, turns: Turns) -> None:
    parent, claim = _parent(jobs)
    child = jobs.enqueue("work", depends_on=parent).id
    assert _settle(turns, [claim], None) == []
    assert _statuses(jobs, [child]) == ["queued"]


def _before(jobs: Jobs, parent: str) -> str:
    jobs.enqueue("other", priority=1)
    return jobs.enqueue("work", depends_on=parent).id


def _earlier(jobs: Jobs, parent: str) -> str:
    jobs.enqueue("work")
    return jobs.enqueue("work", depends_on=parent).id


def _paused_queue(jobs: Jobs, parent: str) -> str:
    jobs.admin.pause_queue("default")
    return jobs.enqueue("work", depends_on=parent).id


def _other_queue(jobs: Jobs, parent: str) -> str:
    return jobs.enqueue("work", depends_on=parent, queue="elsewhere").id


def _other_name(jobs: Jobs, parent: str) -> str:
    return jobs.enqueue("unknown", depends_on=parent).id


def _business_key(jobs: Jobs, parent: str) -> str:
    return jobs.enqueue("work", depends_on=parent, business_key="one", unique="pending").id


def _other_parent(jobs: Jobs, parent: str) -> str:
    return jobs.enqueue("work", depends_on=[parent, jobs.enqueue("unknown").id]).id


def _many_lanes(jobs: Jobs, parent: str) -> str:
    jobs.enqueue_many([("unknown", {}, {"queue": f"q{n}", "priority": -1}) for n in range(LANES)])
    return jobs.enqueue("work", depends_on=parent).id


QUEUED: dict[str, tuple[Callable[[Jobs, str], str], str]] = {
    "a job of higher priority is queued": (_before, "queued"),
    "an earlier job is queued": (_earlier, "queued"),
    "its queue is paused": (_paused_queue, "queued"),
    "the worker does not take its queue": (_other_queue, "queued"),
    "the worker does not know its name": (_other_name, "queued"),
    "it gives up a key when it starts": (_business_key, "queued"),
    "it waits for another one": (_other_parent, "waiting"),
    "there are many lanes": (_many_lanes, "queued"),
}


@pytest.mark.parametrize(("child", "status"), QUEUED.values(), ids=QUEUED)
def test_a_child_is_not_claimed_where(jobs: Jobs, turns: Turns, child: Callable[[Jobs, str], str], status: str) -> None:
    parent, claim = _parent(jobs)
    job_id = child(jobs, parent)
    assert _settle(turns, [claim]) == []
    assert _statuses(jobs, [job_id]) == [status]
    assert not list(jobs.admin.attempts(job_id))


def _after(jobs: Jobs, parent: str) -> str:
    child = jobs.enqueue("work", depends_on=parent).id
    jobs.enqueue_many([("work", {}, {}), ("other", {}, {"priority": -1})])
    return child


def _of_others(jobs: Jobs, parent: str) -> str:
    jobs.enqueue("unknown", priority=1)
    jobs.enqueue("work", priority=1, queue="elsewhere")
    return jobs.enqueue("work", depends_on=parent).id


def _in_paused_queue(jobs: Jobs, parent: str) -> str:
    jobs.enqueue("work", priority=1, queue="paused")
    jobs.admin.pause_queue("paused")
    return jobs.enqueue("work", depends_on=parent).id


CLAIMED = {
    "come after it": _after,
    "are for other workers": _of_others,
    "are in a queue that is paused": _in_paused_queue,
}


@pytest.mark.parametrize("child", CLAIMED.values(), ids=CLAIMED)
def test_a_child_is_claimed_although_there_are_jobs_that(
    jobs: Jobs, turns: Turns, child: Callable[[Jobs, str], str]
) -> None:
    parent, claim = _parent(jobs)
    job_id = child(jobs, parent)
    every = CHILDREN._replace(queues=("default", "paused"))
    assert [one.id for one in _settle(turns, [claim], every)] == [job_id]


def test_a_job_that_another_is_claiming_does_not_come_before(jobs: Jobs, turns: Turns) -> None:
    parent, claim = _parent(jobs)
    first = jobs.enqueue("work").id
    child = jobs.enqueue("work", depends_on=parent).id
    with jobs.storage.engine.connect() as other:
        other.execute(text("SELECT 1 FROM sloppy_jobs WHERE id = :id FOR UPDATE"), {"id": first})
        assert [one.id for one in _settle(turns, [claim])] == [child]


def test_children_that_were_claimed_without_an_answer_are_found_by_the_next_claim(
    jobs: Jobs, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, claim = _parent(jobs)
    child = jobs.enqueue("work", depends_on=parent).id

    def lose(_self: PostgresClaims, sent: Any) -> None:
        sent.answers()

    with monkeypatch.context() as patched:
        patched.setattr(PostgresClaims, "_answered", lose)
        assert _settle(turns, [claim]) == []
    assert _statuses(jobs, [parent, child]) == ["succeeded", "processing"]
    turns.begin_claim(CLAIM_ONE)
    assert [(one.id, one.attempt) for one in turns.claimed()] == [(child, 1)]


def test_a_worker_claims_the_jobs_of_a_chain_as_it_settles(jobs: Jobs) -> None:
    jobs.define("step", lambda _ctx, _payload: None)
    with jobs.workflow("chain") as flow:
        steps = [flow.add("step")]
        for _ in range(20):
            steps.append(flow.add("step", after=steps[-1]))
    worker = jobs.create_worker(concurrency=2)
    worker.start()
    deadline = time.monotonic() + 30
    while jobs.admin.get_workflow(flow.id).status != "succeeded":
        assert time.monotonic() < deadline, jobs.admin.get_workflow(flow.id).counts
        time.sleep(0.05)
    worker.stop(timeout=10)
    assert sum(_released_and_claimed_at_once(jobs, step.id) for step in steps[1:]) >= 15
    history.assert_sound(jobs, within=60)


def _released_and_claimed_at_once(jobs: Jobs, job_id: str) -> bool:
    instants = {event.event_type: event.created_at for event in jobs.admin.events(job_id)}
    return instants["unblocked"] == instants["claimed"]


def _ended(number: int, bits: int = int(Followup.DEPENDANTS)) -> list[Settlement]:
    decision = decide(1, 3, Succeeded())
    return [
        Settlement(f"job_{n}", 1, "worker", decision, 0.0, None, bits, ("default", f"work {bits}"))
        for n in range(number)
    ]


def test_room_is_kept_for_as_many_children_as_there_were_lately() -> None:
    expected = ExpectedChildren()
    assert expected.number(_ended(10)) == 0, "nobody has had children yet"
    for _ in range(4):
        expected.share(_ended(10), 1000)
        expected.learn(80)
    assert 75 <= expected.number(_ended(10)) <= 80
    both = int(Followup.DEPENDANTS | Followup.PARENTS)
    assert expected.number(_ended(10, both)) == 10, "other jobs have others"
    assert expected.number(_ended(10, int(Followup.PARENTS))) == 0


def test_of_jobs_that_have_many_children_fewer_are_settled_at_once() -> None:
    expected = ExpectedChildren()
    for _ in range(4):
        expected.share(_ended(10), 1000)
        expected.learn(80)
    number, children = expected.share(_ended(400), 320)
    assert number < 50 and children <= 320
    assert expected.share(_ended(400), 8).number == LEAST_AWAITED
    assert expected.share(_ended(400), 0).number == AWAITED


def test_jobs_whose_children_others_take_are_not_waited_for() -> None:
    expected = ExpectedChildren()
    for _ in range(4):
        expected.share(_ended(100), 1000)
        expected.learn(0)
    assert 1 <= expected.number(_ended(100)) <= 10
