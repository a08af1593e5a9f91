"""Batches in SQL: commands in steps, and ends that were not seen."""

from __future__ import annotations

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.model import Claim
from sloppyjobs.domain.retry import NO_RETRY
from sloppyjobs.enqueue.batches import Batch
from sloppyjobs.jobs import Jobs


def claims(jobs: Jobs) -> list[Claim]:
    """Whatever is due of the members."""
    return sorted(jobs.claim("worker-1", names=["work"], limit=100), key=lambda claim: claim.id)


def filled(jobs: Jobs, number: int) -> Batch:
    """A sealed batch of so many jobs."""
    jobs.declare("work", retry=NO_RETRY)
    with jobs.batch("import") as batch:
        batch.enqueue_many([("work", {"n": place}) for place in range(number)])
    return batch


def test_large_commands_are_carried_on_by_workers(live_jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sloppyjobs.storage.batches.commands.STEP", 2)
    monkeypatch.setattr("sloppyjobs.admin.batches.STEPS", 1)
    batch = filled(live_jobs, 7)
    for claim in claims(live_jobs)[:5]:
        live_jobs.fail(claim, ValueError("no"))
    seen = live_jobs.admin.retry_batch(batch.id)
    assert (seen.dead, seen.outstanding, seen.action) == (3, 4, "retry")
    with pytest.raises(errors.BatchClosed):
        batch.enqueue("work")
    for _ in range(3):
        live_jobs.admin.advance_batches()
    seen = live_jobs.admin.get_batch(batch.id)
    assert (seen.dead, seen.outstanding, seen.action) == (0, 7, None)
    seen = live_jobs.admin.cancel_batch(batch.id)
    assert (seen.status, seen.action, seen.cancelled) == ("running", "cancel", 2)
    for _ in range(4):
        live_jobs.admin.advance_batches()
    seen = live_jobs.admin.get_batch(batch.id)
    assert (seen.status, seen.cancelled, seen.action) == ("cancelled", 7, None)


def test_an_end_that_nobody_saw_is_found(live_jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = filled(live_jobs, 1)
    [claim] = claims(live_jobs)
    monkeypatch.setattr(live_jobs.storage.batches.rows, "is_over", lambda *_: False)  # type: ignore[attr-defined]
    live_jobs.complete(claim)
    monkeypatch.undo()
    assert live_jobs.admin.get_batch(batch.id).status == "running"
    live_jobs.admin.advance_batches()
    assert live_jobs.admin.get_batch(batch.id).status == "succeeded"


def test_a_batch_in_the_transaction_of_the_caller(live_jobs: Jobs) -> None:
    live_jobs.declare("work", retry=NO_RETRY)
    live_jobs.declare("report")
    with live_jobs.storage.engine.connect() as connection:
        with live_jobs.batch("import", on_complete=("report",), connection=connection) as batch:
            batch.enqueue("work")
            batch.enqueue_many([("work", place) for place in range(3)])
        connection.rollback()
    with pytest.raises(errors.UnknownBatch):
        live_jobs.admin.get_batch(batch.id)
    assert len(live_jobs.admin.list_jobs()) == 0
    with live_jobs.storage.engine.begin() as connection:
        with live_jobs.batch("import", on_complete=("report",), connection=connection) as batch:
            batch.enqueue_many([("work", place) for place in range(3)])
        with live_jobs.batch("nothing", on_complete=("report",), connection=connection) as empty:
            pass
        # A refusal leaves the transaction as it was.
        with pytest.raises(errors.BatchClosed):
            batch.enqueue_many([("work", 1), ("work", 2)])
    assert live_jobs.admin.get_batch(batch.id).outstanding == 3
    assert live_jobs.admin.get_batch(empty.id).status == "succeeded"
    for claim in claims(live_jobs):
        assert live_jobs.complete(claim)
    assert live_jobs.admin.get_batch(batch.id).status == "succeeded"


def test_a_block_that_raises_in_the_transaction_of_the_caller(live_jobs: Jobs) -> None:
    live_jobs.declare("work", retry=NO_RETRY)
    with (
        live_jobs.storage.engine.begin() as connection,
        pytest.raises(ZeroDivisionError),
        live_jobs.batch("import", connection=connection) as batch,
    ):
        batch.enqueue("work", 1 / 0)
    live_jobs.admin.advance_batches()
    assert live_jobs.admin.get_batch(batch.id).status == "cancelled"
