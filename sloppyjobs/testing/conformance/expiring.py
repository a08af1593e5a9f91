"""Jobs that expire: what has not started by then is cancelled, and never run late."""

from __future__ import annotations

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.model import Job
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.storage.ports.claims import Sweep
from sloppyjobs.testing.conformance.records import count, transitions

CODE = "SLOPPY_E_JOBS_EXPIRED"


def _is_expired(jobs: Jobs, job: Job) -> bool:
    found = jobs.get(job.id)
    assert (found.status == "cancelled") is (found.error_code == CODE)
    return found.status == "cancelled"


def test_a_job_that_has_not_started_expires(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    job, lasting = jobs.enqueue("greet", expires=300), jobs.enqueue("greet")
    assert (job.expires_at - clock.now()).total_seconds() == 300  # type: ignore[operator]
    assert (jobs.get(job.id).expires_at, lasting.expires_at) == (job.expires_at, None)
    clock.advance(299)
    jobs.storage.sweep()
    assert not _is_expired(jobs, job)
    clock.advance(1)
    jobs.storage.sweep()
    assert _is_expired(jobs, job)
    assert transitions(jobs, job.id) == ["created:queued", "cancelled:cancelled"]
    assert "expired" in str(jobs.admin.events(job.id).items[-1].message)
    assert jobs.get(lasting.id).status == "queued"


@pytest.fixture
def unswept(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """Jobs whose sweep comes too late, also on connections that a worker opens beside an application's."""
    monkeypatch.setattr(type(jobs.storage), "sweep", lambda *_: Sweep(0, 0, None, ()))
    return jobs


def test_a_worker_that_is_faster_than_the_sweep_runs_no_expired_job(unswept: Jobs, clock: FakeClock) -> None:
    ran: list[str] = []
    unswept.define("greet", lambda ctx, payload: ran.append(ctx.job_id))
    late, lasting = unswept.enqueue("greet", expires=60), unswept.enqueue("greet")
    clock.advance(60)
    unswept.create_worker().run_once()
    assert (ran, _is_expired(unswept, late)) == ([lasting.id], True)
    assert transitions(unswept, late.id) == ["created:queued", "claimed:processing", "cancelled:cancelled"]


def test_the_claim_protocol_gives_no_expired_job(unswept: Jobs, clock: FakeClock) -> None:
    unswept.declare("greet")
    late, lasting = unswept.enqueue("greet", expires=60), unswept.enqueue("greet")
    clock.advance(61)
    assert [claim.id for claim in unswept.claim("w", limit=10)] == [lasting.id]
    assert _is_expired(unswept, late)


def test_a_job_that_has_started_goes_on(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    job = jobs.enqueue("greet", expires=60)
    [claim] = jobs.claim("w")
    assert jobs.fail(claim, ValueError("no"), retry_after=120)
    clock.advance(120)
    jobs.storage.sweep()
    assert jobs.get(job.id).status == "queued"
    [claim] = jobs.claim("w")
    assert jobs.complete(claim)
    assert jobs.get(job.id).status == "succeeded"


def test_scheduled_and_paused_jobs_expire_too(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    later, paused = jobs.enqueue("greet", delay=50, expires=100), jobs.enqueue("greet", expires=100)
    ended = jobs.enqueue("greet", expires=100)
    jobs.admin.pause(later.id)
    jobs.admin.pause(paused.id)
    jobs.admin.cancel(ended.id)
    clock.advance(100)
    jobs.storage.sweep()
    assert (_is_expired(jobs, later), _is_expired(jobs, paused)) == (True, True)
    assert jobs.get(ended.id).error_code is None


def test_a_definition_says_when_its_jobs_expire(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet", expires=60)
    one, other = jobs.enqueue("greet"), jobs.enqueue("greet", expires=120)
    many = jobs.enqueue_many([("greet", 1), ("greet", 2, {"priority": 3}), ("greet", 3, {"expires": 120})])
    clock.advance(60)
    jobs.storage.sweep()
    assert [_is_expired(jobs, job) for job in (one, other, *many)] == [True, False, True, True, False]


def test_the_occurrences_of_a_schedule_expire(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet", expires=60)
    jobs.recurring("often", "greet", every=600)
    clock.advance(600)
    [job] = jobs.tick_recurring()
    assert job.expires_at is not None
    clock.advance(60)
    jobs.storage.sweep()
    assert _is_expired(jobs, job)


def test_an_expired_job_frees_its_business_key(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    jobs.enqueue("greet", business_key="ada", expires=60)
    assert jobs.enqueue("greet", business_key="ada").existing
    clock.advance(60)
    jobs.storage.sweep()
    assert not jobs.enqueue("greet", business_key="ada").existing


def test_more_expire_than_one_sweep_takes(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    made = jobs.enqueue_many([("greet", n, {"expires": 60 + n}) for n in range(5)])
    clock.advance(100)
    assert jobs.storage.sweep(limit=3).next_in == 0
    assert sum(_is_expired(jobs, job) for job in made) == 3
    jobs.storage.sweep(limit=3)
    assert all(_is_expired(jobs, job) for job in made)
    assert jobs.storage.sweep(limit=3).next_in is None


@pytest.mark.parametrize(
    "options",
    [{"expires": 0}, {"expires": -1}, {"expires": "soon"}, {"expires": 60, "delay": 60}],
    ids=["at once", "in the past", "no duration", "before it is due"],
)
def test_an_expiry_that_makes_no_sense_is_refused(jobs: Jobs, options: dict[str, object]) -> None:
    jobs.declare("greet")
    with pytest.raises(errors.InvalidOption, match="expires"):
        jobs.enqueue("greet", **options)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidOption, match="expires"):
        jobs.enqueue_many([("greet", 1), ("greet", 2, options)])
    assert count(jobs) == 0
