"""Tags: jobs are listed, found and commanded by them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.records import count, told_apart


def _listed(jobs: Jobs, tag: str, **options: Any) -> list[str]:
    return [job.id for job in jobs.admin.list_jobs(tag=tag, **options)]


def test_a_job_has_its_tags(jobs: Jobs) -> None:
    jobs.declare("invoice")
    job, plain = jobs.enqueue("invoice", tags=("billing", "eu", "billing")), jobs.enqueue("invoice")
    assert (job.tags, plain.tags) == (("billing", "eu"), ())
    assert (jobs.get(job.id).tags, jobs.admin.get_job(job.id).tags) == (("billing", "eu"), ("billing", "eu"))
    assert {claim.id: claim.job.tags for claim in jobs.claim("w", limit=2)} == {job.id: job.tags, plain.id: ()}


def test_tags_that_differ_in_spaces_at_the_end_are_two_or_one(jobs: Jobs) -> None:
    jobs.declare("invoice")
    job = jobs.enqueue("invoice", tags=("eu", "eu "))
    assert list(job.tags) == told_apart(jobs, ["eu", "eu "])
    assert jobs.get(job.id).tags == job.tags
    assert _listed(jobs, "eu") == _listed(jobs, "eu ") == [job.id]


def test_jobs_are_listed_by_a_tag(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("invoice")
    made = []
    for number in range(7):
        tags = ("odd",) if number % 2 else ("even", "Odd")
        made.append(jobs.enqueue("invoice", {"n": number}, tags=tags, queue="q" if number < 4 else "p"))
        clock.advance(1)
    odd = [job.id for job in reversed(made) if "odd" in job.tags]
    assert _listed(jobs, "odd") == odd
    assert _listed(jobs, "odd", order="created_at") == odd[::-1]
    assert _listed(jobs, "odd", queue="q") == odd[1:]
    assert _listed(jobs, "none") == _listed(jobs, "odd", status="dead") == []
    first = jobs.admin.list_jobs(tag="odd", page_size=2)
    assert [job.id for job in first] == odd[:2]
    assert [job.id for job in jobs.admin.list_jobs(tag="odd", page_size=2, cursor=first.next_cursor)] == odd[2:]
    since = made[3].created_at
    assert _listed(jobs, "odd", created_from=since) == odd[:2]
    assert _listed(jobs, "odd", created_to=since) == odd[2:]
    assert _listed(jobs, "odd", scope=["p"]) == odd[:1]


def test_a_tag_narrows_other_filters(jobs: Jobs) -> None:
    jobs.declare("invoice")
    both = jobs.enqueue("invoice", tags=("eu",), correlation_id="c", business_key="b")
    jobs.enqueue("invoice", tags=("us",), correlation_id="c")
    assert _listed(jobs, "eu", correlation_id="c") == [both.id]
    assert _listed(jobs, "us", business_key="b") == []
    assert _listed(jobs, "eu", business_key="b", name="invoice") == [both.id]


def test_jobs_are_commanded_and_found_by_a_tag(jobs: Jobs) -> None:
    jobs.declare("invoice")
    many = jobs.enqueue_many([("invoice", n, {"tags": ["eu", f"n{n}"]}) for n in range(5)] + [("invoice", 9)])
    assert jobs.admin.bulk("cancel", {"tag": "eu"}, dry_run=True).matched == 5
    assert jobs.admin.bulk("cancel", {"tag": "eu"}).done == 5
    assert [jobs.get(job.id).status for job in many] == ["cancelled"] * 5 + ["queued"]
    [found] = jobs.admin.find_jobs("n3")
    assert (found.by, [job.id for job in found.jobs]) == ("tag", [many[3].id])


def test_a_definition_tags_its_jobs(jobs: Jobs) -> None:
    jobs.declare("invoice", tags=["billing"])
    one, other = jobs.enqueue("invoice"), jobs.enqueue("invoice", tags=["special"])
    many = jobs.enqueue_many([("invoice", 1), ("invoice", 2, {"tags": ()}), ("invoice", 3, {"tags": ["x"]})])
    assert [job.tags for job in (one, other, *many)] == [("billing",), ("special",), ("billing",), (), ("x",)]
    assert set(_listed(jobs, "billing")) == {one.id, many[0].id}


def test_the_occurrences_of_a_schedule_are_tagged(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("invoice", tags=["billing"])
    jobs.recurring("often", "invoice", every=600)
    clock.advance(600)
    [job] = jobs.tick_recurring()
    assert _listed(jobs, "billing") == [job.id]


def test_tags_go_with_their_job(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("invoice")
    job = jobs.enqueue("invoice", tags=["eu"])
    jobs.admin.delete(job.id)
    clock.advance(timedelta(days=2))
    assert jobs.admin.purge().jobs == 1
    assert _listed(jobs, "eu", status="deleted") == []


def test_a_secret_in_a_tag_is_not_shown(jobs: Jobs) -> None:
    jobs.declare("invoice")
    job = jobs.enqueue("invoice", tags=["password=hunter2000"])
    assert "hunter2000" not in repr(jobs.admin.get_job(job.id)) + repr(jobs.admin.list_jobs())


REFUSED: dict[str, Any] = {
    "text": "billing",
    "a number": 7,
    "an empty tag": ["billing", ""],
    "a tag that is no text": [1],
    "a tag that is too long": ["x" * 129],
    "a tag with NUL": ["a\0"],
    "too many": [f"t{number}" for number in range(21)],
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_are_no_tags_is_refused(jobs: Jobs, what: str) -> None:
    jobs.declare("invoice")
    for call in (
        lambda: jobs.enqueue("invoice", tags=REFUSED[what]),
        lambda: jobs.enqueue_many([("invoice", 1), ("invoice", 2, {"tags": REFUSED[what]})]),
        lambda: jobs.declare("other", tags=REFUSED[what]),
    ):
        with pytest.raises(errors.InvalidOption, match="tags"):
            call()
    assert count(jobs) == 0
