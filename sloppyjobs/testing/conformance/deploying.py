"""Deploys: marked by operators, noticed by workers, once each, and kept within bounds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from threading import Barrier, Thread

import pytest

from sloppyjobs.errors import InvalidOption
from sloppyjobs.jobs import Jobs
from sloppyjobs.retention import DEPLOYS_KEPT, purge
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance import admin_scenes as scene

UNSHOWABLE = ("", "   ", "v" * 129, "a\nb", "a\x00b", "a\x1b[31mb", "a\ud800b", "a\u202eb", "a\u2028b", None, 7)


def _versions(jobs: Jobs) -> list[str]:
    return [one.version for one in jobs.admin.list_deploys()]


def _all_at_once(number: int, work: Callable[[int], object]) -> None:
    barrier = Barrier(number)

    def run(place: int) -> None:
        barrier.wait()
        work(place)

    threads = [Thread(target=run, args=(place,)) for place in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_deploy_is_marked_with_its_note_and_the_trail_of_it(jobs: Jobs, clock: FakeClock) -> None:
    made = jobs.admin.mark_deploy(" shop 119 ", "new templates", actor="ada", reason="release")
    assert (made.version, made.note, made.actor, made.created_at) == ("shop 119", "new templates", "ada", clock.now())
    assert (made.worker_id, made.application, made.existing) == (None, None, False)
    assert list(jobs.admin.list_deploys()) == [made]
    [entry] = jobs.admin.audit()
    assert (entry.action, entry.target_type, entry.target) == ("mark_deploy", "deploy", "shop 119")
    assert (entry.actor, entry.reason, entry.detail) == ("ada", "release", {"note": "new templates"})


def test_a_script_that_runs_again_does_not_mark_twice(jobs: Jobs, clock: FakeClock) -> None:
    first = jobs.admin.mark_deploy("119", "first")
    clock.advance(60)
    again = jobs.admin.mark_deploy("119", "second", actor="ada")
    assert (again.existing, again.number, again.note, again.created_at) == (
        True,
        first.number,
        "first",
        first.created_at,
    )
    assert len(jobs.admin.list_deploys()) == len(jobs.admin.audit()) == 1


def test_a_version_that_comes_back_is_a_deploy_again(jobs: Jobs) -> None:
    for version in ("1", "2", "1"):
        assert not jobs.admin.mark_deploy(version).existing
    assert _versions(jobs) == ["1", "2", "1"]


@pytest.mark.parametrize("version", UNSHOWABLE, ids=repr)
def test_a_version_that_cannot_be_shown_is_refused_and_nothing_is_written(jobs: Jobs, version: str) -> None:
    with pytest.raises(InvalidOption, match="version") as refused:
        jobs.admin.mark_deploy(version)
    assert refused.value.field == "version"
    assert "128" in str(refused.value) or "text" in str(refused.value)
    assert list(jobs.storage.inspection.deploys()) == []
    assert list(jobs.admin.audit()) == []


@pytest.mark.parametrize("note", ("n" * 501, "a\nb", "a\x00b", "a\ud800b", 7), ids=repr)
def test_a_note_that_cannot_be_shown_is_refused_and_nothing_is_written(jobs: Jobs, note: str) -> None:
    with pytest.raises(InvalidOption, match="note") as refused:
        jobs.admin.mark_deploy("119", note)
    assert refused.value.field == "note"
    assert list(jobs.storage.inspection.deploys()) == []


def test_hostile_text_is_kept_as_it_is(jobs: Jobs) -> None:
    version, note = "<b>'; --%s🦥", '"><script>' + "ü" * 490
    jobs.admin.mark_deploy(version, note)
    [kept] = jobs.storage.inspection.deploys()
    assert (kept.version, kept.note) == (version, note)


def test_deploys_are_listed_by_pages_latest_first(jobs: Jobs, clock: FakeClock) -> None:
    for number in range(5):
        jobs.admin.mark_deploy(f"v{number}")
        clock.advance(1)
    first = jobs.admin.list_deploys(page_size=2)
    second = jobs.admin.list_deploys(page_size=2, cursor=first.next_cursor)
    assert [[one.version for one in page] for page in (first, second)] == [["v4", "v3"], ["v2", "v1"]]
    assert list(jobs.admin.list_deploys(page_size=2, cursor=second.previous_cursor)) == list(first)
    with pytest.raises(InvalidOption, match="page_size"):
        jobs.admin.list_deploys(page_size=501)


# Workers


def test_the_first_worker_with_another_version_marks_a_deploy(jobs: Jobs, clock: FakeClock) -> None:
    for id, version in (("w1", "119"), ("w2", "119"), ("w3", "120"), ("w4", "120"), ("w5", None)):
        scene.live_worker(jobs, id, app_version=version)
        clock.advance(1)
    found = [(one.version, one.worker_id, one.actor) for one in jobs.admin.list_deploys()]
    assert found == [("120", "w3", None), ("119", "w1", None)]
    assert list(jobs.admin.audit()) == []
    shown = {one.id: one.app_version for one in jobs.admin.list_workers()}
    assert shown == {"w1": "119", "w2": "119", "w3": "120", "w4": "120", "w5": None}


def test_what_an_operator_has_marked_is_not_marked_by_workers(jobs: Jobs) -> None:
    jobs.admin.mark_deploy("119")
    scene.live_worker(jobs, "w1", app_version="119")
    assert _versions(jobs) == ["119"]


def test_however_many_workers_start_at_once_one_marks_the_deploy(jobs: Jobs) -> None:
    jobs.admin.mark_deploy("118")
    _all_at_once(8, lambda place: scene.live_worker(jobs, f"w{place}", app_version="119"))
    assert _versions(jobs) == ["119", "118"]
    assert len(jobs.admin.list_workers()) == 8


def test_different_versions_at_once_are_each_marked_once(jobs: Jobs) -> None:
    _all_at_once(6, lambda place: jobs.admin.mark_deploy(f"v{place}"))
    assert sorted(_versions(jobs)) == [f"v{place}" for place in range(6)]
    assert [one.number for one in jobs.storage.inspection.deploys()] == [1, 2, 3, 4, 5, 6]


def test_applications_that_share_a_database_do_not_answer_each_other(jobs: Jobs) -> None:
    for id, application, version in (
        ("w1", "shop", "119"),
        ("w2", "mail", "9"),
        ("w3", "shop", "119"),
        ("w4", "mail", "9"),
    ):
        scene.live_worker(jobs, id, app_version=version, application=application)
    assert [(one.application, one.version) for one in jobs.admin.list_deploys()] == [("mail", "9"), ("shop", "119")]
    # A mark without a name counts for all of them.
    jobs.admin.mark_deploy("120")
    scene.live_worker(jobs, "w5", app_version="120", application="shop")
    scene.live_worker(jobs, "w6", app_version="120", application="mail")
    assert _versions(jobs) == ["120", "9", "119"]


# Bounds


def test_old_deploys_are_removed_but_for_the_latest_of_each_application(jobs: Jobs, clock: FakeClock) -> None:
    scene.live_worker(jobs, "w1", app_version="9", application="mail")
    for number in range(4):
        jobs.admin.mark_deploy(f"v{number}")
        clock.advance(1)
    clock.advance(timedelta(seconds=DEPLOYS_KEPT))
    purge(jobs.storage, limit=3)
    assert _versions(jobs) == ["v3", "v2", "9"]
    purge(jobs.storage)
    assert _versions(jobs) == ["v3", "9"]
    assert jobs.admin.mark_deploy("v3").existing
    assert jobs.admin.mark_deploy("v4").number == 6


# One kind of job


def _runs(jobs: Jobs, clock: FakeClock, seconds: float, number: int) -> None:
    for _ in range(number):
        scene.queued(jobs)
        [claim] = jobs.claim(scene.WORKER)
        clock.advance(seconds)
        assert jobs.complete(claim, None)


def test_a_job_type_compares_its_runs_before_and_since_the_latest_deploy(jobs: Jobs, clock: FakeClock) -> None:
    _runs(jobs, clock, 9.0, 3)
    jobs.admin.mark_deploy("118")
    _runs(jobs, clock, 1.0, 20)
    jobs.admin.mark_deploy("119")
    _runs(jobs, clock, 2.0, 19)
    found = jobs.admin.get_job_type(scene.NAME)
    assert [one.version for one in found.deploys] == ["119", "118"]
    assert found.since_deploy is None
    _runs(jobs, clock, 2.0, 1)
    compared = jobs.admin.get_job_type(scene.NAME).since_deploy
    assert compared is not None
    assert (compared.deploy.version, compared.slower) == ("119", True)
    assert (compared.before.values, compared.before.p50) == (20, 1.0)
    assert (compared.since.values, compared.since.p50) == (20, 2.0)


def test_a_job_type_shows_only_deploys_of_the_time_that_it_shows(jobs: Jobs, clock: FakeClock) -> None:
    jobs.admin.mark_deploy("118")
    clock.advance(7200)
    _runs(jobs, clock, 1.0, 1)
    jobs.admin.mark_deploy("119")
    assert [one.version for one in jobs.admin.get_job_type(scene.NAME).deploys] == ["119"]
    assert [one.version for one in jobs.admin.get_job_type(scene.NAME, minutes=1440).deploys] == ["119", "118"]
