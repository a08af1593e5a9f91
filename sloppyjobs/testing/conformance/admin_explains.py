"""Why is it not running? The answer comes first, in words that an operator understands."""

from __future__ import annotations

from datetime import timedelta

from sloppyjobs.jobs import Jobs
from sloppyjobs.states import Status
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance import admin_scenes as scene
from sloppyjobs.views import Explanation


def _codes(explanation: Explanation) -> list[str]:
    return [reason.code for reason in explanation.reasons]


def test_a_dead_job_says_which_attempt_failed_with_what(jobs: Jobs) -> None:
    job = scene.dead(jobs, ValueError("no such user"))
    found = jobs.admin.explain(job.id)
    assert found.verdict == "It is dead: attempt 1 of 1 failed with ValueError: no such user"
    assert (found.status, _codes(found)) == ("dead", ["dead"])


def test_a_job_that_is_not_due_says_when_it_will_be(jobs: Jobs) -> None:
    scene.live_worker(jobs)
    job = scene.queued(jobs, delay=5400)
    found = jobs.admin.explain(job.id)
    assert found.verdict == "It is not due: it runs in 1 h 30 min, at 2030-01-01 13:30:00 UTC."
    assert found.reasons[0].until == job.run_at


def test_a_job_between_two_attempts_says_what_went_wrong(jobs: Jobs) -> None:
    scene.live_worker(jobs)
    found = jobs.admin.explain(scene.failed_once(jobs, "the mail server is down").id)
    assert found.verdict.startswith("It is not due: attempt 2 starts in 1 min")
    assert found.reasons[-1].text == "1 of 3 attempts are used; the last error was: the mail server is down"


def test_a_job_of_a_paused_queue_says_until_when(jobs: Jobs, clock: FakeClock) -> None:
    scene.live_worker(jobs)
    job = scene.queued(jobs, queue="mails")
    jobs.admin.pause_queue("mails")
    assert jobs.admin.explain(job.id).verdict == "Its queue 'mails' is paused until somebody resumes it."
    until = clock.now() + timedelta(minutes=5)
    jobs.admin.pause_queue("mails", until=until)
    found = jobs.admin.explain(job.id)
    assert found.verdict == "Its queue 'mails' is paused until 2030-01-01 12:05:00 UTC."
    assert found.reasons[0].until == until


def test_a_queue_that_nobody_works_on_is_named(jobs: Jobs) -> None:
    job = scene.queued(jobs, queue="mails")
    assert jobs.admin.explain(job.id).verdict == "No live worker takes jobs from its queue 'mails'."
    scene.live_worker(jobs, queues=("other",))
    assert jobs.admin.explain(job.id).verdict.endswith("'mails'; 1 live on other queues.")


def test_a_worker_that_was_not_heard_of_for_three_heartbeats_does_not_count(jobs: Jobs, clock: FakeClock) -> None:
    scene.live_worker(jobs, heartbeat=5.0)
    job = scene.queued(jobs)
    clock.advance(14)
    assert _codes(jobs.admin.explain(job.id)) == ["next"]
    clock.advance(1)
    assert _codes(jobs.admin.explain(job.id))[0] == "no_worker"


def test_a_worker_that_has_stopped_does_not_count(jobs: Jobs) -> None:
    worker = scene.live_worker(jobs)
    jobs.storage.stop_worker(worker.id)
    assert _codes(jobs.admin.explain(scene.queued(jobs).id))[0] == "no_worker"


def test_a_job_whose_handler_no_live_worker_has_says_so(jobs: Jobs) -> None:
    scene.live_worker(jobs, names=("other",))
    found = jobs.admin.explain(scene.queued(jobs).id)
    assert found.verdict == "No handler for 'greet' is known to the live worker of its queue 'default'."


def test_a_queued_job_counts_those_ahead_of_it(jobs: Jobs, clock: FakeClock) -> None:
    scene.live_worker(jobs, names=(scene.NAME, "other"))
    jobs.declare("other")
    scene.queued(jobs)
    clock.advance(1)
    job = scene.queued(jobs)
    scene.queued(jobs, priority=-1)
    jobs.enqueue("other", {}, priority=9)
    jobs.enqueue("other", {}, queue="elsewhere", priority=9)
    found = jobs.admin.explain(job.id)
    assert found.verdict == "2 jobs are ahead of it in its queue 'default'."
    first = jobs.admin.list_jobs(name="other", queue="default").items[0]
    assert jobs.admin.explain(first.id).verdict.startswith("It is next in its queue 'default'")


def test_a_running_job_says_who_holds_it(jobs: Jobs, clock: FakeClock) -> None:
    job = scene.running(jobs)
    found = jobs.admin.explain(job.id)
    assert found.verdict.startswith("It is running: worker_1 holds it until 2030-01-01 12:00:30 UTC")
    assert found.reasons[0].until == job.locked_until
    clock.advance(31)
    assert jobs.admin.explain(job.id).verdict.startswith("Its lease has expired: worker_1 had it")


def test_every_state_has_an_answer(jobs: Jobs) -> None:
    for status in scene.REACHABLE:
        found = jobs.admin.explain(scene.in_status(jobs, status).id)
        assert found.verdict.endswith((".", "no")), status
        assert found.verdict == found.reasons[0].text
    assert _codes(jobs.admin.explain(scene.in_status(jobs, Status.PAUSED).id)) == ["paused"]
