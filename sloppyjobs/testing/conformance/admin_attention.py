"""What needs attention, and counters that agree with what happened."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sloppyjobs.domain.retry import Retry
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance import admin_scenes as scene
from sloppyjobs.views import Attention


def _attention(jobs: Jobs, code: str, **options: Any) -> list[Attention]:
    return [one for one in jobs.admin.overview(**options).attention if one.code == code]


def _cancelled(jobs: Jobs) -> int:
    return jobs.admin.stats(minutes=5).total.cancelled


# Counters


def test_a_cancel_by_command_is_counted_whether_the_job_ran_or_not(jobs: Jobs) -> None:
    jobs.admin.cancel(scene.queued(jobs).id)
    jobs.admin.cancel(scene.queued(jobs, delay=60).id)
    jobs.admin.cancel(scene.running(jobs).id)
    assert _cancelled(jobs) == 3 == jobs.admin.overview().count("cancelled").value


def test_a_cancel_is_counted_once(jobs: Jobs) -> None:
    job = scene.queued(jobs)
    [claim] = jobs.claim("worker_1")
    jobs.admin.cancel(job.id)
    jobs.admin.cancel(job.id)
    assert not jobs.complete(claim)
    assert _cancelled(jobs) == 1
    assert jobs.admin.stats(minutes=5).total.attempts == 0


def test_a_bulk_cancel_is_counted_by_queue_and_name(jobs: Jobs) -> None:
    ids = [scene.queued(jobs, queue=queue, name=name).id for queue in ("a", "b") for name in ("x", "y", "y")]
    jobs.admin.bulk("cancel", {"ids": ids})
    assert _cancelled(jobs) == 6
    assert jobs.admin.stats(minutes=5, queue="a").total.cancelled == 3
    assert jobs.admin.stats(minutes=5, queue="b", name="y").total.cancelled == 2


def test_deaths_are_events_and_dead_jobs_are_jobs(jobs: Jobs) -> None:
    job = scene.queued(jobs, retry=Retry(max_attempts=1))
    for _ in range(2):
        [claim] = jobs.claim("worker_1")
        jobs.fail(claim, "no")
        assert jobs.get(job.id).status == "dead"
        died = jobs.admin.retry(job.id)
    jobs.admin.cancel(died.id)
    assert (jobs.admin.overview().count("dead").value, jobs.admin.stats(minutes=5).total.dead) == (0, 2)


def test_the_span_before_is_read_with_the_span(jobs: Jobs, clock: FakeClock) -> None:
    scene.dead(jobs)
    scene.dead(jobs)
    clock.advance(5 * 60)
    scene.dead(jobs)
    found = jobs.admin.stats(minutes=5, compare=True)
    assert found.previous is not None
    assert (found.total.dead, found.previous.dead) == (1, 2)
    assert found.previous == jobs.admin.stats(minutes=5, ago=5).total
    assert jobs.admin.stats(minutes=5).previous is None


def test_fresh_jobs_are_those_of_the_span_that_was_asked_for(jobs: Jobs, clock: FakeClock) -> None:
    scene.queued(jobs)
    clock.advance(3 * 3600)
    scene.queued(jobs)

    def fresh(minutes: int) -> int:
        found = jobs.admin.overview(minutes=minutes)
        assert found.minutes == minutes
        return next(one.fresh.value for one in found.statuses if one.status == "queued" and one.fresh is not None)

    assert (fresh(60), fresh(360)) == (1, 2)


# Attention


def test_an_empty_installation_needs_nothing(jobs: Jobs) -> None:
    assert jobs.admin.overview().attention == ()


def test_no_worker_at_all_comes_first_and_says_how_many_jobs_are_due(jobs: Jobs, clock: FakeClock) -> None:
    scene.dead(jobs)
    scene.queued(jobs)
    scene.queued(jobs, delay=60)
    clock.advance(61)
    first, *others = jobs.admin.overview().attention
    assert (first.code, first.level) == ("no_worker", "bad")
    assert first.text == "No worker is running. 2 jobs are due."
    assert first.command == "sloppyjobs worker"
    assert first.since is None
    # Every queue is without a worker then; that is not said again for each.
    assert {one.code for one in others} == {"dead"}
    assert jobs.admin.overview().due.value == 2


def test_no_worker_at_all_says_since_when(jobs: Jobs, clock: FakeClock) -> None:
    scene.queued(jobs)
    scene.live_worker(jobs, "worker_1")
    assert _attention(jobs, "no_worker") == []
    seen = clock.now()
    jobs.storage.workers.stop("worker_1")
    clock.advance(600)
    assert [one.since for one in _attention(jobs, "no_worker")] == [seen]


def test_a_queue_without_a_worker_says_how_many_wait_and_since_when(jobs: Jobs, clock: FakeClock) -> None:
    scene.live_worker(jobs, queues=("worked",))
    since = clock.now()
    scene.queued(jobs, queue="lonely")
    clock.advance(5)
    scene.queued(jobs, queue="lonely")
    scene.queued(jobs, queue="worked")
    [one] = _attention(jobs, "queue_without_worker")
    assert (one.text, one.queue, one.since) == ("No worker for lonely", "lonely", since)
    assert one.count is not None
    assert one.count.value == 2
    assert one.command == "sloppyjobs worker --queue lonely"


def test_jobs_that_no_worker_of_their_queue_can_run_are_named(jobs: Jobs) -> None:
    scene.live_worker(jobs, "worker_here", queues=("exports",))
    scene.live_worker(jobs, "worker_there", queues=("other",), names=("export-orders",))
    for _ in range(6):
        scene.queued(jobs, name="export-orders", queue="exports")
    scene.queued(jobs, queue="exports")
    [one] = _attention(jobs, "no_handler")
    assert one.text == "No worker can run export-orders (6 queued in exports)"
    assert (one.queue, one.name) == ("exports", "export-orders")
    assert [(one.queue, one.name, one.count.value) for one in jobs.admin.overview().unhandled] == [
        (one.queue, one.name, one.count.value) for one in jobs.admin.unhandled()
    ]
    assert [one.name for one in _attention(jobs, "no_handler", queues=["exports"])] == ["export-orders"]
    assert _attention(jobs, "no_handler", queues=["other"]) == []


def test_a_paused_queue_needs_attention_where_jobs_wait_in_it(jobs: Jobs, clock: FakeClock) -> None:
    scene.live_worker(jobs)
    scene.queued(jobs, queue="held")
    jobs.admin.pause_queue("held", until=clock.now() + timedelta(hours=1), actor="ops")
    jobs.admin.pause_queue("empty", create=True)
    [one] = _attention(jobs, "queue_paused")
    assert (one.text, one.since, one.until) == ("held is paused", clock.now(), clock.now() + timedelta(hours=1))
    assert one.count is not None
    assert one.count.value == 1
    assert jobs.admin.overview().paused_queues == ("empty", "held")


def test_who_paused_a_queue_and_why_is_told_without_secrets(jobs: Jobs) -> None:
    scene.queued(jobs, queue="held")
    jobs.admin.pause_queue("held")
    jobs.storage.inspection.set_queue("held", paused_by="ops", pause_reason="password=hunter2 leaked")
    [one] = _attention(jobs, "queue_paused")
    assert one.by == "ops"
    assert one.reason is not None
    assert "leaked" in one.reason
    assert "hunter2" not in one.reason


def test_a_storm_of_failures_is_told_while_it_lasts(jobs: Jobs, clock: FakeClock) -> None:
    for _ in range(19):
        scene.failed_once(jobs)
    scene.succeeded(jobs)
    assert _attention(jobs, "failing") == []
    scene.failed_once(jobs)
    [one] = _attention(jobs, "failing")
    assert one.text == "Most attempts fail: 20 of 21 in the last 5 minutes"
    assert _attention(jobs, "failing", queues=["other"]) == []
    clock.advance(360)
    assert _attention(jobs, "failing") == []


def test_running_jobs_past_their_lease_are_counted(jobs: Jobs, clock: FakeClock) -> None:
    scene.running(jobs)
    lease = jobs.admin.list_jobs("processing")[0].locked_until
    assert lease is not None
    clock.advance((lease - clock.now()).total_seconds() + 59)
    assert _attention(jobs, "lease_expired") == []
    clock.advance(2)
    [one] = _attention(jobs, "lease_expired")
    assert (one.text, one.since) == ("1 running job has lost its worker", lease)
    starts = "The first worker that starts gives it to another, or makes it dead."
    assert one.advice == f"Its lease was not renewed. {starts}"


def test_running_jobs_past_their_timeout_are_counted(jobs: Jobs, clock: FakeClock) -> None:
    scene.queued(jobs, timeout=30)
    scene.queued(jobs, timeout=3000)
    scene.queued(jobs, timeout=timedelta(days=365 * 100))
    scene.queued(jobs)
    for claim in jobs.claim("worker_1", limit=4):
        jobs.extend(claim, 3600)
    started = clock.now()
    clock.advance(89)
    assert _attention(jobs, "overrun") == []
    clock.advance(2)
    [one] = _attention(jobs, "overrun")
    assert (one.text, one.since) == ("1 job runs longer than the timeout", started)
    assert _attention(jobs, "overrun", queues=["other"]) == []


def test_a_late_schedule_says_that_nobody_runs_the_scheduler(jobs: Jobs, clock: FakeClock) -> None:
    scene.declared(jobs)
    jobs.recurring("late", scene.NAME, {}, every=60)
    due = clock.now() + timedelta(seconds=60)
    clock.advance(300)
    [one] = _attention(jobs, "schedule_late")
    assert (one.text, one.schedule, one.since) == ("late is late", "late", due)
    assert one.advice == "No worker is running the scheduler."


def test_a_worker_that_stopped_responding_is_named(jobs: Jobs, clock: FakeClock) -> None:
    scene.live_worker(jobs, "worker_lost")
    seen = clock.now()
    clock.advance(60)
    [one] = _attention(jobs, "worker_stale")
    assert (one.text, one.worker, one.since) == ("host:1 stopped responding", "worker_lost", seen)


def test_more_of_a_kind_than_are_listed_are_told_as_a_number(jobs: Jobs) -> None:
    scene.live_worker(jobs, queues=("worked",))
    for place in range(8):
        scene.queued(jobs, queue=f"queue{place}")
    found = _attention(jobs, "queue_without_worker")
    assert [one.queue for one in found] == [f"queue{place}" for place in range(5)]
    assert [one.more for one in found] == [0, 0, 0, 0, 3]
