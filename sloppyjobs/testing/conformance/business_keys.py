"""Business keys: at most one live job for each, however it ends; and jobs that take the place of others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.retry import NO_RETRY, Retry
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.records import count, told_apart, transitions

KEY = "account:42"


def _live(jobs: Jobs, key: str = KEY) -> list[Job]:
    """The jobs with a key that have not ended."""
    statuses = ("scheduled", "queued", "processing", "retrying", "waiting", "paused")
    return [jobs.get(row.id) for row in jobs.admin.list_jobs(statuses, business_key=key)]


def _claimed(jobs: Jobs) -> object:
    [claim] = jobs.claim("worker-1")
    return claim


def _fail(jobs: Jobs) -> None:
    [claim] = jobs.claim("worker-1")
    assert jobs.fail(claim, ValueError("no"))


def test_a_live_job_keeps_others_from_its_key(jobs: Jobs) -> None:
    jobs.declare("sync")
    first = jobs.enqueue("sync", {"n": 1}, business_key=KEY)
    again = jobs.enqueue("sync", {"n": 2}, business_key=KEY, priority=5)
    assert (first.existing, again.existing, again.id, again.priority) == (False, True, first.id, 0)
    assert jobs.get(first.id).business_key == KEY
    assert (count(jobs), transitions(jobs, first.id)) == (1, ["created:queued"])


def test_business_keys_are_told_apart_exactly(jobs: Jobs) -> None:
    jobs.declare("sync")
    keys = ["order", "Order", "order ", " order", "órder", "o\u0301rder", "🎉", "🎊", "x" * 254, "x" * 255]
    keys = told_apart(jobs, keys)
    assert len({jobs.enqueue("sync", business_key=key).id for key in keys}) == len(keys)


def test_business_keys_that_differ_in_spaces_at_the_end_are_two_or_one(jobs: Jobs) -> None:
    jobs.declare("sync")
    first = jobs.enqueue("sync", business_key="order ")
    second = jobs.enqueue("sync", business_key="order")
    kept = len(told_apart(jobs, ["order", "order "]))
    assert len({first.id, second.id}) == count(jobs) == kept
    third = jobs.enqueue("sync", business_key="order  ", on_conflict="replace")
    assert third.supersedes == (None if kept == 2 else first.id)
    fourth, fifth = jobs.enqueue_many([("sync", 1, {"business_key": key}) for key in ("other", "other ")])
    assert (fourth.id == fifth.id) is (kept == 1)


def test_a_taken_business_key_can_be_an_error(jobs: Jobs) -> None:
    jobs.declare("sync")
    first = jobs.enqueue("sync", business_key=KEY)
    with pytest.raises(errors.KeyConflict) as refused:
        jobs.enqueue("sync", business_key=KEY, on_conflict="reject")
    assert (refused.value.job_id, refused.value.code) == (first.id, "SLOPPY_E_JOBS_KEY_CONFLICT")
    assert first.id in str(refused.value)
    with pytest.raises(errors.KeyConflict):
        jobs.enqueue_many([("sync", 1), ("sync", 2, {"business_key": KEY, "on_conflict": "reject"})])
    assert count(jobs) == 1


def test_a_job_takes_the_place_of_the_one_with_its_key(jobs: Jobs) -> None:
    jobs.declare("sync")
    old = jobs.enqueue("sync", {"n": 1}, business_key=KEY, delay=60)
    new = jobs.enqueue("sync", {"n": 2}, business_key=KEY, on_conflict="replace")
    assert (new.existing, new.supersedes, new.status) == (False, old.id, "queued")
    gone = jobs.get(old.id)
    assert (gone.status, gone.superseded_by) == ("cancelled", new.id)
    assert transitions(jobs, old.id) == ["created:scheduled", "superseded:cancelled"]
    assert jobs.enqueue("sync", business_key=KEY).id == new.id


def test_a_running_job_is_not_replaced(jobs: Jobs) -> None:
    jobs.declare("sync")
    running = jobs.enqueue("sync", business_key=KEY)
    _claimed(jobs)
    with pytest.raises(errors.KeyConflict, match=f"{running.id}.*processing"):
        jobs.enqueue("sync", business_key=KEY, on_conflict="replace")
    assert count(jobs) == 1


def _succeed(jobs: Jobs, job: Job) -> None:
    [claim] = jobs.claim("worker-1")
    assert jobs.complete(claim)


def _die(jobs: Jobs, job: Job) -> None:
    _fail(jobs)


def _cancel(jobs: Jobs, job: Job) -> None:
    jobs.admin.cancel(job.id)


def _cancel_running(jobs: Jobs, job: Job) -> None:
    _claimed(jobs)
    jobs.admin.cancel(job.id)


def _delete(jobs: Jobs, job: Job) -> None:
    jobs.admin.delete(job.id)


def _cancel_in_bulk(jobs: Jobs, job: Job) -> None:
    assert jobs.admin.bulk("cancel", {"business_key": KEY}).done == 1


ENDS: dict[str, Callable[[Jobs, Job], None]] = {
    "succeeded": _succeed,
    "dead": _die,
    "cancelled": _cancel,
    "cancelled while it ran": _cancel_running,
    "deleted": _delete,
    "cancelled in bulk": _cancel_in_bulk,
}


@pytest.mark.parametrize("end", ENDS)
def test_a_business_key_is_free_when_its_job_has_ended(jobs: Jobs, end: str) -> None:
    jobs.declare("sync", retry=NO_RETRY)
    first = jobs.enqueue("sync", business_key=KEY)
    ENDS[end](jobs, first)
    second = jobs.enqueue("sync", business_key=KEY)
    assert (second.existing, second.id != first.id) == (False, True)
    assert [job.id for job in _live(jobs)] == [second.id]


def test_a_business_key_is_free_when_the_last_lease_was_lost(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("sync", retry=NO_RETRY)
    first = jobs.enqueue("sync", business_key=KEY)
    _claimed(jobs)
    clock.advance(31)
    jobs.storage.sweep()
    assert jobs.get(first.id).status == "dead"
    assert not jobs.enqueue("sync", business_key=KEY).existing


def test_a_retry_keeps_the_business_key(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("sync")
    first = jobs.enqueue("sync", business_key=KEY)
    _fail(jobs)
    assert jobs.get(first.id).status == "retrying"
    assert jobs.enqueue("sync", business_key=KEY).id == first.id
    clock.advance(3600)
    jobs.storage.sweep()
    assert jobs.get(first.id).status == "queued"
    assert jobs.enqueue("sync", business_key=KEY).id == first.id


def test_a_pending_job_gives_its_key_up_when_it_starts(jobs: Jobs) -> None:
    jobs.declare("sync")
    first = jobs.enqueue("sync", business_key=KEY, unique="pending")
    assert jobs.enqueue("sync", business_key=KEY, unique="pending").id == first.id
    [claim] = jobs.claim("worker-1")
    second = jobs.enqueue("sync", business_key=KEY, unique="pending")
    assert not second.existing
    assert jobs.complete(claim)
    assert jobs.enqueue("sync", business_key=KEY, unique="pending").id == second.id


def test_a_window_keeps_the_key_after_the_end(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("sync")
    first = jobs.enqueue("sync", business_key=KEY, unique_for=3600)
    [claim] = jobs.claim("worker-1")
    assert jobs.complete(claim)
    clock.advance(3599)
    again = jobs.enqueue("sync", business_key=KEY)
    assert (again.id, again.existing, again.status) == (first.id, True, "succeeded")
    with pytest.raises(errors.KeyConflict, match="until"):
        jobs.enqueue("sync", business_key=KEY, on_conflict="reject")
    clock.advance(1)
    assert not jobs.enqueue("sync", business_key=KEY, unique_for=3600).existing


def test_windows_that_are_over_leave_nothing_behind(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("sync")
    jobs.enqueue("sync", business_key="over", unique_for=60)
    jobs.enqueue("sync", business_key="not over", unique_for=60 * 86_400)
    for claim in jobs.claim("worker-1", limit=2):
        assert jobs.complete(claim)
    live = jobs.enqueue("sync", business_key="live", unique_for=60)
    clock.advance(timedelta(days=2))
    now = jobs.storage.clock.now()
    assert jobs.storage.cleanup.remove_keys(now - timedelta(days=1), 100) == 1
    assert jobs.enqueue("sync", business_key="not over").existing
    assert jobs.enqueue("sync", business_key="live").id == live.id


def test_many_with_the_same_keys(jobs: Jobs) -> None:
    jobs.declare("sync")
    before = jobs.enqueue("sync", business_key="a")
    keys = ("a", "b", None, "b", None, "c")
    written = jobs.enqueue_many([("sync", {}, {} if key is None else {"business_key": key}) for key in keys])
    assert [job.existing for job in written] == [True, False, False, True, False, False]
    assert (written[0].id, written[1].id) == (before.id, written[3].id)
    assert count(jobs) == 5


def test_of_many_that_replace_each_other_the_last_stays(jobs: Jobs) -> None:
    jobs.declare("sync")
    options = {"business_key": KEY, "on_conflict": "replace"}
    first, second, third = jobs.enqueue_many([("sync", n, options) for n in range(3)])
    assert [jobs.get(job.id).status for job in (first, second, third)] == ["cancelled", "cancelled", "queued"]
    assert (jobs.get(first.id).superseded_by, jobs.get(second.id).superseded_by) == (second.id, third.id)
    assert [job.id for job in _live(jobs)] == [third.id]


def test_both_kinds_of_keys_at_once(jobs: Jobs) -> None:
    jobs.declare("sync")
    first = jobs.enqueue("sync", business_key="b1", idempotency_key="i1")
    again = jobs.enqueue("sync", business_key="b2", idempotency_key="i1")
    assert (again.id, again.existing) == (first.id, True)
    assert not jobs.enqueue("sync", business_key="b2").existing


def test_a_dead_job_whose_key_is_taken_cannot_be_retried(jobs: Jobs) -> None:
    jobs.declare("sync", retry=NO_RETRY)
    dead = jobs.enqueue("sync", business_key=KEY)
    _fail(jobs)
    live = jobs.enqueue("sync", business_key=KEY)
    with pytest.raises(errors.KeyConflict, match=live.id):
        jobs.admin.retry(dead.id)
    assert jobs.get(dead.id).status == "dead"
    done = jobs.admin.bulk("retry", {"status": "dead"})
    assert (done.done, dict(done.skipped)) == (0, {"its business key is taken": 1})
    jobs.admin.cancel(live.id)
    assert jobs.admin.retry(dead.id).status == "queued"
    assert jobs.enqueue("sync", business_key=KEY).id == dead.id


def test_of_several_dead_jobs_with_one_key_one_is_retried(jobs: Jobs) -> None:
    jobs.declare("sync", retry=NO_RETRY)
    dead = []
    for _ in range(3):
        dead.append(jobs.enqueue("sync", business_key=KEY))
        _fail(jobs)
    done = jobs.admin.bulk("retry", {"status": "dead"})
    assert (done.done, dict(done.skipped)) == (1, {"its business key is taken": 2})
    assert len(_live(jobs)) == 1


def test_one_of_many_that_come_at_once_is_written(jobs: Jobs) -> None:
    jobs.declare("sync")
    barrier = threading.Barrier(8)

    def enqueue(number: int) -> Job:
        barrier.wait(30)
        return jobs.enqueue("sync", {"n": number}, business_key=KEY)

    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(enqueue, range(8)))
    assert sorted(job.existing for job in written) == [False] + [True] * 7
    assert len({job.id for job in written}) == count(jobs) == 1


def test_bulks_with_the_same_keys_in_opposite_orders_do_not_hinder_each_other(jobs: Jobs) -> None:
    jobs.declare("sync")
    keys = [f"key {number:03}" for number in range(100)]
    barrier = threading.Barrier(4)

    def enqueue(turned: bool) -> list[Job]:
        barrier.wait(30)
        ordered = reversed(keys) if turned else keys
        return jobs.enqueue_many([("sync", 1, {"business_key": key}) for key in ordered])

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(enqueue, (True, False, True, False)))
    assert count(jobs) == len({job.id for answer in answers for job in answer}) == 100


def test_a_key_that_is_freed_while_others_ask_for_it_is_never_held_twice(jobs: Jobs) -> None:
    jobs.declare("sync")
    stop = threading.Event()

    def finish() -> None:
        while not stop.is_set():
            for claim in jobs.claim("worker-1", limit=10):
                jobs.complete(claim)

    with ThreadPoolExecutor(3) as pool:
        finishing = pool.submit(finish)
        asked = [pool.submit(lambda: [jobs.enqueue("sync", business_key=KEY) for _ in range(40)]) for _ in range(2)]
        answers = [job for future in asked for job in future.result()]
        stop.set()
        finishing.result()
    fresh = [job.id for job in answers if not job.existing]
    assert len(fresh) == len(set(fresh)) == count(jobs)
    assert len(_live(jobs)) <= 1


def test_a_job_is_replaced_by_its_id(jobs: Jobs) -> None:
    jobs.declare("sync")
    old = jobs.enqueue("sync", {"n": 1}, queue="q", priority=3, correlation_id="c", metadata={"a": 1}, delay=60)
    old = jobs.replace(old, {"n": 1}, max_attempts=7)
    new = jobs.replace(old.id, {"n": 2})
    same = (new.queue, new.priority, new.correlation_id, new.metadata, new.run_at, new.max_attempts)
    assert same == ("q", 3, "c", {"a": 1}, old.run_at, 7)
    assert jobs.replace(jobs.enqueue("sync", max_attempts=7), retry=Retry(max_attempts=2)).max_attempts == 2
    assert (new.supersedes, jobs.get(old.id).superseded_by, jobs.get(old.id).status) == (old.id, new.id, "cancelled")
    newest = jobs.replace(new, {"n": 3}, delay=0, priority=9)
    assert (newest.status, newest.priority) == ("queued", 9)
    [claim] = jobs.claim("worker-1", queues=("q",))
    assert (claim.id, claim.payload) == (newest.id, {"n": 3})


def test_a_replaced_job_hands_its_key_on(jobs: Jobs) -> None:
    jobs.declare("sync")
    old = jobs.enqueue("sync", business_key=KEY)
    new = jobs.replace(old.id, business_key=KEY, delay=30)
    assert (new.business_key, new.status) == (KEY, "scheduled")
    assert jobs.enqueue("sync", business_key=KEY).id == new.id


def test_what_runs_or_has_ended_is_not_replaced(jobs: Jobs) -> None:
    jobs.declare("sync")
    job = jobs.enqueue("sync")
    [claim] = jobs.claim("worker-1")
    with pytest.raises(errors.InvalidTransition, match="processing"):
        jobs.replace(job.id)
    assert jobs.complete(claim)
    with pytest.raises(errors.InvalidTransition, match="succeeded"):
        jobs.replace(job.id)
    with pytest.raises(errors.UnknownJob):
        jobs.replace("job_nobody")
    with pytest.raises(errors.InvalidOption, match="priorty"):
        jobs.replace(job.id, priorty=3)  # type: ignore[call-arg]
    assert count(jobs) == 1


def test_a_job_that_waits_for_others_is_replaced_only_by_one_that_says_for_which(jobs: Jobs) -> None:
    jobs.declare("say")
    parent = jobs.enqueue("say", {"n": 1}, delay=60)
    child = jobs.enqueue("say", {"n": 2}, depends_on=[parent])
    with pytest.raises(errors.InvalidOption, match="waits for other jobs") as refused:
        jobs.replace(child, {"n": 3})
    assert refused.value.field == "depends_on"
    assert jobs.get(child.id).status == "waiting"
    new = jobs.replace(child, {"n": 3}, depends_on=[parent])
    assert (new.status, jobs.get(child.id).superseded_by) == ("waiting", new.id)
    assert jobs.replace(new, {"n": 4}, depends_on=()).status == "queued"


REFUSED: dict[str, dict[str, Any]] = {
    "an empty key": {"business_key": ""},
    "a key that is too long": {"business_key": "x" * 256},
    "a key with NUL": {"business_key": "a\0b"},
    "an unknown way out": {"business_key": KEY, "on_conflict": "ignore"},
    "an unknown span": {"business_key": KEY, "unique": "forever"},
    "no window": {"business_key": KEY, "unique_for": 0},
    "a negative window": {"business_key": KEY, "unique_for": -1},
    "a way out without a key": {"on_conflict": "reject"},
    "a span without a key": {"unique": "pending"},
    "a window without a key": {"unique_for": 60},
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_makes_no_sense_of_a_business_key_is_refused(jobs: Jobs, what: str) -> None:
    jobs.declare("sync")
    for call in (
        lambda: jobs.enqueue("sync", **REFUSED[what]),
        lambda: jobs.enqueue_many([("sync", 1), ("sync", 2, REFUSED[what])]),
    ):
        with pytest.raises(errors.InvalidOption, match=next(reversed(REFUSED[what]))):
            call()
    assert count(jobs) == 0
