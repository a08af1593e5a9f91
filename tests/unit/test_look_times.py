"""When a worker looks for what is due: known moments exactly, everything else at a bounded rate."""

from __future__ import annotations

import pytest

from sloppyjobs.domain.states import Failed, Failure, Snoozed, Suspended, decide
from sloppyjobs.storage.ports.claims import Sweep
from sloppyjobs.worker.look_times import BUSY_SECONDS, IDLE_SECONDS, LookTimes

POLL = 1.0
SOON = 0.001
"""By how much later than it must a look may come."""


def _failed(delay: float) -> object:
    return decide(1, 2, Failed(Failure("E", "no"), delay))


@pytest.fixture
def times() -> LookTimes:
    """After a sweep at 100 that has found nothing and knows of nothing."""
    times = LookTimes(POLL)
    assert times.sweep_at(busy=False) <= 100, "a worker that starts looks at once"
    times.swept(100, 100, Sweep(0, 0, None))
    return times


def test_with_nothing_to_come_it_looks_at_every_poll(times: LookTimes) -> None:
    assert times.sweep_at(busy=False) == times.sweep_at(busy=True) == 100 + POLL
    assert times.due_at(busy=False, by_claim=True) == 100 + POLL


@pytest.mark.parametrize("outcome", [Failed(Failure("E", "no"), 0.005), Snoozed(0.005)])
def test_what_the_worker_has_settled_is_looked_for_when_it_is_due(times: LookTimes, outcome: object) -> None:
    times.settled(100.001, [decide(1, 2, outcome)])  # type: ignore[arg-type]
    due = pytest.approx(100.006, abs=SOON)
    assert times.due_at(busy=False, by_claim=False) == due
    assert times.due_at(busy=False, by_claim=True) == due
    assert times.due_at(busy=True, by_claim=True) == due
    assert times.due_at(busy=True, by_claim=False) == 100 + BUSY_SECONDS, "a sweep would keep others waiting"
    assert times.due_at(busy=False, by_claim=True) >= 100.006, "never before its time"


def test_one_look_is_followed_by_that_for_the_next_known_moment(times: LookTimes) -> None:
    times.settled(100, [_failed(0.010), _failed(0.012), _failed(0.010)])  # type: ignore[list-item]
    times.claimed(times.due_at(busy=True, by_claim=True))
    assert times.due_at(busy=True, by_claim=True) == pytest.approx(100.012, abs=SOON)
    times.claimed(times.due_at(busy=True, by_claim=True))
    assert times.due_at(busy=True, by_claim=True) > 100.012 + 0.9 * BUSY_SECONDS, "what others have is not urgent"


def test_a_job_that_became_due_while_a_sweep_was_under_way_is_looked_for_again(times: LookTimes) -> None:
    times.settled(100, [_failed(0.010)])  # type: ignore[list-item]
    times.swept(100.005, 100.020, Sweep(0, 0, None))
    assert times.due_at(busy=False, by_claim=True) <= 100.020


def test_an_idle_worker_looks_when_the_database_has_said_but_not_again_at_once_in_vain(times: LookTimes) -> None:
    times.swept(101, 101, Sweep(0, 1, 0.003))
    assert times.due_at(busy=False, by_claim=False) == pytest.approx(101.003)
    assert times.due_at(busy=True, by_claim=True) == 101 + BUSY_SECONDS
    times.swept(101.003, 101.003, Sweep(0, 0, 0.0))
    assert times.due_at(busy=False, by_claim=False) == 101.003 + IDLE_SECONDS


def test_after_a_claim_has_looked_an_idle_worker_asks_what_comes_next(times: LookTimes) -> None:
    times.claimed(100.5)
    assert times.sweep_at(busy=False) == 100.5
    assert times.sweep_at(busy=True) == 100 + POLL
    times.swept(100.5, 100.501, Sweep(0, 0, None))
    assert times.sweep_at(busy=False) == 100.501 + POLL


def test_a_job_that_sleeps_is_woken_by_a_sweep(times: LookTimes) -> None:
    times.swept(100, 100, Sweep(0, 1, None))
    times.settled(100, [decide(1, 2, Suspended(0.2, "nap"))])
    assert times.sweep_at(busy=False) == times.sweep_at(busy=True) == pytest.approx(100.2)


def test_few_moments_are_kept_however_many_jobs_are_due(times: LookTimes) -> None:
    times.settled(100, [_failed(10 + number / 100_000) for number in range(100_000)])  # type: ignore[misc]
    looks = 0
    while (due := times.due_at(busy=True, by_claim=True)) < 100 + 11.1 and looks < 1000:
        times.claimed(due)
        looks += 1
    assert looks < 400


def test_an_idle_worker_that_hears_of_a_commit_asks_what_comes_next_but_not_each_time(times: LookTimes) -> None:
    times.news(100.5)
    assert times.sweep_at(busy=False) == times.due_at(busy=True, by_claim=True) == 100.5
    assert times.sweep_at(busy=True) == times.due_at(busy=False, by_claim=True) == 100 + POLL
    times.swept(100.5, 100.5, Sweep(0, 0, 0.02))
    assert times.due_at(busy=False, by_claim=True) == pytest.approx(100.52)
    times.news(100.501)
    assert times.sweep_at(busy=False) == 100.5 + BUSY_SECONDS
    assert times.due_at(busy=False, by_claim=True) == pytest.approx(100.52), "it knows of that one already"


@pytest.mark.parametrize("known", [0, 1])
@pytest.mark.parametrize("by_claim", [True, False])
def test_an_idle_worker_whose_looks_are_in_vain_does_not_turn_without_end(
    times: LookTimes, by_claim: bool, known: int
) -> None:
    """Something is due, and somebody else holds its row; one of our own comes only later, or there is none."""
    times.settled(100, [_failed(0.5)] * known)  # type: ignore[list-item]
    now, looks = 100.0, 0
    while now < 101.0:
        now = max(now, min(times.sweep_at(busy=False), times.due_at(busy=False, by_claim=by_claim)))
        if now >= times.sweep_at(busy=False) or not by_claim:
            times.swept(now, now, Sweep(0, 0, 0.0))
        else:
            times.claimed(now)
        looks += 1
    assert looks <= 2 * (1.0 / IDLE_SECONDS) + 4
