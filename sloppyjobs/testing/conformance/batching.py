"""Batches: exact numbers, one end, each callback once, and nothing that is stuck."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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


def _claims(jobs: Jobs) -> list[Claim]:
    claims = jobs.claim("worker-1", queues=("*",), names=["work"], limit=100)
    return sorted(claims, key=lambda claim: claim.id)


def _numbers(jobs: Jobs, batch: Batch | str) -> tuple[str, int, int, int, int, int]:
    seen = _seen(jobs, batch)
    return seen.status.value, seen.total, seen.outstanding, seen.succeeded, seen.dead, seen.cancelled


def _seen(jobs: Jobs, batch: Batch | str) -> BatchView:
    return jobs.admin.get_batch(batch if isinstance(batch, str) else batch.id)


def _called(jobs: Jobs, batch: Batch) -> list[str]:
    return sorted(one.kind for one in _seen(jobs, batch).callbacks if one.status is not None)


def _filled(jobs: Jobs, number: int, **options: Any) -> Batch:
    with jobs.batch("import", **{**CALLBACKS, **options}) as batch:
        batch.enqueue_many([("work", {"n": place}) for place in range(number)])
    return batch


def _as_member(jobs: Jobs, batch: Batch, claim: Claim) -> Batch:
    """The batch, as the handler of a running member has it."""
    return Batch(jobs, batch.id, batch.name, adder=claim.id)


# The life of a batch


def test_a_batch_ends_with_its_last_job_and_calls_back_once(batching: Jobs) -> None:
    batch = _filled(batching, 3, metadata={"file": "a.csv"})
    assert _numbers(batching, batch) == ("running", 3, 3, 0, 0, 0)
    first, second, third = _claims(batching)
    assert batching.complete(first)
    assert batching.complete(second)
    assert (_numbers(batching, batch), _called(batching, batch)) == (("running", 3, 1, 2, 0, 0), [])
    assert batching.complete(third)
    assert _numbers(batching, batch) == ("succeeded", 3, 0, 3, 0, 0)
    assert _called(batching, batch) == ["complete", "success"]
    seen = _seen(batching, batch)
    assert (seen.percent, seen.metadata, seen.name) == (100.0, {"file": "a.csv"}, "import")
    made = {one.kind: one for one in seen.callbacks}
    complete = batching.get(made["complete"].job_id)
    assert (complete.priority, complete.tags, complete.correlation_id) == (5, ("end",), batch.id)
    assert count(batching) == 5


def test_a_dead_job_means_failure_and_its_retry_may_still_mean_success(batching: Jobs) -> None:
    batch = _filled(batching, 2)
    first, second = _claims(batching)
    batching.complete(first)
    batching.fail(second, ValueError("no"))
    assert _numbers(batching, batch) == ("failed", 2, 0, 1, 1, 0)
    assert _called(batching, batch) == ["complete", "failure"]
    assert [job.id for job in batching.admin.dead_in_batch(batch.id)] == [second.id]
    seen = batching.admin.retry_batch(batch.id)
    assert (seen.status, seen.outstanding, seen.dead, seen.finished_at) == ("running", 1, 0, None)
    [again] = _claims(batching)
    batching.complete(again)
    assert _numbers(batching, batch) == ("succeeded", 2, 0, 2, 0, 0)
    assert _called(batching, batch) == ["complete", "failure", "success"]


def test_a_dead_job_that_is_retried_alone_reopens_its_batch(batching: Jobs) -> None:
    batch = _filled(batching, 1)
    [claim] = _claims(batching)
    batching.fail(claim, ValueError("no"))
    batching.admin.retry(claim.id)
    assert _numbers(batching, batch) == ("running", 1, 1, 0, 0, 0)
    [again] = _claims(batching)
    batching.fail(again, ValueError("no"))
    assert _numbers(batching, batch) == ("failed", 1, 0, 0, 1, 0)
    assert (_called(batching, batch), count(batching)) == (["complete", "failure"], 3)


def test_enough_is_whole(batching: Jobs) -> None:
    batch = _filled(batching, 4, success_rate=0.75)
    *good, bad = _claims(batching)
    for claim in good:
        batching.complete(claim)
    batching.fail(bad, ValueError("no"))
    assert _numbers(batching, batch) == ("succeeded", 4, 0, 3, 1, 0)
    assert _called(batching, batch) == ["complete", "success"]


def test_a_batch_without_jobs_ends_when_it_is_sealed(batching: Jobs) -> None:
    batch = _filled(batching, 0)
    assert _numbers(batching, batch) == ("succeeded", 0, 0, 0, 0, 0)
    assert _called(batching, batch) == ["complete", "success"]
    assert batching.batch("unused").id.startswith("batch_")
    assert count(batching, "batches") == 1


def test_a_batch_that_is_open_does_not_end(batching: Jobs) -> None:
    batch = batching.open_batch("stream", on_complete=("report",))
    batch.enqueue("work")
    batching.complete(_claims(batching)[0])
    assert _numbers(batching, batch) == ("open", 1, 0, 1, 0, 0)
    batching.get_batch(batch.id).enqueue("work")
    batching.complete(_claims(batching)[0])
    batch.seal()
    batch.seal()
    assert _numbers(batching, batch) == ("succeeded", 2, 0, 2, 0, 0)
    assert _called(batching, batch) == ["complete"]


def test_a_job_that_is_tried_again_is_outstanding_until_it_ends(batching: Jobs, clock: FakeClock) -> None:
    with batching.batch("import") as batch:
        batch.enqueue("work", max_attempts=2, delay=10)
    assert _numbers(batching, batch) == ("running", 1, 1, 0, 0, 0)
    clock.advance(10)
    [claim] = _claims(batching)
    batching.fail(claim, ValueError("no"), retry_after=5)
    assert _numbers(batching, batch) == ("running", 1, 1, 0, 0, 0)
    clock.advance(6)
    [claim] = _claims(batching)
    clock.advance(timedelta(hours=1))
    # The lease has expired, and the attempts are used up.
    assert _claims(batching) == []
    assert _numbers(batching, batch) == ("failed", 1, 0, 0, 1, 0)


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
    assert _numbers(batching, batch) == ("failed", 1, 0, 0, 0, 1)
    assert _called(batching, batch) == ["failure"]


def test_a_job_that_expires_or_that_can_never_start_ends_its_batch(batching: Jobs, clock: FakeClock) -> None:
    parent = batching.enqueue("work", delay=3600)
    with batching.batch("import") as batch:
        batch.enqueue("work", expires=10)
        batch.enqueue("work", depends_on=[parent])
    clock.advance(11)
    assert _claims(batching) == []
    assert _numbers(batching, batch) == ("running", 2, 1, 0, 0, 1)
    batching.admin.cancel(parent.id)
    assert _numbers(batching, batch) == ("failed", 2, 0, 0, 0, 2)


def test_numbers_outlive_the_jobs(batching: Jobs, clock: FakeClock) -> None:
    batch = _filled(batching, 2)
    first, second = _claims(batching)
    batching.complete(first)
    batching.fail(second, ValueError("no"))
    clock.advance(timedelta(days=1))
    batching.admin.cleanup(ages={"succeeded": 0, "dead": 0})
    clock.advance(timedelta(days=2))
    batching.admin.purge()
    assert _numbers(batching, batch) == ("failed", 2, 0, 1, 1, 0)
    assert batching.admin.dead_in_batch(batch.id) == ()
    with pytest.raises(errors.InvalidTransition):
        batching.admin.retry_batch(batch.id)
    clock.advance(timedelta(days=100))
    batching.admin.purge()
    with pytest.raises(errors.UnknownBatch):
        batching.admin.get_batch(batch.id)


# Adding


def test_what_is_sealed_cancelled_or_ended_takes_no_more(batching: Jobs) -> None:
    sealed = _filled(batching, 1)
    for batch in (sealed, _filled(batching, 0)):
        with pytest.raises(errors.BatchClosed, match=batch.id):
            batch.enqueue("work")
        with pytest.raises(errors.BatchClosed):
            batch.enqueue_many([("work", place) for place in range(3)])
    opened = batching.open_batch("stream")
    opened.enqueue("work")
    batching.admin.cancel_batch(opened.id)
    with pytest.raises(errors.BatchClosed, match="cancelled"):
        opened.enqueue("work", business_key="k")
    with pytest.raises(errors.UnknownBatch):
        batching.get_batch("batch_unknown")
    assert _numbers(batching, sealed)[1] == 1


def test_a_running_member_adds_to_a_sealed_batch(batching: Jobs) -> None:
    batch = _filled(batching, 1)
    [claim] = _claims(batching)
    _as_member(batching, batch, claim).enqueue("work", {"n": 1})
    _as_member(batching, batch, claim).enqueue_many([("work", place) for place in range(2)])
    batching.complete(claim)
    assert _numbers(batching, batch) == ("running", 4, 3, 1, 0, 0)
    with pytest.raises(errors.BatchClosed, match="has ended"):
        _as_member(batching, batch, claim).enqueue("work", {"n": 1})
    for other in _claims(batching):
        batching.complete(other)
    assert _numbers(batching, batch) == ("succeeded", 4, 0, 4, 0, 0)


def test_a_running_member_does_not_add_to_a_cancelled_batch(batching: Jobs) -> None:
    batch = _filled(batching, 1)
    [claim] = _claims(batching)
    batching.admin.cancel_batch(batch.id)
    with pytest.raises(errors.BatchClosed, match="cancelled"):
        _as_member(batching, batch, claim).enqueue("work")
    assert not batching.complete(claim)
    assert _numbers(batching, batch) == ("cancelled", 1, 0, 0, 0, 1)


def test_a_job_that_a_key_finds_is_no_member(batching: Jobs) -> None:
    known = batching.enqueue("work", idempotency_key="a")
    live = batching.enqueue("work", business_key="b")
    with batching.batch("import") as batch:
        found = batch.enqueue_many([("work", 1, {"idempotency_key": "a"}), ("work", 2, {"idempotency_key": "c"})])
        kept = batch.enqueue("work", business_key="b")
        batch.enqueue("work", idempotency_key="c")
    assert [found[0].id, kept.id] == [known.id, live.id]
    assert (found[0].batch_id, kept.batch_id, found[1].batch_id) == (None, None, batch.id)
    assert _numbers(batching, batch) == ("running", 1, 1, 0, 0, 0)
    assert [job.id for job in batching.admin.list_jobs(batch=batch.id)] == [found[1].id]


def test_a_block_that_raises_cancels_its_batch(batching: Jobs) -> None:
    with pytest.raises(ZeroDivisionError), batching.batch("import", on_failure=("report",)) as batch:
        batch.enqueue_many([("work", place) for place in range(3)])
        _ = 1 / 0
    assert _numbers(batching, batch) == ("cancelled", 3, 0, 0, 0, 3)
    assert _called(batching, batch) == ["failure"]
    assert "ZeroDivisionError" in (_seen(batching, batch).reason or "")


BAD_BATCHES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "rate": ({"success_rate": 1.5}, errors.InvalidOption, "success_rate"),
    "truth": ({"success_rate": True}, errors.InvalidOption, "success_rate"),
    "name": ({"name": ""}, errors.InvalidOption, "name"),
    "metadata": ({"metadata": [1]}, errors.InvalidOption, "metadata"),
    "unknown": ({"on_success": ("nobody", 1)}, errors.UnknownJob, "on_success"),
    "shape": ({"on_failure": "report"}, errors.InvalidOption, "on_failure"),
    "payload": ({"on_failure": ("report", float("nan"))}, errors.InvalidPayload, "on_failure"),
    "option": ({"on_complete": ("report", 1, {"colour": "red"})}, errors.InvalidOption, "colour"),
    "key": ({"on_complete": ("report", 1, {"business_key": "k"})}, errors.InvalidOption, "business_key"),
}


@pytest.mark.parametrize("case", BAD_BATCHES)
def test_what_cannot_work_is_refused_whole(batching: Jobs, case: str) -> None:
    given, kind, named = BAD_BATCHES[case]
    with pytest.raises(kind, match=named):
        batching.open_batch(**{"name": "import", **given})
    assert count(batching, "batches") == 0


def test_one_bad_job_keeps_all_of_its_call_out(batching: Jobs) -> None:
    batch = batching.open_batch("stream")
    with pytest.raises(errors.InvalidPayload, match=r"items\[1\]"):
        batch.enqueue_many([("work", 1), ("work", float("inf"))])
    with pytest.raises(errors.InvalidOption, match="colour"):
        batch.enqueue("work", colour="red")  # type: ignore[call-arg]
    assert _numbers(batching, batch) == ("open", 0, 0, 0, 0, 0)


# Commands


def test_cancelling_ends_what_has_not_ended(batching: Jobs) -> None:
    batch = _filled(batching, 4)
    first, second, *_ = _claims(batching)
    batching.complete(first)
    batching.fail(second, ValueError("no"))
    seen = batching.admin.cancel_batch(batch.id, actor="ada", reason="wrong file")
    assert (seen.status, seen.actor, seen.reason, seen.action) == ("cancelled", "ada", "wrong file", None)
    assert _numbers(batching, batch) == ("cancelled", 4, 0, 1, 1, 2)
    assert _called(batching, batch) == ["complete", "failure"]
    assert [(one.action, one.target) for one in batching.admin.audit()] == [("cancel_batch", batch.id)]
    with pytest.raises(errors.InvalidTransition, match="has ended"):
        batching.admin.cancel_batch(batch.id)


def test_commands_that_have_nothing_to_do_are_refused(batching: Jobs) -> None:
    batch = _filled(batching, 1)
    with pytest.raises(errors.InvalidTransition, match="dead"):
        batching.admin.retry_batch(batch.id)
    for command in (batching.admin.retry_batch, batching.admin.cancel_batch, batching.admin.seal_batch):
        with pytest.raises(errors.UnknownBatch):
            command("batch_unknown")
    assert batching.admin.seal_batch(batch.id).status == "running"
    assert list(batching.admin.audit()) == []


def test_an_operator_seals_what_was_left_open(batching: Jobs) -> None:
    batch = batching.open_batch("stream", on_complete=("report",))
    assert _seen(batching, batch).actions == ("seal", "cancel")
    assert batching.admin.seal_batch(batch.id, actor="ada").status == "succeeded"
    assert _called(batching, batch) == ["complete"]


def test_lists_are_pages(batching: Jobs) -> None:
    made = [_filled(batching, number) for number in (0, 1, 2)]
    listed = batching.admin.list_batches(page_size=2)
    assert [one.id for one in listed] == [made[2].id, made[1].id]
    assert [one.total for one in listed] == [2, 1]
    last = batching.admin.list_batches(page_size=2, cursor=listed.next_cursor)
    assert ([one.id for one in last], last.next_cursor) == ([made[0].id], None)
    assert [one.id for one in batching.admin.list_batches(status="succeeded")] == [made[0].id]
    assert list(batching.admin.list_batches(name="export")) == []
    with pytest.raises(errors.InvalidOption, match="status"):
        batching.admin.list_batches(status="dead")
    jobs = batching.admin.list_jobs(batch=made[2].id, status="queued", page_size=1)
    assert (len(jobs), jobs.next_cursor is not None) == (1, True)


def test_somebody_who_sees_some_queues_sees_their_jobs_of_a_batch(batching: Jobs) -> None:
    with batching.batch("mixed") as batch:
        batch.enqueue_many([("work", 1, {"queue": "a"}), ("work", 2, {"queue": "b"}), ("work", 3, {"queue": "a"})])
    admin = batching.admin
    assert [admin.get_batch(batch.id, scope=queues).total for queues in (["a"], ["b"], ["a", "b"])] == [2, 1, 3]
    with pytest.raises(errors.UnknownBatch):
        admin.get_batch(batch.id, scope=["c"])
    assert (len(admin.list_batches(scope=["a"])), len(admin.list_batches(scope=["c"]))) == (1, 0)
    with pytest.raises(errors.InvalidTransition, match="cannot see"):
        admin.cancel_batch(batch.id, scope=["a"])
    assert admin.cancel_batch(batch.id, scope=["a", "b"]).status == "cancelled"


def test_rate_and_eta_go_by_the_clock_of_the_database(batching: Jobs, clock: FakeClock) -> None:
    batch = _filled(batching, 5)
    for claim in _claims(batching)[:3]:
        batching.complete(claim)
        clock.advance(10)
    seen = _seen(batching, batch)
    assert seen.rate == pytest.approx(2 / 30)
    assert seen.eta == clock.now() + timedelta(seconds=30)


# Faults


def test_rows_that_do_not_agree_with_their_jobs_are_mended(batching: Jobs) -> None:
    batch = _filled(batching, 2)
    first, second = _claims(batching)
    batching.complete(first)
    batching.storage.inspection.set_job(second.id, followups=None)
    batching.admin.cancel(second.id)
    assert _numbers(batching, batch) == ("running", 2, 1, 1, 0, 0)
    batching.admin.purge()
    batching.admin.advance_batches()
    assert _numbers(batching, batch) == ("failed", 2, 0, 1, 0, 1)


def test_of_many_that_end_the_last_jobs_at_once_one_ends_the_batch(live_jobs: Jobs) -> None:
    live_jobs.declare("work", retry=NO_RETRY)
    live_jobs.declare("report")
    workers = 4
    with ThreadPoolExecutor(workers) as pool:
        for _ in range(5):
            batch = _filled(live_jobs, workers)
            claims = _claims(live_jobs)
            ready = threading.Barrier(workers)

            def end(place: int, claims: list[Claim] = claims, ready: threading.Barrier = ready) -> None:
                ready.wait(10)
                if place == 0:
                    live_jobs.admin.cancel(claims[place].id)
                elif place == 1:
                    live_jobs.fail(claims[place], ValueError("no"))
                else:
                    live_jobs.complete(claims[place])

            list(pool.map(end, range(workers)))
            assert _numbers(live_jobs, batch) == ("failed", 4, 0, 2, 1, 1)
            assert _called(live_jobs, batch) == ["complete", "failure"]


def test_a_seal_and_the_end_of_the_last_job_at_once(live_jobs: Jobs) -> None:
    live_jobs.declare("work", retry=NO_RETRY)
    live_jobs.declare("report")
    with ThreadPoolExecutor(2) as pool:
        for _ in range(5):
            batch = live_jobs.open_batch("stream", **CALLBACKS)
            batch.enqueue("work")
            [claim] = _claims(live_jobs)
            ready = threading.Barrier(2)

            def seal(batch: Batch = batch, ready: threading.Barrier = ready) -> None:
                ready.wait(10)
                batch.seal()

            def settle(claim: Claim = claim, ready: threading.Barrier = ready) -> None:
                ready.wait(10)
                assert live_jobs.complete(claim)

            for done in [pool.submit(seal), pool.submit(settle)]:
                done.result()
            assert _numbers(live_jobs, batch) == ("succeeded", 1, 0, 1, 0, 0)
            assert _called(live_jobs, batch) == ["complete", "success"]
