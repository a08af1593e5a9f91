"""Overview, causes, counters, queues, workers, locks and the audit trail."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.states import Status
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance import admin_scenes as scene


def test_the_overview_counts_every_status_and_knows_the_oldest(jobs: Jobs, clock: FakeClock) -> None:
    scene.dead(jobs)
    scene.queued(jobs)
    clock.advance(90)
    scene.queued(jobs)
    found = jobs.admin.overview()
    assert {str(one.status): one.count.value for one in found.statuses if one.count} == {"queued": 2, "dead": 1}
    assert [one.status for one in found.statuses] == list(Status)
    ages = {one.status: one.oldest_seconds for one in found.statuses}
    assert (ages[Status.QUEUED], ages[Status.DEAD], ages[Status.PROCESSING]) == (90.0, None, None)
    assert found.count("queued").value == 2
    assert found.taken_at == clock.now()


def test_the_overview_names_what_needs_attention(jobs: Jobs, clock: FakeClock) -> None:
    scene.live_worker(jobs, "worker_lost")
    clock.advance(60)
    scene.live_worker(jobs, "worker_here", queues=("worked",))
    scene.queued(jobs, queue="worked")
    scene.queued(jobs, queue="lonely")
    jobs.admin.pause_queue("held", create=True)
    scene.dead(jobs, ValueError("x"), queue="worked")
    found = jobs.admin.overview()
    assert (found.idle_queues, found.paused_queues) == (("lonely",), ("held",))
    assert [worker.id for worker in found.stale_workers] == ["worker_lost"]
    assert found.live_workers == 1
    assert [(group.error_type, group.count.value) for group in found.dead_groups] == [("ValueError", 1)]


def test_the_overview_shows_late_schedules_and_the_next_fires(jobs: Jobs, clock: FakeClock) -> None:
    scene.declared(jobs)
    jobs.recurring("soon", scene.NAME, {}, every=600)
    jobs.recurring("late", scene.NAME, {}, every=60)
    jobs.recurring("held", scene.NAME, {}, every=60, paused=True)
    clock.advance(300)
    found = jobs.admin.overview()
    assert [(fire.schedule, fire.job_name) for fire in found.late_schedules] == [("late", scene.NAME)]
    assert [fire.schedule for fire in found.next_fires] == ["soon"]


def test_dead_jobs_are_grouped_by_what_raised_where(jobs: Jobs, clock: FakeClock) -> None:
    def here() -> BaseException:
        try:
            raise ValueError("first")
        except ValueError as error:
            return error

    started = clock.now()
    for error in (here(), here(), ValueError("raised nowhere"), KeyError("k"), "in words"):
        scene.dead(jobs, error)
        clock.advance(10)
    newest = scene.dead(jobs, here())
    groups = jobs.admin.dead_groups()
    causes = {(group.error_type, (group.error_frame or "").rpartition(".")[2]): group for group in groups}
    assert {cause: group.count.value for cause, group in causes.items()} == {
        ("ValueError", "here"): 3,
        ("ValueError", ""): 1,
        ("KeyError", ""): 1,
        (None, ""): 1,
    }
    group = groups[0]
    assert (group.first_seen, group.last_seen) == (started, clock.now())
    assert (group.example_id, group.error_message) == (newest.id, "first")
    assert group.error_code == errors.HandlerFailed.code


def test_jobs_of_different_names_are_different_causes(jobs: Jobs) -> None:
    def shared() -> BaseException:
        try:
            raise ValueError("shared")
        except ValueError as error:
            return error

    for name in ("export", "export", "import"):
        for error in (shared(), KeyError("k"), "in words"):
            scene.dead(jobs, error, name=name)
    groups = jobs.admin.dead_groups()
    assert sorted((str(one.error_type), one.name, one.count.value, one.example_name) for one in groups) == [
        (kind, name, count, name)
        for kind in ("KeyError", "None", "ValueError")
        for name, count in (("export", 2), ("import", 1))
    ]
    recent = jobs.admin.dead_groups(queues=["default"])
    assert {(one.error_type, one.error_frame, one.name, one.count.value) for one in recent} == {
        (one.error_type, one.error_frame, one.name, one.count.value) for one in groups
    }


@pytest.mark.parametrize(("named", "expected"), [({"name": "export"}, ["export"]), ({}, ["export", "import"])])
def test_a_cause_is_retried_for_one_name_or_for_all(jobs: Jobs, named: dict[str, str], expected: list[str]) -> None:
    died = {scene.dead(jobs, ValueError("a"), name=name).id: name for name in ("export", "import")}
    scene.dead(jobs, KeyError("b"), name="export")
    result = jobs.admin.bulk("retry", {"error_type": "ValueError", "error_frame": None, **named})
    assert sorted(died[id] for id in result.sample_ids) == expected


def test_groups_are_as_many_as_asked(jobs: Jobs) -> None:
    for place in range(6):
        scene.dead(jobs, type(f"Error{place}", (Exception,), {})("x"))
    assert len(jobs.admin.dead_groups(limit=4)) == 4
    for limit in (0, 501, "5"):
        with pytest.raises(errors.InvalidOption, match=r"^limit="):
            jobs.admin.dead_groups(limit=limit)  # type: ignore[arg-type]


def test_a_retried_group_is_gone(jobs: Jobs) -> None:
    job = scene.dead(jobs)
    jobs.admin.retry(job.id)
    assert jobs.admin.dead_groups() == ()


# Counters


def test_counters_are_zero_where_nothing_was_settled(jobs: Jobs, clock: FakeClock) -> None:
    scene.succeeded(jobs)
    clock.advance(120)
    scene.dead(jobs)
    scene.failed_once(jobs, queue="mails")
    found = jobs.admin.stats(minutes=5)
    assert found.bucket_seconds == 60
    assert [bucket.start for bucket in found.buckets] == [
        clock.now() - timedelta(minutes=minutes) for minutes in (4, 3, 2, 1, 0)
    ]
    assert [(b.succeeded, b.failed, b.dead) for b in found.buckets] == [
        (0, 0, 0),
        (0, 0, 0),
        (1, 0, 0),
        (0, 0, 0),
        (0, 2, 1),
    ]
    assert (found.total.succeeded, found.total.failed, found.total.dead) == (1, 2, 1)
    assert jobs.admin.stats(minutes=5, queue="mails").total.failed == 1
    assert jobs.admin.stats(minutes=5, name="nobody").total.failed == 0


def test_long_spans_are_counted_by_the_hour(jobs: Jobs, clock: FakeClock) -> None:
    scene.succeeded(jobs)
    clock.advance(3600)
    scene.succeeded(jobs)
    found = jobs.admin.stats(minutes=2880)
    assert (found.bucket_seconds, len(found.buckets)) == (3600, 48)
    assert [bucket.succeeded for bucket in found.buckets[-3:]] == [0, 1, 1]


@pytest.mark.parametrize("minutes", [0, -1, 43_201, 1.5, "60", None])
def test_a_span_out_of_bounds_is_refused(jobs: Jobs, minutes: Any) -> None:
    with pytest.raises(errors.InvalidOption, match=r"^minutes="):
        jobs.admin.stats(minutes=minutes)


# Queues, workers, locks


def test_a_queue_shows_what_lies_in_it_and_who_works_on_it(jobs: Jobs, clock: FakeClock) -> None:
    scene.live_worker(jobs, "worker_all")
    scene.live_worker(jobs, "worker_mails", queues=("mails",))
    scene.live_worker(jobs, "worker_other", queues=("other",))
    scene.succeeded(jobs, queue="mails")
    scene.running(jobs, queue="mails")
    scene.queued(jobs, queue="mails")
    scene.queued(jobs, queue="mails", delay=60)
    scene.failed_once(jobs, queue="empty")
    clock.advance(10)
    view = jobs.admin.get_queue("mails")
    assert (view.depth.value, view.processing.value, view.scheduled.value, view.workers) == (1, 1, 1, 2)
    assert view.oldest_queued_seconds == 10.0
    assert view.throughput > 0
    empty = jobs.admin.get_queue("empty")
    assert (empty.depth.value, empty.oldest_queued_seconds, empty.workers) == (0, None, 1)


def test_queues_are_listed_by_name(jobs: Jobs) -> None:
    for name in ("c", "a", "b", "Z", "é"):
        scene.queued(jobs, queue=name)
    rows, sizes = scene.whole_list(jobs.admin.list_queues, page_size=2)
    assert [row.name for row in rows] == ["Z", "a", "b", "c", "é"]
    assert sizes == [2, 2, 1]


def test_workers_say_whether_they_live(jobs: Jobs, clock: FakeClock) -> None:
    scene.live_worker(jobs, "worker_lost")
    stopped = scene.live_worker(jobs, "worker_stopped")
    clock.advance(60)
    jobs.storage.workers.stop(stopped.id)
    scene.live_worker(jobs, "worker_draining", status="draining")
    clock.advance(1)
    scene.live_worker(jobs, "worker_running", running=2)
    scene.running(jobs, worker="worker_running")
    rows, _ = scene.whole_list(jobs.admin.list_workers, page_size=1)
    assert {row.id: row.liveness for row in rows} == {
        "worker_running": "running",
        "worker_draining": "draining",
        "worker_stopped": "stopped",
        "worker_lost": "stale",
    }
    first = rows[0]
    assert (first.id, first.running, first.held.value, first.queues, first.live) == (
        "worker_running",
        2,
        1,
        ("*",),
        True,
    )


def test_locks_say_who_holds_them_and_whether_that_has_expired(jobs: Jobs, clock: FakeClock) -> None:
    jobs.locks("ada").acquire("short", ttl=10)
    jobs.locks("bob").acquire("long", ttl=100)
    clock.advance(10)
    rows, _ = scene.whole_list(jobs.admin.list_locks, page_size=1)
    assert [(row.name, row.owner, row.expired) for row in rows] == [("long", "bob", False), ("short", "ada", True)]
