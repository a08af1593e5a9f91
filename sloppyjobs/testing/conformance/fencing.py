"""Fences: one outcome for each attempt, and nothing from anybody who does not hold it any more."""

from __future__ import annotations

import msgspec
import pytest

from sloppyjobs.domain.model import Claim
from sloppyjobs.domain.states import Outcome, Released, Succeeded
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.outcomes import Settle, cancel, claimed, decided
from sloppyjobs.testing.conformance.records import ends, transitions


def _everything(jobs: Jobs) -> tuple[object, ...]:
    inspection = jobs.storage.inspection
    return inspection.jobs(), inspection.attempts(), inspection.events()


def _is_refused(jobs: Jobs, stale: Claim) -> None:
    """Whatever the holder of a stale claim tries is refused and changes nothing."""
    before = _everything(jobs)
    assert not jobs.complete(stale, "late")
    assert not jobs.fail(stale, "late")
    assert not jobs.extend(stale, 60)
    assert not jobs.heartbeat(stale)
    assert not jobs.storage.set_progress(stale.worker_id, (stale.id, stale.attempt), 50, "late")
    assert jobs.storage.still_held(stale.worker_id, [(stale.id, stale.attempt)]) == set()
    assert jobs.storage.turn([decided(stale, Succeeded())], None) == (set(), [])
    assert jobs.storage.turn([decided(stale, Released())], None) == (set(), [])
    assert _everything(jobs) == before


def test_a_worker_that_has_reclaimed_its_own_job_cannot_settle_the_attempt_before(jobs: Jobs, clock: FakeClock) -> None:
    [first] = claimed(jobs)
    clock.advance(31)
    [second] = jobs.claim("w1")
    assert (second.id, second.worker_id, second.attempt) == (first.id, "w1", 2)
    _is_refused(jobs, first)
    assert jobs.complete(second)


def test_another_worker_cannot_settle(jobs: Jobs) -> None:
    [claim] = claimed(jobs)
    _is_refused(jobs, msgspec.structs.replace(claim, worker_id="w2"))
    assert jobs.complete(claim)


def test_an_attempt_that_has_not_begun_cannot_be_settled(jobs: Jobs) -> None:
    [claim] = claimed(jobs)
    _is_refused(jobs, msgspec.structs.replace(claim, attempt=2))


def test_an_attempt_is_settled_once(jobs: Jobs) -> None:
    [claim] = claimed(jobs)
    assert jobs.complete(claim, "first")
    _is_refused(jobs, claim)


def test_an_attempt_that_failed_cannot_succeed_later(jobs: Jobs) -> None:
    [claim] = claimed(jobs)
    assert jobs.fail(claim, "no")
    _is_refused(jobs, claim)


def test_a_job_that_was_lost_and_waits_cannot_be_settled(jobs: Jobs, clock: FakeClock) -> None:
    [claim] = claimed(jobs)
    clock.advance(31)
    jobs.storage.sweep()
    _is_refused(jobs, claim)


def test_a_lease_that_ran_out_unnoticed_is_still_held(jobs: Jobs, clock: FakeClock) -> None:
    [claim] = claimed(jobs)
    clock.advance(3_600)
    assert jobs.complete(claim)


def test_a_cancelled_job_cannot_be_settled(jobs: Jobs) -> None:
    [claim] = claimed(jobs)
    cancel(jobs, claim.id)
    assert ends(jobs, claim.id) == [(1, "cancelled")]
    assert transitions(jobs, claim.id)[2:] == ["cancelled:cancelled"]
    _is_refused(jobs, claim)


def test_a_job_that_is_not_there_cannot_be_settled(jobs: Jobs) -> None:
    [claim] = claimed(jobs)
    _is_refused(jobs, msgspec.structs.replace(claim, job=msgspec.structs.replace(claim.job, id="job_gone")))


def test_a_stale_settlement_does_not_hold_up_the_others(jobs: Jobs, settle_batch: Settle) -> None:
    claims = claimed(jobs, 3)
    cancel(jobs, claims[1].id)
    assert settle_batch([decided(claim, Succeeded()) for claim in claims]) == {claims[0].id, claims[2].id}
    assert [jobs.get(claim.id).status for claim in claims] == ["succeeded", "cancelled", "succeeded"]


@pytest.mark.parametrize(
    "second", [Succeeded('"second"'), Released()], ids=["two successes", "a success and a release"]
)
def test_of_two_settlements_of_one_attempt_in_one_batch_the_first_is_written(
    jobs: Jobs, settle_batch: Settle, second: Outcome
) -> None:
    [claim] = claimed(jobs)
    assert settle_batch([decided(claim, Succeeded('"first"')), decided(claim, second)]) == {claim.id}
    assert transitions(jobs, claim.id)[2:] == ["succeeded:succeeded"]
    assert jobs.get(claim.id).result == "first"
