"""Payloads that are patched: merged without being shown, whole or not at all, and never under a running handler."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Barrier, Thread
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.retry import Retry
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock

SECRET = "hunter2-in-a-patch"  # noqa: S105


@dataclass
class Purchase:
    """A payload with a schema."""

    order: int
    amount: int = 0
    note: str | None = None


def _payload(jobs: Jobs, job_id: str) -> Any:
    [claim] = [claim for claim in jobs.claim("w", limit=10, queues=("*",)) if claim.id == job_id]
    return claim.payload


def _keys(jobs: Jobs, job_id: str) -> list[Any]:
    return [entry.detail["keys"] for entry in jobs.admin.audit(target=job_id, action="patch_payload")]


def test_a_payload_is_merged_and_the_trail_has_the_keys_alone(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("work")
    job = jobs.enqueue("work", {"a": 1, "b": {"c": 2, "d": [1, 2]}, "gone": True, "kept": "x"})
    clock.advance(5)
    patch = {"a": 2, "b": {"d": [3], "token": SECRET}, "gone": None, "e/f": 1}
    done = jobs.admin.patch_payload(job.id, patch, actor="ada", reason="typo")
    assert (done.id, done.status, done.updated_at) == (job.id, "queued", job.updated_at), "no event, no update"
    [entry] = jobs.admin.audit(target=job.id)
    assert (entry.action, entry.actor, entry.reason) == ("patch_payload", "ada", "typo")
    assert entry.detail == {"keys": ["/a", "/b/d", "/b/token", "/gone", "/e~1f"]}
    assert SECRET not in repr(entry) + repr(done)
    assert _payload(jobs, job.id) == {"a": 2, "b": {"c": 2, "d": [3], "token": SECRET}, "kept": "x", "e/f": 1}
    assert [event.event_type for event in jobs.admin.events(job.id)] == ["created", "claimed"]


def test_a_patch_that_changes_nothing_writes_nothing(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("work")
    job = jobs.enqueue("work", {"a": 1})
    clock.advance(5)
    assert jobs.admin.patch_payload(job.id, {"a": 1, "b": None}).updated_at == job.updated_at
    assert jobs.admin.audit(target=job.id).items == ()
    jobs.admin.patch_payload(job.id, {"a": True})
    assert _keys(jobs, job.id) == [["/a"]]
    assert _payload(jobs, job.id) == {"a": True}


def test_jobs_that_wait_or_are_dead_are_patched(jobs: Jobs) -> None:
    jobs.declare("work", retry=Retry(max_attempts=1))
    dead = jobs.enqueue("work", {"a": 1})
    jobs.fail(jobs.claim("w")[0], ValueError("no"))
    parent = jobs.enqueue("work", {"a": 1}, delay=60)
    paused = jobs.enqueue("work", {"a": 1})
    jobs.admin.pause(paused.id)
    waiting = jobs.enqueue("work", {"a": 1}, depends_on=[parent])
    for job, status in ((dead, "dead"), (parent, "scheduled"), (paused, "paused"), (waiting, "waiting")):
        assert jobs.admin.patch_payload(job.id, {"a": 2}).status == status
    jobs.admin.retry(dead.id)
    assert _payload(jobs, dead.id) == {"a": 2}


def test_a_job_that_runs_or_has_ended_is_refused(jobs: Jobs) -> None:
    jobs.declare("work")
    running = jobs.enqueue("work", {"a": 1})
    [claim] = jobs.claim("w")
    with pytest.raises(errors.InvalidTransition, match="runs"):
        jobs.admin.patch_payload(running.id, {"a": 2})
    jobs.complete(claim)
    cancelled = jobs.enqueue("work", {"a": 1})
    jobs.admin.cancel(cancelled.id)
    for job_id in (running.id, cancelled.id):
        with pytest.raises(errors.InvalidTransition):
            jobs.admin.patch_payload(job_id, {"a": 2})
    with pytest.raises(errors.UnknownJob):
        jobs.admin.patch_payload("job_none", {"a": 2})
    assert claim.payload == {"a": 1}
    assert jobs.admin.audit(action="patch_payload").items == ()


@pytest.mark.parametrize(
    ("patch", "error"),
    [
        ([1], errors.InvalidOption),
        ("{}", errors.InvalidOption),
        (None, errors.InvalidOption),
        ({}, errors.InvalidOption),
        ({"a": float("nan")}, errors.InvalidPayload),
        ({"a": "\0"}, errors.InvalidPayload),
        ({"a": "\ud800"}, errors.InvalidPayload),
        ({"a": object()}, errors.InvalidPayload),
        ({1: 2}, errors.InvalidPayload),
        ({"a": "x" * 2_000}, errors.InvalidPayload),
    ],
)
def test_a_patch_is_refused_as_an_enqueue_would_be(jobs: Jobs, patch: Any, error: type[Exception]) -> None:
    small = Jobs(jobs.storage, payload_limit=1_000)
    small.declare("work")
    job = small.enqueue("work", {"a": 1})
    with pytest.raises(error):
        small.admin.patch_payload(job.id, patch)
    assert _payload(jobs, job.id) == {"a": 1}
    assert small.admin.audit(target=job.id).items == ()


def test_a_result_that_is_too_large_as_a_whole_is_refused(jobs: Jobs) -> None:
    small = Jobs(jobs.storage, payload_limit=100)
    small.declare("work")
    job = small.enqueue("work", {"a": "x" * 60})
    with pytest.raises(errors.InvalidPayload, match="too large"):
        small.admin.patch_payload(job.id, {"b": "y" * 60})


def test_a_payload_that_is_no_object_is_left_alone(jobs: Jobs) -> None:
    jobs.declare("work")
    job = jobs.enqueue("work", [1, 2])
    with pytest.raises(errors.InvalidPayload, match="no JSON object"):
        jobs.admin.patch_payload(job.id, {"a": 1})
    assert _payload(jobs, job.id) == [1, 2]


def test_the_schema_is_asked_where_it_is_known(jobs: Jobs) -> None:
    jobs.declare("work", input=Purchase)
    job = jobs.enqueue("work", {"order": 1, "note": SECRET})
    for patch in ({"order": None}, {"order": "one"}, {"amount": 1.5}):
        with pytest.raises(errors.InvalidPayload) as refused:
            jobs.admin.patch_payload(job.id, patch)
        assert SECRET not in str(refused.value)
    jobs.admin.patch_payload(job.id, {"order": 2, "amount": 3})
    stranger = Jobs(jobs.storage)
    stranger.admin.patch_payload(job.id, {"amount": 4})
    assert _payload(jobs, job.id) == {"order": 2, "amount": 4, "note": SECRET}


def test_an_older_version_is_checked_as_its_upcast(jobs: Jobs) -> None:
    old = Jobs(jobs.storage)
    old.declare("work", version=1)
    job = old.enqueue("work", {"number": 1})
    jobs.declare("work", input=Purchase, version=2)
    jobs.upcast("work", 1)(lambda value: {"order": value["number"]})
    with pytest.raises(errors.InvalidPayload):
        jobs.admin.patch_payload(job.id, {"number": "one"})
    with pytest.raises(errors.InvalidPayload, match="cannot be upcast"):
        jobs.admin.patch_payload(job.id, {"number": None})
    assert jobs.admin.patch_payload(job.id, {"number": 2}).payload_version in (None, 1)
    assert _payload(old, job.id) == {"number": 2}


def test_patches_at_once_are_all_there(jobs: Jobs) -> None:
    jobs.declare("work")
    job = jobs.enqueue("work", {})
    barrier = Barrier(6)

    def patch(number: int) -> None:
        barrier.wait()
        jobs.admin.patch_payload(job.id, {f"k{number}": number})

    threads = [Thread(target=patch, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(tuple, _keys(jobs, job.id))) == [(f"/k{number}",) for number in range(6)]
    assert _payload(jobs, job.id) == {f"k{number}": number for number in range(6)}


def test_a_patch_and_a_start_at_once_agree(jobs: Jobs) -> None:
    jobs.declare("work")
    made = jobs.enqueue_many([("work", {"a": 1})] * 12)
    barrier, claimed, refused = Barrier(2), list[Any](), set[str]()

    def claim() -> None:
        barrier.wait()
        while len(claimed) < len(made):
            claimed.extend(jobs.claim("w", limit=2))

    thread = Thread(target=claim)
    thread.start()
    barrier.wait()
    for job in made:
        try:
            jobs.admin.patch_payload(job.id, {"a": 2})
        except errors.InvalidTransition:
            refused.add(job.id)
    thread.join()
    seen = {one.id: one.payload["a"] for one in claimed}
    assert seen == {job.id: 1 if job.id in refused else 2 for job in made}
