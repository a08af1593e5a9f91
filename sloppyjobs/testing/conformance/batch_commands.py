"""Batches: who may add to them, what operators do with them, and what faults leave behind."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.model import Claim
from sloppyjobs.domain.retry import NO_RETRY
from sloppyjobs.enqueue.batches import Batch
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance import batching as scene
from sloppyjobs.testing.conformance.records import count

# Adding


def test_what_is_sealed_cancelled_or_ended_takes_no_more(batching: Jobs) -> None:
    sealed = scene.filled_batch(batching, 1)
    for batch in (sealed, scene.filled_batch(batching, 0)):
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
    assert scene.numbers(batching, sealed)[1] == 1


def test_a_running_member_adds_to_a_sealed_batch(batching: Jobs) -> None:
    batch = scene.filled_batch(batching, 1)
    [claim] = scene.claims(batching)
    scene.as_member(batching, batch, claim).enqueue("work", {"n": 1})
    scene.as_member(batching, batch, claim).enqueue_many([("work", place) for place in range(2)])
    batching.complete(claim)
    assert scene.numbers(batching, batch) == ("running", 4, 3, 1, 0, 0)
    with pytest.raises(errors.BatchClosed, match="has ended"):
        scene.as_member(batching, batch, claim).enqueue("work", {"n": 1})
    for other in scene.claims(batching):
        batching.complete(other)
    assert scene.numbers(batching, batch) == ("succeeded", 4, 0, 4, 0, 0)


def test_a_running_member_does_not_add_to_a_cancelled_batch(batching: Jobs) -> None:
    batch = scene.filled_batch(batching, 1)
    [claim] = scene.claims(batching)
    batching.admin.cancel_batch(batch.id)
    with pytest.raises(errors.BatchClosed, match="cancelled"):
        scene.as_member(batching, batch, claim).enqueue("work")
    assert not batching.complete(claim)
    assert scene.numbers(batching, batch) == ("cancelled", 1, 0, 0, 0, 1)


def test_a_job_that_a_key_finds_is_no_member(batching: Jobs) -> None:
    known = batching.enqueue("work", idempotency_key="a")
    live = batching.enqueue("work", business_key="b")
    with batching.batch("import") as batch:
        found = batch.enqueue_many([("work", 1, {"idempotency_key": "a"}), ("work", 2, {"idempotency_key": "c"})])
        kept = batch.enqueue("work", business_key="b")
        batch.enqueue("work", idempotency_key="c")
    assert [found[0].id, kept.id] == [known.id, live.id]
    assert (found[0].batch_id, kept.batch_id, found[1].batch_id) == (None, None, batch.id)
    assert scene.numbers(batching, batch) == ("running", 1, 1, 0, 0, 0)
    assert [job.id for job in batching.admin.list_jobs(batch=batch.id)] == [found[1].id]


def test_the_jobs_of_a_batch_are_listed_in_the_order_of_their_ids_wherever_they_are(batching: Jobs) -> None:
    with batching.batch("import") as batch, batching.batch("other") as other:
        other.enqueue_many([("work", place) for place in range(3)])
        ids = [job.id for job in batch.enqueue_many([("work", place, {"max_attempts": 1}) for place in range(9)])]
    claims = {claim.job.id: claim for claim in batching.claim("w", limit=12)}
    for place, id in enumerate(ids[:7]):
        assert batching.fail(claims[id], "no") if place % 2 else batching.complete(claims[id])

    def listed(order: str, **wanted: Any) -> list[str]:
        found, cursor = [], None
        while True:
            page = batching.admin.list_jobs(batch=batch.id, order=order, page_size=2, cursor=cursor, **wanted)
            found += [job.id for job in page.items]
            if (cursor := page.next_cursor) is None:
                return found

    assert listed("created_at") == listed("-created_at")[::-1] == sorted(ids)
    assert listed("created_at", status="dead") == sorted(ids[1:7:2])
    assert listed("created_at", status=["dead", "succeeded"]) == sorted(ids[:7])
    assert listed("created_at", status="processing") == sorted(ids[7:])
    assert listed("created_at", status="queued") == []
    batching.admin.retry(ids[1])
    assert listed("created_at", status=["dead", "queued"]) == sorted(ids[1:7:2])
    assert listed("created_at") == sorted(ids)


def test_a_block_that_raises_cancels_its_batch(batching: Jobs) -> None:
    with pytest.raises(ZeroDivisionError), batching.batch("import", on_failure=("report",)) as batch:
        batch.enqueue_many([("work", place) for place in range(3)])
        _ = 1 / 0
    assert scene.numbers(batching, batch) == ("cancelled", 3, 0, 0, 0, 3)
    assert scene.called(batching, batch) == ["failure"]
    assert "ZeroDivisionError" in (scene.view_of(batching, batch).reason or "")


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
    assert scene.numbers(batching, batch) == ("open", 0, 0, 0, 0, 0)


# Commands


def test_cancelling_ends_what_has_not_ended(batching: Jobs) -> None:
    batch = scene.filled_batch(batching, 4)
    first, second, *_ = scene.claims(batching)
    batching.complete(first)
    batching.fail(second, ValueError("no"))
    seen = batching.admin.cancel_batch(batch.id, actor="ada", reason="wrong file")
    assert (seen.status, seen.actor, seen.reason, seen.action) == ("cancelled", "ada", "wrong file", None)
    assert scene.numbers(batching, batch) == ("cancelled", 4, 0, 1, 1, 2)
    assert scene.called(batching, batch) == ["complete", "failure"]
    assert [(one.action, one.target) for one in batching.admin.audit()] == [("cancel_batch", batch.id)]
    with pytest.raises(errors.InvalidTransition, match="has ended"):
        batching.admin.cancel_batch(batch.id)


def test_commands_that_have_nothing_to_do_are_refused(batching: Jobs) -> None:
    batch = scene.filled_batch(batching, 1)
    with pytest.raises(errors.InvalidTransition, match="dead"):
        batching.admin.retry_batch(batch.id)
    for command in (batching.admin.retry_batch, batching.admin.cancel_batch, batching.admin.seal_batch):
        with pytest.raises(errors.UnknownBatch):
            command("batch_unknown")
    assert batching.admin.seal_batch(batch.id).status == "running"
    assert list(batching.admin.audit()) == []


def test_an_operator_seals_what_was_left_open(batching: Jobs) -> None:
    batch = batching.open_batch("stream", on_complete=("report",))
    assert scene.view_of(batching, batch).actions == ("seal", "cancel")
    assert batching.admin.seal_batch(batch.id, actor="ada").status == "succeeded"
    assert scene.called(batching, batch) == ["complete"]


def test_lists_are_pages(batching: Jobs) -> None:
    made = [scene.filled_batch(batching, number) for number in (0, 1, 2)]
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
    batch = scene.filled_batch(batching, 5)
    for claim in scene.claims(batching)[:3]:
        batching.complete(claim)
        clock.advance(10)
    seen = scene.view_of(batching, batch)
    assert seen.rate == pytest.approx(2 / 30)
    assert seen.eta == clock.now() + timedelta(seconds=30)


# Faults


def test_rows_that_do_not_agree_with_their_jobs_are_mended(batching: Jobs) -> None:
    batch = scene.filled_batch(batching, 2)
    first, second = scene.claims(batching)
    batching.complete(first)
    batching.storage.inspection.set_job(second.id, followups=None)
    batching.admin.cancel(second.id)
    assert scene.numbers(batching, batch) == ("running", 2, 1, 1, 0, 0)
    batching.admin.purge()
    batching.admin.advance_batches()
    assert scene.numbers(batching, batch) == ("failed", 2, 0, 1, 0, 1)


def test_of_many_that_end_the_last_jobs_at_once_one_ends_the_batch(live_jobs: Jobs) -> None:
    live_jobs.declare("work", retry=NO_RETRY)
    live_jobs.declare("report")
    workers = 4
    with ThreadPoolExecutor(workers) as pool:
        for _ in range(5):
            batch = scene.filled_batch(live_jobs, workers)
            claims = scene.claims(live_jobs)
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
            assert scene.numbers(live_jobs, batch) == ("failed", 4, 0, 2, 1, 1)
            assert scene.called(live_jobs, batch) == ["complete", "failure"]


def test_a_seal_and_the_end_of_the_last_job_at_once(live_jobs: Jobs) -> None:
    live_jobs.declare("work", retry=NO_RETRY)
    live_jobs.declare("report")
    with ThreadPoolExecutor(2) as pool:
        for _ in range(5):
            batch = live_jobs.open_batch("stream", **scene.CALLBACKS)
            batch.enqueue("work")
            [claim] = scene.claims(live_jobs)
            ready = threading.Barrier(2)

            def seal(batch: Batch = batch, ready: threading.Barrier = ready) -> None:
                ready.wait(10)
                batch.seal()

            def settle(claim: Claim = claim, ready: threading.Barrier = ready) -> None:
                ready.wait(10)
                assert live_jobs.complete(claim)

            for done in [pool.submit(seal), pool.submit(settle)]:
                done.result()
            assert scene.numbers(live_jobs, batch) == ("succeeded", 1, 0, 1, 0, 0)
            assert scene.called(live_jobs, batch) == ["complete", "success"]
