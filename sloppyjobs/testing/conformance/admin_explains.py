"""Why is it not running? The answer comes first, in words that an operator understands."""

from __future__ import annotations

from datetime import timedelta

from sloppyjobs.domain.dependencies import After
from sloppyjobs.domain.retry import Retry
from sloppyjobs.domain.states import Status
from sloppyjobs.enqueue.definitions import Cancel, Snooze
from sloppyjobs.jobs import Jobs
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
    assert found.verdict == "It is not due yet: it is due in 1 h 30 min, at 2030-01-01 13:30:00 UTC."
    assert found.reasons[0].until == job.run_at


def test_a_job_between_two_attempts_says_what_went_wrong(jobs: Jobs) -> None:
    scene.live_worker(jobs)
    found = jobs.admin.explain(scene.failed_once(jobs, "the mail server is down").id)
    assert found.verdict.startswith("It is not due yet: attempt 2 is due in 1 min")
    assert found.reasons[-1].text == "Attempts used: 1 of 3. Last error: the mail server is down"


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
    assert jobs.admin.explain(job.id).verdict == "No live worker for its queue 'mails'."
    scene.live_worker(jobs, queues=("other",))
    assert jobs.admin.explain(job.id).verdict.endswith("'mails'. 1 live worker takes jobs from other queues only.")


def test_a_worker_that_was_not_heard_of_for_three_heartbeats_does_not_count(jobs: Jobs, clock: FakeClock) -> None:
    scene.live_worker(jobs, heartbeat=5.0)
    job = scene.queued(jobs)
    clock.advance(14)
    assert _codes(jobs.admin.explain(job.id)) == ["next"]
    clock.advance(1)
    assert _codes(jobs.admin.explain(job.id))[0] == "no_worker"


def test_a_worker_that_has_stopped_does_not_count(jobs: Jobs) -> None:
    worker = scene.live_worker(jobs)
    jobs.storage.workers.stop(worker.id)
    assert _codes(jobs.admin.explain(scene.queued(jobs).id))[0] == "no_worker"


def test_a_job_whose_handler_no_live_worker_has_says_so(jobs: Jobs) -> None:
    scene.live_worker(jobs, names=("other",))
    found = jobs.admin.explain(scene.queued(jobs).id)
    assert found.verdict == "The live worker of its queue 'default' has no handler for 'greet'."
    assert _codes(found) == ["no_handler"]


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
    clock.advance(10)
    found = jobs.admin.explain(job.id)
    assert found.verdict == (
        "It is running on worker_1, started 10 s ago. Its lease ends at 2030-01-01 12:00:30 UTC unless it is renewed."
    )
    assert found.reasons[0].until == job.locked_until
    clock.advance(21)
    assert jobs.admin.explain(job.id).verdict == (
        "The lease of worker_1 ended 1 s ago, at 2030-01-01 12:00:30 UTC, and was not renewed. "
        "No worker is live now; the first one that starts returns the job to its queue."
    )
    scene.live_worker(jobs, "worker_2")
    assert jobs.admin.explain(job.id).verdict.endswith("The next check by a worker returns the job to its queue.")


def test_a_job_that_dies_with_attempts_left_says_why_they_were_not_used(jobs: Jobs) -> None:
    policy = Retry(max_attempts=3, give_up_on=ValueError)
    job = scene.queued(jobs, retry=policy)
    [claim] = jobs.claim(scene.WORKER, queues=[job.queue])
    assert jobs.fail(claim, ValueError("no such user"))
    assert jobs.admin.explain(job.id).verdict == (
        "It died on attempt 1 of 3: ValueError is not retried by this job's retry policy. Error: no such user"
    )


def test_a_job_with_an_invalid_payload_says_that_it_is_not_retried(jobs: Jobs) -> None:
    jobs.define("typed", lambda ctx, payload: None, input=dict[str, int])
    job = jobs.enqueue("typed", {"to": 1})
    jobs.storage.inspection.set_job(job.id, payload='{"to": "Ada"}')
    jobs.create_worker(recurring=False).run_once()
    found = jobs.admin.explain(job.id).verdict
    assert found.startswith(
        "It died on attempt 1 of 3: its payload is invalid, and an invalid payload is not retried. Error: "
    )


def test_a_cancelled_job_says_by_whom_and_why(jobs: Jobs) -> None:
    job = scene.queued(jobs)
    jobs.admin.cancel(job.id, actor="ada", reason="superseded")
    found = jobs.admin.explain(job.id)
    assert found.verdict == "Cancelled by ada at 2030-01-01 12:00:00 UTC: superseded. It will not run."
    assert _codes(found) == ["cancelled"]
    jobs.admin.delete(job.id, actor="grace")
    assert jobs.admin.explain(job.id).verdict == (
        "Deleted by grace at 2030-01-01 12:00:00 UTC. It will not run. A purge will remove it for good."
    )


def test_a_job_that_its_handler_cancelled_says_so(jobs: Jobs) -> None:
    jobs.define("stale", lambda ctx, payload: Cancel("order is gone"))
    job = jobs.enqueue("stale")
    jobs.create_worker(recurring=False).run_once()
    assert jobs.admin.explain(job.id).verdict == (
        "Cancelled by its handler at 2030-01-01 12:00:00 UTC: order is gone. It will not run again."
    )


def test_a_cancelled_job_says_that_its_handler_may_still_run(jobs: Jobs, clock: FakeClock) -> None:
    worker = scene.live_worker(jobs)
    job = scene.running(jobs, worker.id)
    jobs.admin.cancel(job.id)
    found = jobs.admin.explain(job.id).verdict
    assert "may still be running on worker_1 until it returns" in found
    assert "will not run" not in found
    # The next heartbeat is how the worker learns of it: that it runs nothing is no answer yet.
    clock.advance(1)
    jobs.storage.workers.heartbeat(worker)
    assert "may still be running" in jobs.admin.explain(job.id).verdict
    # A later one is: nothing runs any more.
    clock.advance(2 * worker.heartbeat + 2)
    jobs.storage.workers.heartbeat(worker)
    assert jobs.admin.explain(job.id).verdict.endswith(" It will not run again.")


def test_a_job_cancelled_before_it_ran_will_not_run(jobs: Jobs) -> None:
    scene.live_worker(jobs)
    assert jobs.admin.explain(scene.in_status(jobs, Status.CANCELLED).id).verdict.endswith(" It will not run.")


def test_a_paused_job_says_by_whom_and_where_it_returns_to(jobs: Jobs) -> None:
    job = scene.queued(jobs, delay=60)
    jobs.admin.pause(job.id)
    assert jobs.admin.explain(job.id).verdict == "Paused. Resuming returns it to Scheduled."
    other = scene.queued(jobs)
    jobs.admin.pause(other.id, actor="ops", reason="disk almost full")
    assert jobs.admin.explain(other.id).verdict == (
        "Paused by ops at 2030-01-01 12:00:00 UTC: disk almost full. Resuming returns it to Queued."
    )


def test_a_job_held_by_a_worker_that_stopped_responding_says_what_follows(jobs: Jobs, clock: FakeClock) -> None:
    scene.live_worker(jobs, heartbeat=5.0)
    job, last = scene.running(jobs), scene.running(jobs, max_attempts=1)
    assert "The worker renews its lease" in jobs.admin.explain(job.id).verdict
    clock.advance(16)
    found = jobs.admin.explain(job.id)
    gone = (
        "Worker worker_1 stopped responding 16 s ago. Its lease ends in 14 s, at 2030-01-01 12:00:30 UTC. Then {} "
        "takes the job over as attempt 2 of 3."
    )
    assert (found.verdict, _codes(found)[0]) == (gone.format("the next worker that starts"), "worker_gone")
    scene.live_worker(jobs, "worker_2")
    assert jobs.admin.explain(job.id).verdict == gone.format("another worker")
    assert jobs.admin.explain(last.id).verdict.endswith("Then the job is dead: this is attempt 1 of 1.")


def test_a_job_held_by_a_worker_that_has_stopped_says_so(jobs: Jobs, clock: FakeClock) -> None:
    worker = scene.live_worker(jobs)
    job = scene.running(jobs)
    clock.advance(2)
    jobs.storage.workers.stop(worker.id)
    clock.advance(3)
    assert jobs.admin.explain(job.id).verdict.startswith(
        "Worker worker_1 stopped 3 s ago, but this job was not finished. Its lease ends in 25 s"
    )


def test_a_job_that_has_run_longer_than_its_timeout_says_so(jobs: Jobs, clock: FakeClock) -> None:
    worker = scene.live_worker(jobs)
    job = scene.queued(jobs, timeout=30)
    [claim] = jobs.claim(worker.id, queues=[job.queue])
    clock.advance(29)
    assert jobs.extend(claim, 600)
    jobs.storage.workers.heartbeat(worker)
    assert _codes(jobs.admin.explain(job.id))[0] == "running"
    clock.advance(211)
    jobs.storage.workers.heartbeat(worker)
    found = jobs.admin.explain(job.id)
    assert found.reasons[0].code == "overrun"
    assert found.verdict.startswith(
        "It has run for 4 min, longer than its timeout of 30 s, and worker_1 has not ended it."
    )


def test_a_snooze_is_not_called_an_error(jobs: Jobs) -> None:
    jobs.define("later", lambda ctx, payload: Snooze(60))
    job = jobs.enqueue("later")
    jobs.create_worker(recurring=False).run_once()
    last = jobs.admin.explain(job.id).reasons[-1].text
    assert last == "Attempts used: 1 of 4. Last attempt: the handler asked to be called again in 60 s"


def test_the_schedule_that_made_a_job_is_named(jobs: Jobs) -> None:
    scene.declared(jobs).recurring("nightly", scene.NAME, {}, cron="0 2 * * *")
    jobs.admin.trigger_recurring("nightly")
    [made] = jobs.admin.list_jobs().items
    assert jobs.admin.get_job(made.id).schedule_name == "nightly"
    assert jobs.admin.get_job(scene.queued(jobs).id).schedule_name is None


def test_every_state_has_an_answer(jobs: Jobs) -> None:
    for status in scene.REACHABLE:
        found = jobs.admin.explain(scene.in_status(jobs, status).id)
        assert found.verdict.endswith((".", "no")), status
        assert found.verdict == found.reasons[0].text
    assert _codes(jobs.admin.explain(scene.in_status(jobs, Status.PAUSED).id)) == ["paused"]


def test_a_job_that_waits_for_jobs_which_wait_names_the_one_that_keeps_them_all(jobs: Jobs) -> None:
    dead = scene.dead(jobs)
    child = scene.queued(jobs, depends_on=dead)
    first = scene.queued(jobs, delay=60)
    grandchild = scene.queued(jobs, depends_on=[first, child])
    last = scene.queued(jobs, depends_on=grandchild)
    found = jobs.admin.explain(last.id)
    assert found.verdict == f"It waits for greet ({grandchild.id}), which is waiting."
    kept = f"What it waits for is held up by greet ({dead.id}), which is dead. Retry what is dead, or cancel this job."
    assert (found.reasons[1].code, found.reasons[1].text) == ("blocker", kept)
    assert _codes(jobs.admin.explain(child.id)) == ["waiting"], "its own parent is what keeps it"


def test_a_job_behind_a_paused_one_says_what_frees_it(jobs: Jobs) -> None:
    parent = scene.queued(jobs)
    jobs.admin.pause(parent.id)
    child = scene.queued(jobs, depends_on=parent)
    verdict = f"It waits for greet ({parent.id}), which is paused. Resume what is paused."
    assert jobs.admin.explain(child.id).verdict == verdict


def test_a_job_that_needs_one_of_several_or_another_end_says_so(jobs: Jobs) -> None:
    first, second = (scene.queued(jobs) for _ in range(2))
    one = scene.queued(jobs, depends_on=[first, second], depends_on_any=True)
    assert jobs.admin.explain(one.id).verdict.startswith("It waits for one of 2 jobs: greet (")
    failure = scene.queued(jobs, depends_on=After(first, on="failure"))
    assert jobs.admin.explain(failure.id).verdict == f"It waits for greet ({first.id}) to fail, which is queued."
    end = scene.queued(jobs, depends_on=After(first, on="always"))
    assert jobs.admin.explain(end.id).verdict == f"It waits for greet ({first.id}) to end, which is queued."


def test_a_job_that_expires_says_by_when_it_must_have_started(jobs: Jobs, clock: FakeClock) -> None:
    scene.live_worker(jobs)
    job = scene.queued(jobs, expires=90)
    found = jobs.admin.explain(job.id)
    assert _codes(found) == ["next", "expires"]
    assert found.reasons[1].text == "It is cancelled unless it starts by 2030-01-01 12:01:30 UTC, in 1 min 30 s."
    assert found.reasons[1].until == job.expires_at
    clock.advance(100)
    late = [reason.text for reason in jobs.admin.explain(job.id).reasons if reason.code == "expires"]
    assert late == [
        "It expired at 2030-01-01 12:01:30 UTC. No worker is live now; the first one that starts cancels it."
    ]


def test_a_worker_that_fell_silent_is_named_where_no_other_takes_the_job(jobs: Jobs, clock: FakeClock) -> None:
    worker = scene.live_worker(jobs, heartbeat=5.0)
    job = scene.queued(jobs)
    clock.advance(60)
    found = jobs.admin.explain(job.id)
    assert _codes(found)[:2] == ["no_worker", "silent_worker"]
    assert found.reasons[1].text.startswith(f"Worker {worker.id} stopped responding 1 min ago.")
    jobs.storage.workers.stop(worker.id)
    assert "silent_worker" not in _codes(jobs.admin.explain(job.id))


def test_a_limit_that_was_lowered_below_what_is_held_says_when_the_next_permit_comes(jobs: Jobs) -> None:
    jobs.limit("api", concurrency=3)
    *_, last = (scene.queued(jobs, resource="api") for _ in range(5))
    assert len(jobs.claim(scene.WORKER, limit=5)) == 3
    jobs.admin.set_limit("api", concurrency=1)
    verdict = jobs.admin.explain(last.id).verdict
    assert "3 permits are held by greet (" in verdict
    assert "The limit is 1 by now: it comes when 3 of them have ended" in verdict
    assert "The only permit" not in verdict


def test_a_paused_job_says_what_resuming_does_when_its_parents_have_ended(jobs: Jobs) -> None:
    waited, gone = (scene.queued(jobs) for _ in range(2))
    late = scene.queued(jobs, delay=60)
    needs_both = scene.queued(jobs, depends_on=[waited, gone])
    needs_one = scene.queued(jobs, depends_on=[waited, gone], depends_on_any=True)
    needs_more = scene.queued(jobs, depends_on=[waited, late])
    paused = [jobs.admin.pause(job.id).id for job in (needs_both, needs_one, needs_more)]
    waits = "Paused. Resuming returns it to Waiting."
    assert [jobs.admin.explain(id).verdict for id in paused] == [waits] * 3
    jobs.admin.cancel(gone.id)
    [claim] = jobs.claim("worker-1", limit=5)
    jobs.complete(claim)
    assert [jobs.admin.explain(id).verdict for id in paused] == [
        f"Paused. It can never start, because greet ({gone.id}) is cancelled: resuming cancels it.",
        "Paused. What it waited for has ended as it needs: resuming queues it.",
        waits,
    ]
    assert [jobs.admin.resume(id).status for id in paused] == ["cancelled", "queued", "waiting"]
