"""Who paused a queue and why, what workers run now, what schedules ran last, and the audit trail narrowed down."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from sloppyjobs.errors import InvalidTransition, UnknownWorker
from sloppyjobs.ids import shortened
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance import admin_scenes as scene
from sloppyjobs.views import QueueView


def _pause(queue: QueueView) -> tuple[bool, str | None, str | None]:
    return queue.paused, queue.paused_by, queue.pause_reason


# Queues


def test_a_paused_queue_says_who_paused_it_and_why(jobs: Jobs) -> None:
    assert _pause(jobs.admin.pause_queue("mails", create=True, actor="ada", reason="flood")) == (True, "ada", "flood")
    assert [_pause(queue) for queue in jobs.admin.list_queues()] == [(True, "ada", "flood")]
    assert _pause(jobs.admin.resume_queue("mails", actor="bob", reason="over")) == (False, None, None)
    assert _pause(jobs.admin.pause_queue("mails")) == (True, None, None)


def test_a_pause_that_is_prolonged_is_the_last_ones(jobs: Jobs, clock: FakeClock) -> None:
    jobs.admin.pause_queue("mails", create=True, actor="ada", reason="flood")
    longer = jobs.admin.pause_queue("mails", until=clock.now() + timedelta(hours=1), actor="bob", reason="still")
    assert _pause(longer) == (True, "bob", "still")
    clock.advance(3601)
    assert _pause(jobs.admin.get_queue("mails")) == (False, None, None)


def test_the_workers_of_a_queue_are_told_with_what_they_run_from_it(jobs: Jobs) -> None:
    scene.live_worker(jobs, "w1", queues=("mails",))
    scene.live_worker(jobs, "w2", queues=("*",))
    scene.live_worker(jobs, "w3", queues=("media",))
    mail, _ = scene.running(jobs, "w2", queue="mails"), scene.running(jobs, "w2", queue="media")
    found = {worker.id: [job.id for job in worker.jobs] for worker in jobs.admin.queue_workers("mails")}
    assert found == {"w1": [], "w2": [mail.id]}


# Workers


def test_a_worker_is_shown_with_the_first_of_the_jobs_that_it_runs(jobs: Jobs, clock: FakeClock) -> None:
    scene.live_worker(jobs, "w1")
    scene.live_worker(jobs, "w2")
    held = [scene.running(jobs, "w1") for _ in range(7)]
    shown = {worker.id: worker for worker in jobs.admin.list_workers()}
    assert [job.id for job in shown["w1"].jobs] == [job.id for job in held[:3]]
    assert (shown["w1"].held.value, shown["w2"].held.value, shown["w2"].jobs) == (7, 0, ())
    [first, *_] = shown["w1"].jobs
    assert (first.name, first.queue, first.started_at) == (scene.NAME, "default", clock.now())


def test_who_sees_some_queues_is_told_of_their_running_jobs_only(jobs: Jobs) -> None:
    scene.live_worker(jobs, "w1")
    seen, _ = scene.running(jobs, "w1", queue="mails"), scene.running(jobs, "w1", queue="media")
    [worker] = jobs.admin.list_workers(queues=["mails"])
    assert ([job.id for job in worker.jobs], worker.held.value) == ([seen.id], 1)


def test_one_worker_is_shown_by_its_id_or_a_shortened_one(jobs: Jobs) -> None:
    id = "worker_01kmjmf2x8e0v5t7q3r9s1wc73"
    scene.live_worker(jobs, id, queues=("mails",))
    held = [scene.running(jobs, id, queue="mails") for _ in range(5)]
    worker = jobs.admin.get_worker(id)
    assert [job.id for job in worker.jobs] == [job.id for job in held]
    assert jobs.admin.get_worker(shortened(id)).id == id
    assert jobs.admin.get_worker(id, queues=["mails", "media"]).queues == ("mails",)
    with pytest.raises(UnknownWorker):
        jobs.admin.get_worker("w9")
    with pytest.raises(UnknownWorker):
        jobs.admin.get_worker(id, queues=["media"])


def test_what_operators_want_of_a_worker_is_shown_and_audited(jobs: Jobs) -> None:
    info = scene.live_worker(jobs, "w1")
    told = jobs.admin.quiet_worker("w1", actor="ada", reason="deploy")
    assert (told.wanted, told.liveness, told.actions) == ("quiet", "running", ("resume", "stop"))
    jobs.admin.quiet_worker("w1", actor="bob")
    jobs.storage.workers.heartbeat(msgspec.structs.replace(info, status="quiet"))
    [shown] = jobs.admin.list_workers()
    assert (shown.liveness, shown.live) == ("quiet", True)
    assert jobs.admin.resume_worker("w1", actor="ada").actions == ("quiet", "stop")
    assert jobs.admin.stop_worker("w1", actor="ada").actions == ()
    with pytest.raises(InvalidTransition):
        jobs.admin.resume_worker("w1")
    entries = [(entry.action, entry.actor, entry.reason) for entry in jobs.admin.audit("w1")]
    assert entries == [("stop_worker", "ada", None), ("resume_worker", "ada", None), ("quiet_worker", "ada", "deploy")]


def test_a_quiet_worker_counts_as_none_for_its_queue(jobs: Jobs) -> None:
    job = scene.queued(jobs)
    scene.live_worker(jobs, "w1", status="quiet")
    assert [reason.code for reason in jobs.admin.explain(job.id).reasons][:2] == ["no_worker", "quiet_worker"]
    [verdict, *_] = jobs.admin.overview().attention
    assert (verdict.code, verdict.text) == (
        "no_worker",
        "Every worker is quiet, none takes new jobs. 1 job is due.",
    )
    assert jobs.admin.get_queue("default").workers == 0


# Schedules


def test_the_last_occurrences_of_schedules_are_told_latest_first(scheduler: Jobs, clock: FakeClock) -> None:
    for name in ("a", "b", "c"):
        scheduler.recurring(name, "sync", {}, every=60)
    for _ in range(14):
        clock.advance(60)
        scheduler.tick_recurring()
    for claim in scheduler.claim("w", queues=["*"], limit=3, lease=600):
        clock.advance(2)
        scheduler.complete(claim)
    manual = scheduler.admin.trigger_recurring("a")
    scheduler.admin.delete_recurring("c")
    found = scheduler.admin.last_occurrences(scheduler.admin.list_recurring().items)
    assert list(found) == ["a", "b"]
    assert [len(runs) for runs in found.values()] == [12, 12]
    assert (found["a"][0].job_id, found["a"][0].manual, found["b"][0].manual) == (manual.id, True, False)
    moments = [run.at for run in found["b"]]
    assert moments == sorted(moments, reverse=True)


def test_an_occurrence_says_how_it_ended_and_how_long_it_ran(jobs: Jobs, clock: FakeClock) -> None:
    jobs.define("sync", lambda ctx, payload: None)
    jobs.recurring("a", "sync", {}, every=60, queue="mails")
    clock.advance(60)
    jobs.tick_recurring()
    page = jobs.admin.list_recurring().items
    [run] = jobs.admin.last_occurrences(page)["a"]
    assert (run.status, run.run_seconds) == ("queued", None)
    jobs.create_worker(queues=("mails",), recurring=False).run_once()
    [run] = jobs.admin.last_occurrences(page)["a"]
    assert run.status == "succeeded"
    assert run.run_seconds is not None
    assert jobs.admin.last_occurrences(page, queues=["media"])["a"] == ()
