"""With steps forgotten, fences dropped, or wake-ups lost: the checker finds each of them in a real run."""

from __future__ import annotations

from typing import Any

import pytest

from sloppyjobs import FakeClock, Jobs, Retry
from sloppyjobs.domain.states import Suspended
from sloppyjobs.domain.steps import StepKind
from sloppyjobs.storage.ports.claims import Sweep
from sloppyjobs.testing import drain
from sloppyjobs.testing.conformance.outcomes import decided
from sloppyjobs.testing.history import Client, Log, check, recorded_step


@pytest.fixture
def database_url(ready_sqlite_url: str) -> str:
    return ready_sqlite_url


@pytest.fixture
def stepped(timed_jobs: Jobs, log: Log) -> Jobs:
    """Jobs of which one has a step, fails once, sleeps and waits for a signal."""

    @timed_jobs.define("stepped", retry=Retry(max_attempts=2, backoff="none"))
    def handle(ctx: Any, _payload: Any) -> None:
        recorded_step(log, ctx, "charge", int)
        if ctx.attempt == 1:
            raise ConnectionError("not today")
        ctx.sleep("cool-down", 60)
        ctx.wait_for("approved")

    return timed_jobs


def broken(jobs: Jobs, log: Log, **settings: Any) -> set[str]:
    """The numbers of the invariants that do not hold."""
    return {violation.invariant for violation in check(jobs, log, **settings)}


def test_a_sound_run(stepped: Jobs, timed_client: Client, log: Log, jobs_clock: FakeClock) -> None:
    job = timed_client.enqueue("stepped")
    drain(stepped)
    assert broken(stepped, log, within=0) == set()
    jobs_clock.advance(60)
    drain(stepped)
    assert broken(stepped, log, within=0) == set()
    stepped.signal(job.id, "approved")
    drain(stepped)
    assert (stepped.get(job.id).status, broken(stepped, log, within=0)) == ("succeeded", set())


def test_steps_that_are_forgotten(
    stepped: Jobs, timed_client: Client, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed_client.enqueue("stepped")
    monkeypatch.setattr(type(stepped.storage.steps), "known", lambda *_: [])
    monkeypatch.setattr(type(stepped.storage.steps), "keep", lambda *_: True)
    drain(stepped)
    assert broken(stepped, log) == {"I17"}


def test_a_step_that_is_acknowledged_and_not_written(
    stepped: Jobs, timed_client: Client, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed_client.enqueue("stepped")
    monkeypatch.setattr(type(stepped.storage.steps), "keep", lambda *_: True)
    stepped.create_worker().run_once()
    assert broken(stepped, log) == {"I17"}


def test_a_fence_of_steps_that_is_dropped(
    timed_jobs: Jobs, timed_client: Client, log: Log, jobs_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed_client.enqueue("greet")
    [zombie] = timed_jobs.claim("w1", lease=30)
    jobs_clock.advance(31)
    timed_jobs.claim("w2")
    jobs_clock.advance(1)
    steps: Any = timed_jobs.storage.steps
    monkeypatch.setattr(steps, "_fenced", lambda _worker, _fence, work: steps.database.write(lambda c: work(c, False)))
    assert steps.keep("w1", (zombie.id, 1), "charge", "1", 0.1, 1)
    assert broken(timed_jobs, log) == {"I17"}


def test_a_signal_that_is_lost_between_the_look_and_the_settlement(
    timed_jobs: Jobs, timed_client: Client, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = timed_client.enqueue("greet")
    [claim] = timed_jobs.claim("w1")
    timed_jobs.storage.steps.ask("w1", (job.id, 1), StepKind.SIGNAL, "approved", None, 1)
    timed_jobs.signal(job.id, "approved")
    suspended: Any = timed_jobs.storage.suspended  # type: ignore[attr-defined]
    monkeypatch.setattr(suspended, "release", lambda *_: 0)
    timed_jobs.storage.settle([decided(claim, Suspended(0.0, "waits"))])
    assert broken(timed_jobs, log) == {"I17"}


def test_a_sleep_that_nobody_ends(
    stepped: Jobs, timed_client: Client, log: Log, jobs_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed_client.enqueue("stepped")
    drain(stepped)
    monkeypatch.setattr(stepped.storage, "sweep", lambda limit=500: Sweep(0, 0, None))
    jobs_clock.advance(3600)
    drain(stepped)
    assert broken(stepped, log) == set()
    assert broken(stepped, log, within=0) == {"I2", "I17"}


def test_a_job_that_waits_for_nothing(stepped: Jobs, timed_client: Client, log: Log) -> None:
    job = timed_client.enqueue("stepped")
    drain(stepped)
    stepped.storage.inspection.set_step(job.id, "cool-down", state="done", wake_at=None)
    assert broken(stepped, log) == {"I17"}
