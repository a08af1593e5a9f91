"""Lists: pages in both directions, filters, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.states import Status
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance import admin_scenes as scene
from sloppyjobs.views import DependenciesView


def test_a_list_is_newest_first_and_each_page_goes_on_where_the_last_one_ended(jobs: Jobs, clock: FakeClock) -> None:
    made = scene.one_after_another(jobs, clock, 7)
    rows, sizes = scene.whole_list(jobs.admin.list_jobs, page_size=3)
    assert scene.ids_of(rows) == made[::-1]
    assert sizes == [3, 3, 1]


def test_pages_lead_back_to_the_first(jobs: Jobs, clock: FakeClock) -> None:
    scene.one_after_another(jobs, clock, 8)
    page, forward = jobs.admin.list_jobs(page_size=3), []
    while page.next_cursor:
        forward.append(page.items)
        page = jobs.admin.list_jobs(page_size=3, cursor=page.next_cursor)
    backward = []
    while page.previous_cursor:
        page = jobs.admin.list_jobs(page_size=3, cursor=page.previous_cursor)
        backward.append(page.items)
    assert backward[::-1] == forward
    assert page.previous_cursor is None


def test_a_page_that_ends_the_list_has_no_next_cursor(jobs: Jobs, clock: FakeClock) -> None:
    scene.one_after_another(jobs, clock, 3)
    page = jobs.admin.list_jobs(page_size=3)
    assert (len(page), page.next_cursor, page.previous_cursor) == (3, None, None)


def test_jobs_of_one_instant_are_listed_once_each(jobs: Jobs) -> None:
    scene.declared(jobs)
    made = {job.id for job in jobs.enqueue_many([(scene.NAME, {})] * 11)}
    rows, _ = scene.whole_list(jobs.admin.list_jobs, page_size=2)
    assert len(rows) == 11
    assert {row.id for row in rows} == made


def test_the_oldest_come_first_when_asked(jobs: Jobs, clock: FakeClock) -> None:
    made = scene.one_after_another(jobs, clock, 5)
    rows, _ = scene.whole_list(jobs.admin.list_jobs, page_size=2, order="created_at")
    assert scene.ids_of(rows) == made


def test_states_are_merged_into_one_order(jobs: Jobs, clock: FakeClock) -> None:
    made = []
    for status in (Status.DEAD, Status.SUCCEEDED, Status.PROCESSING, Status.SCHEDULED, Status.PAUSED) * 2:
        made.append(scene.in_status(jobs, status).id)
        clock.advance(1)
    rows, _ = scene.whole_list(jobs.admin.list_jobs, page_size=3)
    assert scene.ids_of(rows) == made[::-1]


def test_a_status_lists_the_jobs_that_have_it(jobs: Jobs) -> None:
    made = {status: scene.in_status(jobs, status).id for status in scene.REACHABLE}
    for status, id in made.items():
        assert id in scene.ids_of(jobs.admin.list_jobs(status).items)
    both = jobs.admin.list_jobs(["dead", Status.PAUSED])
    assert {row.status for row in both} == {"dead", "paused"}


def test_deleted_jobs_are_listed_only_when_asked_for(jobs: Jobs) -> None:
    gone = scene.in_status(jobs, Status.DELETED)
    assert jobs.admin.list_jobs().items == ()
    assert scene.ids_of(jobs.admin.list_jobs("deleted").items) == [gone.id]


def test_every_filter_finds_what_it_names_and_nothing_else(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("other")
    scene.running(jobs, worker="worker_2", queue="busy")
    named = jobs.enqueue("other", {})
    wanted: dict[str, tuple[Any, str]] = {
        "queue": ("mails", scene.queued(jobs, queue="mails").id),
        "name": ("other", named.id),
        "worker": ("worker_3", scene.running(jobs, worker="worker_3", queue="held").id),
        "correlation_id": ("order 7", scene.queued(jobs, correlation_id="order 7").id),
        "idempotency_key": ("once", scene.queued(jobs, idempotency_key="once").id),
        "error_code": (errors.HandlerFailed.code, scene.dead(jobs, queue="broken").id),
    }
    clock.advance(100)
    for name, (value, id) in wanted.items():
        right: dict[str, Any] = {name: value}
        wrong: dict[str, Any] = {name: "nothing"}
        assert scene.ids_of(jobs.admin.list_jobs(**right).items) == [id], name
        assert jobs.admin.list_jobs(**wrong).items == (), name


def test_filters_together_find_what_passes_all(jobs: Jobs) -> None:
    both = scene.queued(jobs, queue="mails", correlation_id="order 7")
    scene.queued(jobs, queue="mails")
    scene.queued(jobs, correlation_id="order 7")
    found = jobs.admin.list_jobs("queued", queue="mails", correlation_id="order 7")
    assert scene.ids_of(found.items) == [both.id]
    assert jobs.admin.list_jobs("dead", correlation_id="order 7").items == ()


def test_time_ranges_include_their_start_and_exclude_their_end(jobs: Jobs, clock: FakeClock) -> None:
    start = clock.now()
    made = scene.one_after_another(jobs, clock, 5)
    found = jobs.admin.list_jobs(
        created_from=start + timedelta(seconds=1), created_to=(start + timedelta(seconds=3)).isoformat()
    )
    assert scene.ids_of(found.items) == [made[2], made[1]]
    later = scene.queued(jobs, delay=3600)
    assert scene.ids_of(jobs.admin.list_jobs(run_from=later.run_at).items) == [later.id]
    assert later.id not in scene.ids_of(jobs.admin.list_jobs(run_to=later.run_at).items)


def test_jobs_that_wait_for_a_time_can_be_listed_by_it(jobs: Jobs) -> None:
    third = scene.queued(jobs, delay=300)
    first = scene.queued(jobs, delay=100)
    retrying = scene.failed_once(jobs)
    second = scene.queued(jobs, delay=200)
    rows, _ = scene.whole_list(jobs.admin.list_jobs, status="scheduled", order="run_at", page_size=2)
    assert scene.ids_of(rows) == [first.id, second.id, third.id]
    rows, _ = scene.whole_list(jobs.admin.list_jobs, status=["scheduled", "retrying"], order="-run_at", page_size=1)
    assert scene.ids_of(rows) == [third.id, second.id, first.id, retrying.id]


def test_a_scope_hides_every_other_queue(jobs: Jobs) -> None:
    seen = scene.queued(jobs, queue="mine", correlation_id="same")
    scene.queued(jobs, queue="theirs", correlation_id="same")
    assert scene.ids_of(jobs.admin.list_jobs(scope=["mine"]).items) == [seen.id]
    assert scene.ids_of(jobs.admin.list_jobs(correlation_id="same", scope=["mine"]).items) == [seen.id]
    assert jobs.admin.list_jobs(queue="theirs", scope=["mine"]).items == ()
    assert jobs.admin.list_jobs(scope=[]).items == ()
    assert [queue.name for queue in jobs.admin.list_queues(scope=["mine"])] == ["mine"]


def test_histories_are_pages_too(jobs: Jobs) -> None:
    job = scene.queued(jobs, max_attempts=5)
    for _ in range(4):
        jobs.admin.run_now(job.id)
        [claim] = jobs.claim(scene.WORKER)
        jobs.fail(claim, "no", retry_after=60)
    attempts, sizes = scene.whole_list(lambda **options: jobs.admin.attempts(job.id, **options), page_size=3)
    assert [one.attempt_number for one in attempts] == [1, 2, 3, 4]
    assert sizes == [3, 1]
    events, _ = scene.whole_list(lambda **options: jobs.admin.events(job.id, **options), page_size=4)
    assert [one.event_type for one in events[:5]] == ["created", "claimed", "failed", "retry_scheduled", "run_now"]
    assert events[0].from_status is None
    for before, after in pairwise(events):
        assert before.to_status is after.from_status
    assert {one.duration for one in attempts} == {0.0}


def test_log_lines_are_in_the_order_they_were_written(jobs: Jobs, clock: FakeClock) -> None:
    job = scene.running(jobs)
    line = {"job_id": job.id, "attempt_number": 1, "level": "info", "created_at": clock.now()}
    jobs.storage.logs.write([{**line, "message": str(number), "fields": '{"step":1}'} for number in range(5)])
    rows, _ = scene.whole_list(lambda **options: jobs.admin.logs(job.id, **options), page_size=2)
    assert [row.message for row in rows] == ["0", "1", "2", "3", "4"]
    assert rows[0].fields == {"step": 1}


def test_lines_that_were_left_out_are_summed_in_the_last_line_of_their_job(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    one, other = jobs.enqueue("greet").id, jobs.enqueue("greet").id
    line = {"level": "info", "message": "said", "fields": None, "created_at": clock.now(), "attempt_number": 1}
    jobs.storage.logs.write([{**line, "job_id": one}] * 3)
    assert jobs.storage.logs.count([one, other], 2) == {one: 2, other: 0}
    jobs.storage.logs.record_omitted((one, 1), 1)
    assert [log.message for log in jobs.admin.logs(one)][2:] == ["said", "1 further line was left out"]
    jobs.storage.logs.record_omitted((one, 2), 9)
    jobs.storage.logs.record_omitted((other, 1), 5)
    assert [log.message for log in jobs.admin.logs(one)][2:] == ["said", "10 further lines were left out"]
    assert [log.message for log in jobs.admin.logs(other)] == ["5 further lines were left out"]


@pytest.mark.parametrize("method", ["get_job", "attempts", "events", "logs", "explain", "retry", "cancel"])
@pytest.mark.parametrize("id", ["job_nobody", "", "a\0b", "\ud800", "x" * 5000, None, 7])
def test_an_unknown_id_is_an_unknown_job(jobs: Jobs, method: str, id: Any) -> None:
    with pytest.raises(errors.UnknownJob):
        getattr(jobs.admin, method)(id)


@pytest.mark.parametrize("id", ["job_nobody", "", "a\0b", "\ud800", "x" * 5000, None, 7])
def test_an_unknown_id_depends_on_nothing(jobs: Jobs, id: Any) -> None:
    assert jobs.admin.dependencies(id) == DependenciesView()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"page_size": 0}, "page_size"),
        ({"page_size": 501}, "page_size"),
        ({"page_size": True}, "page_size"),
        ({"page_size": "50"}, "page_size"),
        ({"order": "priority"}, "order"),
        ({"order": "run_at"}, "order"),
        ({"order": "created_at; drop table sloppy_jobs"}, "order"),
        ({"order": None}, "order"),
        ({"status": "done"}, "status"),
        ({"status": []}, "status"),
        ({"status": 7}, "status"),
        ({"queue": ""}, "queue"),
        ({"queue": "a\0b"}, "queue"),
        ({"name": 7}, "name"),
        ({"correlation_id": "x" * 256}, "correlation_id"),
        ({"created_from": "yesterday"}, "created_from"),
        ({"created_from": datetime(2030, 1, 1)}, "created_from"),  # noqa: DTZ001
        ({"created_to": "0001-01-01T00:00:00+14:00"}, "created_to"),
        ({"run_from": "2030-01-02T00:00:00Z", "run_to": "2030-01-01T00:00:00Z"}, "run_from"),
        ({"scope": "mine"}, "scope"),
    ],
)
def test_a_list_refuses_what_it_cannot_do_and_names_it(jobs: Jobs, options: dict[str, Any], named: str) -> None:
    with pytest.raises(errors.InvalidOption, match=f"^{named}="):
        jobs.admin.list_jobs(**options)


def test_an_order_that_no_index_follows_is_refused_with_what_is_accepted(jobs: Jobs) -> None:
    with pytest.raises(errors.InvalidOption, match=r"'created_at', '-created_at'; run_at orders only"):
        jobs.admin.list_jobs("dead", order="run_at")


def test_a_cursor_belongs_to_one_list_with_its_filters_and_order(jobs: Jobs, clock: FakeClock) -> None:
    scene.one_after_another(jobs, clock, 5)
    admin = jobs.admin
    cursor = admin.list_jobs("queued", page_size=2).next_cursor
    assert len(admin.list_jobs("queued", page_size=3, cursor=cursor)) == 3
    others: list[Callable[[], Any]] = [
        lambda: admin.list_jobs(cursor=cursor),
        lambda: admin.list_jobs("queued", queue="default", cursor=cursor),
        lambda: admin.list_jobs("queued", order="created_at", cursor=cursor),
        lambda: admin.list_jobs("queued", scope=["default"], cursor=cursor),
        lambda: admin.list_workers(cursor=cursor),
        lambda: admin.list_queues(cursor=cursor),
        lambda: admin.list_locks(cursor=cursor),
        lambda: admin.audit(cursor=cursor),
        lambda: admin.events(admin.list_jobs().items[0].id, cursor=cursor),
    ]
    for read in others:
        with pytest.raises(errors.InvalidOption, match=r"^cursor="):
            read()


@pytest.mark.parametrize("cursor", ["", "x", "====", "é", "W10", "bm90IGpzb24", "A" * 5000, 7, b"x", "W1tbW1tb"])
def test_a_damaged_cursor_is_refused_by_every_list(jobs: Jobs, cursor: Any) -> None:
    job = scene.queued(jobs)
    admin = jobs.admin
    reads: list[Callable[..., Any]] = [
        admin.list_jobs,
        admin.list_queues,
        admin.list_workers,
        admin.list_locks,
        admin.audit,
        lambda cursor: admin.events(job.id, cursor=cursor),
        lambda cursor: admin.attempts(job.id, cursor=cursor),
        lambda cursor: admin.logs(job.id, cursor=cursor),
    ]
    for read in reads:
        with pytest.raises(errors.InvalidOption, match=r"^cursor="):
            read(cursor=cursor)


def test_progress_and_its_fields_are_shown(jobs: Jobs) -> None:
    job = scene.running(jobs)
    fence = (job.id, job.attempt_count)
    assert jobs.storage.set_progress(scene.WORKER, fence, None, None, '{"rows":20}')
    assert jobs.admin.get_job(job.id).progress_fields == {"rows": 20}
    assert jobs.admin.list_jobs()[0].progress is None
