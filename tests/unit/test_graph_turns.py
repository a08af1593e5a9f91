"""Jobs of graphs that are settled by the statements of PostgreSQL, while others write to the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from sloppyjobs import Jobs
from sloppyjobs.domain.dependencies import After, Result
from sloppyjobs.domain.followups import Followup
from sloppyjobs.domain.model import Claim, Settlement
from sloppyjobs.domain.states import Cancelled, Failed, Failure, Outcome, Released, Succeeded, decide
from sloppyjobs.storage.dialects.postgres.expected_children import AWAITED
from sloppyjobs.storage.ports.claims import ClaimRequest, Turns

DEAD = Failed(Failure("E", "no"), 0.0, retryable=False)
WAITING = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture
def jobs(postgres_url: str) -> Iterator[Jobs]:
    found = Jobs(postgres_url)
    found.storage.init()
    found.declare("work")
    yield found
    found.storage.close()


@pytest.fixture
def watcher(jobs: Jobs) -> Iterator[Any]:
    """A connection that sees who waits for a lock."""
    engine = create_engine(jobs.storage.engine.url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def _claims(jobs: Jobs, number: int) -> list[Claim]:
    claims = jobs.storage.claim(ClaimRequest("worker", limit=10))
    assert len(claims) == number
    return claims


def _settlements(claims: Sequence[Claim], outcome: Outcome | None = None) -> list[Settlement]:
    decision = decide(1, 3, outcome or Succeeded())
    return [Settlement(one.id, one.attempt, "worker", decision, 0.0, None, one.followups) for one in claims]


def _begun(jobs: Jobs, claims: Sequence[Claim]) -> Turns:
    turns = jobs.storage.turns()
    turns.begin_settle(_settlements(claims))
    return turns


def _until_waiting(watcher: Any, number: int) -> None:
    deadline = time.monotonic() + 30
    while watcher.execute(text(f"SELECT count(*) {WAITING}")).scalar_one() < number:
        assert time.monotonic() < deadline, "nobody waits"
        time.sleep(0.01)


def _unblocked(jobs: Jobs, job_id: str) -> int:
    return [event.event_type for event in jobs.admin.events(job_id)].count("unblocked")


def test_of_jobs_for_which_others_wait_a_part_is_settled_at_once(jobs: Jobs) -> None:
    decision = decide(1, 3, Succeeded())

    def settlements(number: int, bits: Followup | None) -> list[Settlement]:
        return [Settlement(f"job_{n}", 1, "worker", decision, 0.0, None, bits) for n in range(number)]

    turns = jobs.storage.turns()
    plain, children = settlements(400, None), settlements(400, Followup.PARENTS)
    parents = settlements(400, Followup.DEPENDANTS | Followup.PARENTS)
    assert [turns.share(some, 0).number for some in (plain, children, [*plain[:150], *parents])] == [
        400,
        400,
        150 + AWAITED,
    ]
    assert turns.share(parents[:AWAITED], 0).number == AWAITED
    turns.close()


def test_a_child_that_is_added_while_its_parent_is_being_settled_starts(jobs: Jobs, watcher: Any) -> None:
    parent = jobs.enqueue("work")
    first = jobs.enqueue("work", depends_on=parent)
    claims = _claims(jobs, 1)
    with jobs.storage.engine.connect() as holder:
        second = jobs.enqueue("work", depends_on=parent, connection=holder)
        turns = _begun(jobs, claims)
        _until_waiting(watcher, 1)
        holder.commit()
    assert turns.settled() == {parent.id}
    assert [jobs.get(job.id).status for job in (parent, first, second)] == ["succeeded", "queued", "queued"]
    turns.close()


def test_of_two_that_settle_the_last_parents_at_once_one_lets_the_child_start(jobs: Jobs, watcher: Any) -> None:
    parents = [jobs.enqueue("work") for _ in range(2)]
    child = jobs.enqueue("work", depends_on=parents)
    claims = _claims(jobs, 2)
    with jobs.storage.engine.connect() as holder:
        holder.execute(text("SELECT 1 FROM sloppy_jobs WHERE id = :id FOR UPDATE"), {"id": child.id})
        both = [_begun(jobs, [claim]) for claim in claims]
        _until_waiting(watcher, 2)
        assert jobs.get(child.id).status == "waiting"
    assert [turns.settled() for turns in both] == [{claim.id} for claim in claims]
    assert (jobs.get(child.id).status, _unblocked(jobs, child.id)) == ("queued", 1)
    for turns in both:
        turns.close()


def test_a_child_that_waits_again_while_its_parent_is_being_settled_starts(jobs: Jobs, watcher: Any) -> None:
    parent = jobs.enqueue("work")
    child = jobs.enqueue("work", depends_on=parent)
    jobs.admin.pause(child.id)
    claims = _claims(jobs, 1)
    with jobs.storage.engine.connect() as holder:
        # As the command does when it finds the edge open.
        waits = "UPDATE sloppy_jobs SET status = 'waiting', paused_from = NULL WHERE id = :id"
        holder.execute(text(waits), {"id": child.id})
        turns = _begun(jobs, claims)
        _until_waiting(watcher, 1)
        holder.commit()
    assert turns.settled() == {parent.id}
    assert jobs.get(child.id).status == "queued"
    turns.close()


def test_a_paused_child_stays_paused_and_starts_when_it_is_resumed(jobs: Jobs) -> None:
    parent = jobs.enqueue("work")
    child = jobs.enqueue("work", depends_on=parent)
    jobs.admin.pause(child.id)
    assert jobs.storage.turn(_settlements(_claims(jobs, 1)), None)[0] == {parent.id}
    assert jobs.get(child.id).status == "paused"
    jobs.admin.resume(child.id)
    assert jobs.get(child.id).status == "queued"


def test_a_child_and_its_other_parent_are_settled_by_one_statement(jobs: Jobs) -> None:
    parents = [jobs.enqueue("work") for _ in range(2)]
    child = jobs.enqueue("work", depends_on=parents, depends_on_any=True)
    first, second = _claims(jobs, 2)
    jobs.storage.turn(_settlements([first]), None)
    [started] = _claims(jobs, 1)
    assert jobs.storage.turn(_settlements([second, started]), None)[0] == {second.id, child.id}
    assert [jobs.get(job.id).status for job in (*parents, child)] == ["succeeded"] * 3


SIMPLE: dict[str, tuple[dict[str, Any], Outcome, str]] = {
    "success": ({}, Succeeded(), "queued"),
    "later": ({"delay": 3600}, Succeeded(), "scheduled"),
    "always, dead": ({"on": "always"}, DEAD, "queued"),
    "failure, dead": ({"on": "failure"}, DEAD, "queued"),
    "success, dead": ({}, DEAD, "waiting"),
    "retried": ({}, Failed(Failure("E", "no"), 60.0), "waiting"),
    "released": ({}, Released(), "waiting"),
}
OTHERS: dict[str, tuple[dict[str, Any], Outcome, str]] = {
    "failure, success": ({"on": "failure"}, Succeeded(), "cancelled"),
    "cancelled": ({}, Cancelled("not wanted"), "cancelled"),
    "always, cancelled": ({"on": "always"}, Cancelled("not wanted"), "queued"),
    "result": ({"when": Result("", "==", 1)}, Succeeded("1"), "queued"),
    "other result": ({"when": Result("", "==", 1)}, Succeeded("2"), "cancelled"),
}


def _settle_parent(jobs: Jobs, edge: dict[str, Any], outcome: Outcome) -> str:
    """Settle a parent with this outcome in a turn; the status of its child."""
    parent = jobs.enqueue("work")
    delay = edge.pop("delay", None)
    child = jobs.enqueue("work", depends_on=After(parent, **edge), delay=delay)
    assert jobs.storage.turn(_settlements(_claims(jobs, 1), outcome), None)[0] == {parent.id}
    return jobs.get(child.id).status


@pytest.mark.parametrize(("edge", "outcome", "status"), SIMPLE.values(), ids=SIMPLE)
def test_what_an_end_means_for_a_child_is_written_by_the_statement_itself(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, edge: dict[str, Any], outcome: Outcome, status: str
) -> None:
    def refuse(_settlements: object) -> Any:
        raise AssertionError("the common way was taken")

    monkeypatch.setattr(jobs.storage.claims.settlement, "settle", refuse)
    assert _settle_parent(jobs, dict(edge), outcome) == status


@pytest.mark.parametrize(("edge", "outcome", "status"), OTHERS.values(), ids=OTHERS)
def test_ends_that_need_more_than_that_are_left_to_the_common_way(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, edge: dict[str, Any], outcome: Outcome, status: str
) -> None:
    common: list[int] = []
    settle: Callable[..., set[str]] = jobs.storage.claims.settlement.settle
    monkeypatch.setattr(
        jobs.storage.claims.settlement, "settle", lambda given: common.append(len(given)) or settle(given)
    )
    assert _settle_parent(jobs, dict(edge), outcome) == status
    assert common == [1]
