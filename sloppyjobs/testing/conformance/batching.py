"""Batches: exact numbers, one end, each callback once, and nothing that is stuck."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.model import Claim, Job
from sloppyjobs.domain.retry import NO_RETRY
from sloppyjobs.enqueue.batches import Batch
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.records import count
from sloppyjobs.views import BatchView


@pytest.fixture
def batching(jobs: Jobs) -> Jobs:
    """Jobs with the names that everybody uses here."""
    jobs.declare("work", retry=NO_RETRY)
    jobs.declare("report")
    return jobs


CALLBACKS: dict[str, Any] = {
    "on_success": ("report", "whole"),
    "on_failure": ("report", "broken"),
    "on_complete": ("report", "over", {"priority": 5, "tags": ["end"]}),
}


def claims(jobs: Jobs) -> list[Claim]:
    claims = jobs.claim("worker-1", queues=("*",), names=["work"], limit=100)
    return sorted(claims, key=lambda claim: claim.id)


def numbers(jobs: Jobs, batch: Batch | str) -> tuple[str, int, int, int, int, int]:
    seen = view_of(jobs, batch)
    return seen.status.value, seen.total, seen.outstanding, seen.succeeded, seen.dead, seen.cancelled


def view_of(jobs: Jobs, batch: Batch | str) -> BatchView:
    return jobs.admin.get_batch(batch if isinstance(batch, str) else batch.id)


def called(jobs: Jobs, batch: Batch) -> list[str]:
    return sorted(one.kind for one in view_of(jobs, batch).callbacks if one.status is not None)


def filled_batch(jobs: Jobs, number: int, **options: Any) -> Batch:
    with jobs.batch("import", **{**CALLBACKS, **options}) as batch:
        batch.enqueue_many([("work", {"n": place}) for place in range(number)])
    return batch


def as_member(jobs: Jobs, batch: Batch, claim: Claim) -> Batch:
    """The batch, as the handler of a running member has it."""
    return Batch(jobs, batch.id, batch.name, adder=claim.id)


# The life of a batch


def test_a_batch_ends_with_its_last_job_and_calls_back_once(batching: Jobs) -> None:
    batch = filled_batch(batching, 3, metadata={"file": "a.csv"})
    assert numbers(batching, batch) == ("running", 3, 3, 0, 0, 0)
    first, second, third = claims(batching)
    assert batching.complete(first)
    assert batching.complete(second)
    assert (numbers(batching, batch), called(batching, batch)) == (("running", 3, 1, 2, 0, 0), [])
    assert batching.complete(third)
    assert numbers(batching, batch) == ("succeeded", 3, 0, 3, 0, 0)
    assert called(batching, batch) == ["complete", "success"]
    seen = view_of(batching, batch)
    assert (seen.percent, seen.metadata, seen.name) == (100.0, {"file": "a.csv"}, "import")
    made = {one.kind: one for one in seen.callbacks}
    assert {kind for kind, one in made.items() if one.called} == {"complete", "success"}
    complete = batching.get(made["complete"].job_id)
    assert (complete.priority, complete.tags, complete.correlation_id) == (5, ("end",), batch.id)
    assert count(batching) == 5


def test_a_dead_job_means_failure_and_its_retry_may_still_mean_success(batching: Jobs) -> None:
    batch = filled_batch(batching, 2)
    first, second = claims(batching)
    batching.complete(first)
    batching.fail(second, ValueError("no"))
    assert numbers(batching, batch) == ("failed", 2, 0, 1, 1, 0)
    assert called(batching, batch) == ["complete", "failure"]
    assert [job.id for job in batching.admin.dead_in_batch(batch.id)] == [second.id]
    seen = batching.admin.retry_batch(batch.id)
    assert (seen.status, seen.outstanding, seen.dead, seen.finished_at) == ("running", 1, 0, None)
    [again] = claims(batching)
    batching.complete(again)
    assert numbers(batching, batch) == ("succeeded", 2, 0, 2, 0, 0)
    assert called(batching, batch) == ["complete", "failure", "success"]


def test_a_dead_job_that_is_retried_alone_reopens_its_batch(batching: Jobs) -> None:
    batch = filled_batch(batching, 1)
    [claim] = claims(batching)
    batching.fail(claim, ValueError("no"))
    batching.admin.retry(claim.id)
    assert numbers(batching, batch) == ("running", 1, 1, 0, 0, 0)
    [again] = claims(batching)
    batching.fail(again, ValueError("no"))
    assert numbers(batching, batch) == ("failed", 1, 0, 0, 1, 0)
    assert (called(batching, batch), count(batching)) == (["complete", "failure"], 3)


def test_enough_is_whole(batching: Jobs) -> None:
    batch = filled_batch(batching, 4, success_rate=0.75)
    *good, bad = claims(batching)
    for claim in good:
        batching.complete(claim)
    batching.fail(bad, ValueError("no"))
    assert numbers(batching, batch) == ("succeeded", 4, 0, 3, 1, 0)
    assert called(batching, batch) == ["complete", "success"]


def test_a_batch_without_jobs_ends_when_it_is_sealed(batching: Jobs) -> None:
    batch = filled_batch(batching, 0)
    assert numbers(batching, batch) == ("succeeded", 0, 0, 0, 0, 0)
    assert called(batching, batch) == ["complete", "success"]
    assert batching.batch("unused").id.startswith("batch_")
    assert count(batching, "batches") == 1


def test_a_batch_that_is_open_does_not_end(batching: Jobs) -> None:
    batch = batching.open_batch("stream", on_complete=("report",))
    batch.enqueue("work")
    batching.complete(claims(batching)[0])
    assert numbers(batching, batch) == ("open", 1, 0, 1, 0, 0)
    batching.get_batch(batch.id).enqueue("work")
    batching.complete(claims(batching)[0])
    batch.seal()
    batch.seal()
    assert numbers(batching, batch) == ("succeeded", 2, 0, 2, 0, 0)
    assert called(batching, batch) == ["complete"]


def test_a_job_that_is_tried_again_is_outstanding_until_it_ends(batching: Jobs, clock: FakeClock) -> None:
    with batching.batch("import") as batch:
        batch.enqueue("work", max_attempts=2, delay=10)
    assert numbers(batching, batch) == ("running", 1, 1, 0, 0, 0)
    clock.advance(10)
    [claim] = claims(batching)
    batching.fail(claim, ValueError("no"), retry_after=5)
    assert numbers(batching, batch) == ("running", 1, 1, 0, 0, 0)
    clock.advance(6)
    [claim] = claims(batching)
    clock.advance(timedelta(hours=1))
    # The lease has expired, and the attempts are used up.
    assert claims(batching) == []
    assert numbers(batching, batch) == ("failed", 1, 0, 0, 1, 0)


def _cancel(jobs: Jobs, job: Job) -> None:
    jobs.admin.cancel(job.id)


def _delete(jobs: Jobs, job: Job) -> None:
    jobs.admin.delete(job.id)


def _bulk(jobs: Jobs, job: Job) -> None:
    assert jobs.admin.bulk("cancel", {"ids": [job.id]}).done == 1


def _supersede(jobs: Jobs, job: Job) -> None:
    jobs.replace(job, {"n": 2})


WAYS_TO_END: dict[str, Callable[[Jobs, Job], None]] = {
    "cancelled": _cancel,
    "deleted": _delete,
    "cancelled in bulk": _bulk,
    "replaced": _supersede,
}


@pytest.mark.parametrize("end", WAYS_TO_END)
def test_every_kind_of_end_is_counted(batching: Jobs, end: str) -> None:
    with batching.batch("import", on_failure=("report",)) as batch:
        job = batch.enqueue("work")
    WAYS_TO_END[end](batching, job)
    batching.admin.advance_batches()
    assert numbers(batching, batch) == ("failed", 1, 0, 0, 0, 1)
    assert called(batching, batch) == ["failure"]


def test_a_job_that_expires_or_that_can_never_start_ends_its_batch(batching: Jobs, clock: FakeClock) -> None:
    parent = batching.enqueue("work", delay=3600)
    with batching.batch("import") as batch:
        batch.enqueue("work", expires=10)
        batch.enqueue("work", depends_on=[parent])
    clock.advance(11)
    assert claims(batching) == []
    assert numbers(batching, batch) == ("running", 2, 1, 0, 0, 1)
    batching.admin.cancel(parent.id)
    assert numbers(batching, batch) == ("failed", 2, 0, 0, 0, 2)


def test_an_explanation_says_which_batch_a_job_belongs_to(batching: Jobs) -> None:
    def said(job_id: str) -> str:
        [found] = [one.text for one in batching.admin.explain(job_id).reasons if one.code == "batch"]
        return found.replace(batch.id, "ID")

    batch = batching.open_batch("import")
    members = batch.enqueue_many([("work", None)] * 3)
    until = "takes more jobs until it is sealed, and ends when all of them have ended"
    assert said(members[0].id) == (
        f"It belongs to the batch 'import' (ID). The batch {until}: 3 of 3 have not, this one among them."
    )
    batch.seal()
    first, second, third = claims(batching)
    batching.complete(first)
    batching.fail(second, ValueError("no"))
    ends = "The batch ends when all its jobs have ended: 1 of 3 have not"
    assert said(first.id) == f"It belongs to the batch 'import' (ID), where it is counted. {ends}."
    assert said(second.id) == f"It belongs to the batch 'import' (ID), where it is counted as dead. {ends}."
    assert said(third.id) == f"It belongs to the batch 'import' (ID). {ends}, this one."
    batching.complete(third)
    assert said(third.id) == "It belongs to the batch 'import' (ID), which has failed."
    [reason] = batching.admin.explain(batching.enqueue("work").id).reasons[:1]
    assert reason.code != "batch"


def test_numbers_outlive_the_jobs(batching: Jobs, clock: FakeClock) -> None:
    batch = filled_batch(batching, 2)
    first, second = claims(batching)
    batching.complete(first)
    batching.fail(second, ValueError("no"))
    clock.advance(timedelta(days=1))
    batching.admin.cleanup(ages={"succeeded": 0, "dead": 0})
    clock.advance(timedelta(days=2))
    batching.admin.purge()
    assert numbers(batching, batch) == ("failed", 2, 0, 1, 1, 0)
    assert {one.kind for one in view_of(batching, batch).callbacks if one.called} == {"complete", "failure"}
    assert batching.admin.dead_in_batch(batch.id) == ()
    with pytest.raises(errors.InvalidTransition):
        batching.admin.retry_batch(batch.id)
    clock.advance(timedelta(days=100))
    batching.admin.purge()
    with pytest.raises(errors.UnknownBatch):
        batching.admin.get_batch(batch.id)


def test_a_batch_says_what_its_end_waits_for(batching: Jobs) -> None:
    batch = batching.open_batch("words", success_rate=0.995)
    explained = [batching.admin.get_batch(batch.id).explanation]
    job = batch.enqueue("work")
    explained.append(batching.admin.get_batch(batch.id).explanation)
    batch.seal()
    batching.admin.cancel(job.id)
    explained.append(batching.admin.get_batch(batch.id).explanation)
    assert explained == [
        "Open: jobs can still be added. It ends when it is sealed.",
        "Open: jobs can still be added. It ends when it is sealed and 1 more job has ended.",
        "Ended: 0 of 1 jobs succeeded, 99.5 % were needed.",
    ]
