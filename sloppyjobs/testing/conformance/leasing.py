"""Leases: how an attempt is kept until it is settled, and what it says of its progress meanwhile."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sloppyjobs import errors
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.outcomes import cancel, claimed


def test_a_heartbeat_prolongs_the_lease_from_now(jobs: Jobs, clock: FakeClock) -> None:
    [claim] = claimed(jobs)
    clock.advance(20)
    assert jobs.heartbeat(claim)
    assert jobs.get(claim.id).locked_until == clock.now() + timedelta(seconds=30)
    clock.advance(20)
    assert jobs.storage.sweep().expired == 0


def test_a_heartbeat_prolongs_a_lease_for_as_long_as_it_was_claimed(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    jobs.enqueue("greet")
    [claim] = jobs.claim("w1", lease=600)
    clock.advance(100)
    assert jobs.heartbeat(claim)
    assert jobs.get(claim.id).locked_until == clock.now() + timedelta(seconds=600)
    assert jobs.heartbeat(claim, lease=5)
    assert jobs.get(claim.id).locked_until == clock.now() + timedelta(seconds=5)


def test_a_lease_can_be_extended_by_any_time(jobs: Jobs, clock: FakeClock) -> None:
    [claim] = claimed(jobs)
    assert jobs.extend(claim, timedelta(hours=2))
    assert jobs.get(claim.id).locked_until == clock.now() + timedelta(hours=2)
    for seconds in (0, -1, float("nan"), "long"):
        with pytest.raises(errors.InvalidOption):
            jobs.extend(claim, seconds)  # type: ignore[arg-type]


def test_the_leases_that_are_still_held_are_renewed_together(jobs: Jobs, clock: FakeClock) -> None:
    claims = claimed(jobs, 3)
    cancel(jobs, claims[1].id)
    held = [(claim.id, claim.attempt) for claim in claims]
    until = clock.now() + timedelta(seconds=50)
    assert jobs.storage.renew("w1", held, 50) == {held[0]: until, held[2]: until}
    assert jobs.storage.still_held("w1", held) == {held[0], held[2]}


def test_a_worker_that_asks_for_an_old_attempt_too_keeps_the_current_one(jobs: Jobs, clock: FakeClock) -> None:
    [claim] = claimed(jobs)
    clock.advance(31)
    jobs.claim("w1")
    for held in ([(claim.id, 1), (claim.id, 2)], [(claim.id, 2), (claim.id, 1)]):
        assert jobs.storage.renew("w1", held, 30).keys() == jobs.storage.still_held("w1", held) == {(claim.id, 2)}


def test_progress_is_kept_until_the_next_attempt_begins(jobs: Jobs) -> None:
    [claim] = claimed(jobs)
    assert jobs.storage.set_progress("w1", (claim.id, 1), 40.5, "halfway 🎉", '{"rows":[1,2]}')
    job = jobs.get(claim.id)
    assert (job.progress, job.progress_message, job.progress_fields) == (40.5, "halfway 🎉", {"rows": [1, 2]})
    jobs.fail(claim, "no", retry_after=0)
    job = jobs.get(claim.id)
    assert (job.progress, job.progress_fields) == (40.5, {"rows": [1, 2]})
    jobs.claim("w1")
    job = jobs.get(claim.id)
    assert (job.progress, job.progress_message, job.progress_fields) == (None, None, {})
