"""The state machine has exactly its edges, and the end of an attempt means exactly one thing."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sloppyjobs import errors
from sloppyjobs.domain.states import (
    EDGES,
    FINISHED,
    INITIAL,
    AttemptStatus,
    Cancelled,
    Failed,
    Failure,
    Lost,
    Outcome,
    Released,
    Snoozed,
    Status,
    Succeeded,
    allowed,
    check,
    decide,
    event_type,
)

TABLE = """
| scheduled | queued, cancelled, paused |
| queued | processing, cancelled, deleted, paused, waiting |
| processing | succeeded, failed, cancelled, waiting |
| failed | retrying, dead, queued |
| retrying | queued, cancelled, paused |
| dead | queued, deleted |
| succeeded | deleted |
| cancelled | deleted |
| waiting | queued, scheduled, cancelled, paused |
| paused | scheduled, queued, retrying, waiting, cancelled |
| deleted | |
"""
EXPECTED = {
    Status(source.strip()): {Status(target.strip()) for target in targets.split(",") if target.strip()}
    for source, targets in (line.strip("|").split("|") for line in TABLE.strip().splitlines())
}

FAILURES = st.builds(Failure, code=st.text(max_size=5), message=st.text(max_size=5))
DELAYS = st.floats(min_value=0, max_value=1e9)
OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Succeeded, result=st.none() | st.text(max_size=5)),
    st.builds(Failed, failure=FAILURES, delay=DELAYS, retryable=st.booleans(), timed_out=st.booleans()),
    st.builds(Lost, failure=FAILURES),
    st.just(Released()),
    st.builds(Snoozed, delay=DELAYS),
    st.builds(Cancelled, reason=st.text(max_size=5)),
)
ATTEMPTS = st.integers(1, 50).flatmap(lambda most: st.tuples(st.integers(1, most), st.just(most)))


@pytest.mark.parametrize(("source", "target"), list(product(Status, Status)), ids=str)
def test_an_edge_exists_where_the_table_has_one_and_nowhere_else(source: Status, target: Status) -> None:
    assert allowed(source, target) == (target in EXPECTED[source])
    if target in EXPECTED[source]:
        check(source, target, "job j")
    else:
        with pytest.raises(errors.InvalidTransition, match=f"job j is {source} and cannot become {target}"):
            check(source, target, "job j")


def test_every_status_has_a_row() -> None:
    assert EDGES.keys() == EXPECTED.keys() == set(Status)


def test_what_is_final_says_so() -> None:
    with pytest.raises(errors.InvalidTransition, match="nothing: it is final"):
        check(Status.DELETED, Status.QUEUED, "job j")


def test_a_status_is_its_text() -> None:
    assert Status.DEAD == "dead"
    assert f"{Status.DEAD}" == "dead"
    assert AttemptStatus.TIMED_OUT == "timed_out"


def test_every_status_can_be_reached_from_a_beginning() -> None:
    reached = set(INITIAL)
    while more := {target for source in reached for target in EDGES[source]} - reached:
        reached |= more
    assert reached == set(Status)


def test_a_finished_job_can_only_be_retried_or_deleted() -> None:
    assert {target for source in FINISHED for target in EDGES[source]} == {Status.QUEUED, Status.DELETED}
    assert EDGES[Status.SUCCEEDED] == EDGES[Status.CANCELLED] == {Status.DELETED}


@given(ATTEMPTS, OUTCOMES)
def test_every_decision_walks_legal_edges_to_a_place_to_rest(attempt: tuple[int, int], outcome: Outcome) -> None:
    decision = decide(*attempt, outcome)
    source = Status.PROCESSING
    for target in decision.path:
        check(source, target, "the job")
        source = target
    assert source not in (Status.PROCESSING, Status.FAILED)


@given(ATTEMPTS, OUTCOMES)
def test_only_a_snooze_and_a_release_do_not_count(attempt: tuple[int, int], outcome: Outcome) -> None:
    assert decide(*attempt, outcome).counts == (not isinstance(outcome, Snoozed | Released))


@given(ATTEMPTS, OUTCOMES)
def test_a_job_that_may_run_again_always_has_an_attempt_left(attempt: tuple[int, int], outcome: Outcome) -> None:
    number, most = attempt
    decision = decide(number, most, outcome)
    budget = most if decision.counts else most + 1
    if decision.path[-1] not in FINISHED:
        assert number < budget


@given(ATTEMPTS, OUTCOMES)
def test_an_attempt_that_did_not_succeed_says_why(attempt: tuple[int, int], outcome: Outcome) -> None:
    decision = decide(*attempt, outcome)
    if decision.path[0] is Status.FAILED:
        assert decision.failure is not None
        assert decision.result is None
    else:
        assert decision.failure is None


@given(ATTEMPTS, OUTCOMES)
def test_an_attempt_is_over_when_it_is_decided(attempt: tuple[int, int], outcome: Outcome) -> None:
    assert decide(*attempt, outcome).attempt is not AttemptStatus.RUNNING


@given(st.integers(1, 20), st.lists(OUTCOMES, max_size=60))
def test_no_history_ever_exceeds_its_budget(most: int, outcomes: list[Outcome]) -> None:
    counted, budget = 0, most
    for number, outcome in enumerate(outcomes, start=1):
        decision = decide(number, budget, outcome)
        counted += decision.counts
        budget += not decision.counts
        assert counted <= most
        assert number <= budget
        if decision.path[-1] in FINISHED:
            break


@pytest.mark.parametrize(
    ("attempt", "most", "outcome", "path", "ended"),
    [
        (1, 3, Succeeded(), "succeeded", "succeeded"),
        (3, 3, Succeeded(), "succeeded", "succeeded"),
        (1, 3, Failed(Failure("c", "m"), 5), "failed retrying", "failed"),
        (1, 3, Failed(Failure("c", "m"), 0), "failed retrying queued", "failed"),
        (3, 3, Failed(Failure("c", "m"), 5), "failed dead", "failed"),
        (1, 3, Failed(Failure("c", "m"), 5, retryable=False), "failed dead", "failed"),
        (1, 3, Failed(Failure("c", "m"), 5, timed_out=True), "failed retrying", "timed_out"),
        (1, 3, Lost(Failure("c", "m")), "failed queued", "lost"),
        (3, 3, Lost(Failure("c", "m")), "failed dead", "lost"),
        (3, 3, Released(), "failed queued", "released"),
        (3, 3, Snoozed(5), "failed retrying", "snoozed"),
        (1, 3, Cancelled("why"), "cancelled", "cancelled"),
    ],
)
def test_an_outcome_means(attempt: int, most: int, outcome: Outcome, path: str, ended: str) -> None:
    decision = decide(attempt, most, outcome)
    assert (" ".join(decision.path), decision.attempt) == (path, ended)


def test_a_delay_belongs_to_a_retry_alone() -> None:
    failed = Failed(Failure("c", "m"), 5)
    assert decide(1, 3, failed).delay == 5
    assert decide(3, 3, failed).delay == 0


@pytest.mark.parametrize(
    ("source", "target", "name"),
    [
        (None, Status.QUEUED, "created"),
        (Status.SCHEDULED, Status.QUEUED, "due"),
        (Status.RETRYING, Status.QUEUED, "due"),
        (Status.QUEUED, Status.PROCESSING, "claimed"),
        (Status.FAILED, Status.RETRYING, "retry_scheduled"),
        (Status.FAILED, Status.QUEUED, "requeued"),
        (Status.DEAD, Status.QUEUED, "retried"),
        (Status.WAITING, Status.QUEUED, "unblocked"),
        (Status.PAUSED, Status.RETRYING, "resumed"),
        (Status.PAUSED, Status.CANCELLED, "cancelled"),
        (Status.PROCESSING, Status.SUCCEEDED, "succeeded"),
    ],
)
def test_an_edge_has_a_name(source: Status | None, target: Status, name: str) -> None:
    assert event_type(source, target) == name
