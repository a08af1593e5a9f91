"""One kind of job: its counts, its last runs, its causes of death, and who makes and knows it."""

from __future__ import annotations

from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.retry import Retry
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance import admin_scenes as scene

HOSTILE = "a/b\n<i>%2F~🦥"


def _ran(jobs: Jobs, clock: FakeClock, seconds: float, waited: float = 0.0, **options: Any) -> str:
    """A job that waited so long until it was claimed, and ran so long."""
    job = scene.queued(jobs, priority=100, **options)
    clock.advance(waited)
    [claim] = jobs.claim(scene.WORKER, queues=[job.queue])
    clock.advance(seconds)
    assert jobs.complete(claim, None)
    return job.id


def test_a_job_type_counts_what_waits_runs_and_is_dead(jobs: Jobs, clock: FakeClock) -> None:
    scene.dead(jobs, ValueError("a"))
    scene.dead(jobs, KeyError("b"))
    scene.dead(jobs, KeyError("b"), name="other")
    scene.running(jobs)
    scene.running(jobs, name="other")
    scene.queued(jobs, delay=60)
    scene.queued(jobs, delay=60, name="other")
    scene.queued(jobs, queue="slow")
    clock.advance(30)
    scene.queued(jobs)
    scene.queued(jobs, name="other")
    found = jobs.admin.get_job_type(scene.NAME)
    counts = (found.queued, found.running, found.scheduled, found.dead)
    assert [str(count) for count in counts] == ["2", "1", "1", "2"]
    assert found.oldest_queued_seconds == 30.0
    assert {(one.error_type, one.name, one.count.value) for one in found.causes} == {
        ("ValueError", scene.NAME, 1),
        ("KeyError", scene.NAME, 1),
    }
    assert found.queues == ("default", "slow")
    assert (found.stats.total.failed, found.stats.total.dead, found.taken_at) == (2, 2, clock.now())


def test_a_job_type_knows_how_long_its_runs_took_and_waited(jobs: Jobs, clock: FakeClock) -> None:
    ids = {seconds: _ran(jobs, clock, seconds, waited=3.0) for seconds in (1.0, 2.0, 40.0)}
    _ran(jobs, clock, 500.0, name="other")
    found = jobs.admin.get_job_type(scene.NAME)
    sample = found.sample
    assert (sample.runs, sample.partial) == (3, False)
    assert (sample.run.p50, sample.run.p95, sample.run.longest) == (2.0, 40.0, 40.0)
    assert (sample.wait.values, sample.wait.p50) == (3, 3.0)
    assert sum(one.values for one in sample.run_bins) == sum(one.run.values for one in sample.steps) == 3
    assert [(one.job.id, one.run_seconds) for one in found.slowest] == [
        (ids[seconds], seconds) for seconds in (40.0, 2.0, 1.0)
    ]
    assert found.stats.total.succeeded == 3


def test_a_job_type_shows_some_queues_only(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare(scene.NAME, queue="mails")
    _ran(jobs, clock, 1.0, queue="mails")
    _ran(jobs, clock, 9.0, queue="hidden")
    for queue in ("mails", "hidden", "hidden"):
        scene.dead(jobs, ValueError("x"), queue=queue)
        scene.queued(jobs, queue=queue)
        scene.running(jobs, queue=queue)
        scene.queued(jobs, queue=queue, delay=60)
    found = jobs.admin.get_job_type(scene.NAME, scope=["mails", "empty"])
    counts = (found.queued, found.running, found.scheduled, found.dead)
    assert [count.value for count in counts] == [1, 1, 1, 1]
    assert (found.queues, found.stats.total.succeeded) == (("mails",), 1)
    assert {one.job.queue for one in found.slowest} == {"mails"}
    assert found.settings is not None
    with pytest.raises(errors.UnknownJobType):
        jobs.admin.get_job_type(scene.NAME, scope=["empty"])


def test_a_job_type_knows_its_schedules_workers_and_settings(jobs: Jobs) -> None:
    retry = Retry(max_attempts=5, backoff="linear", initial=10, maximum=600, jitter=False)
    jobs.declare(scene.NAME, queue="mails", retry=retry, timeout=30, redact=["token"], tags=["a", "b"], version=3)
    scene.declared(jobs, "other")
    jobs.recurring("nightly", scene.NAME, {}, every=600)
    jobs.recurring("held", scene.NAME, {}, every=60, paused=True)
    jobs.recurring("elsewhere", "other", {}, every=60)
    scene.live_worker(jobs, "worker_knows")
    scene.live_worker(jobs, "worker_does_not", names=("other",))
    scene.live_worker(jobs, "worker_elsewhere", queues=("hidden",))
    found = jobs.admin.get_job_type(scene.NAME)
    assert [(one.schedule, one.queue, one.paused) for one in found.schedules] == [
        ("held", "mails", True),
        ("nightly", "mails", False),
    ]
    assert sorted(found.workers) == ["worker_elsewhere", "worker_knows"]
    assert jobs.admin.get_job_type(scene.NAME, scope=["mails"]).workers == ("worker_knows",)
    settings = found.settings
    assert settings is not None
    assert (settings.queue, settings.max_attempts, settings.backoff, settings.timeout) == ("mails", 5, "linear", 30.0)
    assert (settings.backoff_initial, settings.backoff_maximum, settings.jitter) == (10.0, 600.0, False)
    assert (settings.redact, settings.tags, settings.version, settings.handled) == (("token",), ("a", "b"), 3, False)


def test_a_hostile_name_is_a_job_type_like_any_other(jobs: Jobs, clock: FakeClock) -> None:
    _ran(jobs, clock, 1.0, name=HOSTILE)
    scene.dead(jobs, ValueError("x"), name=HOSTILE)
    found = jobs.admin.get_job_type(HOSTILE)
    assert (found.name, found.sample.runs, found.dead.value) == (HOSTILE, 2, 1)


def test_a_job_type_that_nobody_knows_is_refused(jobs: Jobs) -> None:
    scene.dead(jobs)
    with pytest.raises(errors.UnknownJobType, match="nobody"):
        jobs.admin.get_job_type("nobody")
    with pytest.raises(errors.InvalidOption):
        jobs.admin.get_job_type("")
    with pytest.raises(errors.InvalidOption):
        jobs.admin.get_job_type(scene.NAME, minutes=0)


def test_a_job_that_never_ran_is_enough_to_know_its_type(jobs: Jobs, clock: FakeClock) -> None:
    job = scene.queued(jobs)
    jobs.admin.pause(job.id)
    clock.advance(7_200)
    elsewhere = Jobs(jobs.storage)
    assert elsewhere.admin.get_job_type(scene.NAME).settings is None


def test_an_error_of_a_job_type_is_redacted(jobs: Jobs) -> None:
    jobs.declare(scene.NAME, redact=["token"])
    scene.dead(jobs, ValueError("password=hunter2"))
    [cause] = jobs.admin.get_job_type(scene.NAME).causes
    assert "hunter2" not in str(cause.error_message)
