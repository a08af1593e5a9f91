"""How much the pages of the admin service read: the bounds of the SQL stores, lowered so that few rows reach them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance import admin_scenes as scene


def test_a_rare_job_among_many_is_found_by_going_on(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sloppyjobs.storage.reads.keyset.SCAN_LIMIT", 40)
    scene.many_rows(jobs, 200, "succeeded")
    scene.many_rows(jobs, 3, "dead", 500, queue="rare")
    scene.many_rows(jobs, 2, "succeeded", 700, queue="rare")
    scene.many_rows(jobs, 100, "succeeded", 1000)
    scene.many_rows(jobs, 1, "succeeded", -1, queue="rare", id="job_first")
    rows, sizes = scene.whole_list(jobs.admin.list_jobs, queue="rare", page_size=2)
    assert [row.created_at for row in rows] == sorted((row.created_at for row in rows), reverse=True)
    assert len(rows) == 6
    assert 0 in sizes, "a page that looked as far as it may is short, and says where to go on"
    oldest, _ = scene.whole_list(jobs.admin.list_jobs, queue="rare", page_size=2, order="created_at")
    assert scene.ids_of(oldest) == scene.ids_of(rows)[::-1]


def test_going_back_over_a_sifted_list_finds_the_same(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sloppyjobs.storage.reads.keyset.SCAN_LIMIT", 20)
    scene.many_rows(jobs, 120, "succeeded", queue=lambda place: "rare" if place % 25 == 0 else "default")
    page = jobs.admin.list_jobs(queue="rare", page_size=1)
    forward = list(page.items)
    while page.next_cursor:
        page = jobs.admin.list_jobs(queue="rare", page_size=1, cursor=page.next_cursor)
        forward += page.items
    backward: list[Any] = []
    while page.previous_cursor:
        page = jobs.admin.list_jobs(queue="rare", page_size=1, cursor=page.previous_cursor)
        backward += page.items
    assert len(forward) == 5
    assert backward[::-1] == [row for row in forward if row in backward]
    assert len(backward) >= 4


def test_counts_stop_at_their_cap(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sloppyjobs.storage.reads.counts.CAP", 5)
    scene.many_rows(jobs, 8, "queued")
    scene.many_rows(jobs, 8, "dead", 100)
    jobs.admin.pause_queue("default")
    assert str(jobs.admin.overview().count("queued")) == "5+"
    assert str(jobs.admin.get_queue("default").depth) == "5+"
    assert str(jobs.admin.dead_groups()[0].count) == "5+"


def test_counts_of_a_page_share_a_bound_and_the_deepest_get_the_rest(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sloppyjobs.storage.reads.counts.LEAST", 1)
    monkeypatch.setattr("sloppyjobs.storage.reads.overview.DEPTHS", 30)
    scene.many_rows(jobs, 40, "queued")
    for name in ("default", "few", "none"):
        jobs.admin.pause_queue(name, create=True)
    scene.queued(jobs, queue="few")
    depths = {queue.name: str(queue.depth) for queue in jobs.admin.list_queues()}
    assert depths == {"default": "20+", "few": "1", "none": "0"}


def test_the_audit_trail_is_latest_first_and_can_be_narrowed(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sloppyjobs.storage.reads.keyset.SCAN_LIMIT", 4)
    ids = [scene.queued(jobs).id for _ in range(9)]
    for place, id in enumerate(ids):
        jobs.admin.pause(id, actor="ada" if place % 4 == 0 else "bob", reason=str(place))
    rows, sizes = scene.whole_list(jobs.admin.audit, page_size=4)
    assert [row.reason for row in rows] == [str(place) for place in reversed(range(9))]
    assert sizes == [4, 4, 1]
    rows, _ = scene.whole_list(jobs.admin.audit, actor="ada", page_size=1)
    assert [row.reason for row in rows] == ["8", "4", "0"]
    assert [row.target for row in jobs.admin.audit(target=ids[2])] == [ids[2]]
    assert jobs.admin.audit(target=ids[2], actor="ada").items == ()


def test_the_audit_trail_is_narrowed_by_action_and_time(
    jobs: Jobs, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sloppyjobs.storage.reads.keyset.SCAN_LIMIT", 4)
    job = scene.queued(jobs)
    start = clock.now()
    for _ in range(6):
        jobs.admin.pause(job.id)
        jobs.admin.resume(job.id)
        clock.advance(3600)
    paused, _ = scene.whole_list(jobs.admin.audit, action="pause", page_size=2)
    assert [entry.action for entry in paused] == ["pause"] * 6
    first, second = start + timedelta(hours=1), start + timedelta(hours=3)
    between, _ = scene.whole_list(jobs.admin.audit, created_from=first, created_to=second, page_size=3)
    assert [entry.created_at for entry in between] == [start + timedelta(hours=hour) for hour in (2, 2, 1, 1)]
    assert jobs.admin.audit(action="retry").items == ()
    with pytest.raises(errors.InvalidOption, match=r"^created_from="):
        jobs.admin.audit(created_from=second, created_to=first)


def test_a_range_that_lies_behind_ends_the_trail(jobs: Jobs, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sloppyjobs.storage.reads.keyset.SCAN_LIMIT", 3)
    job = scene.queued(jobs)
    for _ in range(5):
        jobs.admin.pause(job.id)
        jobs.admin.resume(job.id)
        clock.advance(86_400)
    page = jobs.admin.audit(created_from=clock.now() - timedelta(hours=30), page_size=3)
    assert (len(page), page.next_cursor) == (2, None)


def test_the_last_runs_of_a_job_type_are_looked_for_up_to_a_bound(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sloppyjobs.storage.reads.keyset.SCAN_LIMIT", 20)
    scene.succeeded(jobs, name="rare")
    scene.succeeded(jobs, name="often")
    assert jobs.admin.get_job_type("rare").sample.runs == 1
    scene.many_rows(jobs, 30, "succeeded", 100_000, name="often")
    sample = jobs.admin.get_job_type("rare").sample
    assert (sample.runs, sample.partial) == (0, True)
