"""Idempotency keys: one job for each key, whoever comes first, and whatever becomes of them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from sloppyjobs import errors
from sloppyjobs.domain.model import Job
from sloppyjobs.enqueue.option_types import EnqueueOptions, Item
from sloppyjobs.jobs import Jobs
from sloppyjobs.testing.conformance.records import count, told_apart, transitions


def test_a_key_lets_one_job_in(jobs: Jobs) -> None:
    jobs.declare("charge")
    first = jobs.enqueue("charge", {"n": 1}, idempotency_key="order-1")
    second = jobs.enqueue("charge", {"n": 2}, idempotency_key="order-1", priority=9)
    assert (first.existing, second.existing) == (False, True)
    assert (second.id, second.priority, second.idempotency_key) == (first.id, 0, "order-1")
    assert count(jobs) == 1
    assert transitions(jobs, first.id) == ["created:queued"]


def test_keys_are_told_apart_exactly(jobs: Jobs) -> None:
    jobs.declare("charge")
    keys = ["order", "Order", "order ", " order", "órder", "o\u0301rder", "🎉", "🎊", "x" * 254, "x" * 255]
    keys = told_apart(jobs, keys)
    assert len({jobs.enqueue("charge", idempotency_key=key).id for key in keys}) == len(keys)


def test_keys_that_differ_in_spaces_at_the_end_are_two_or_one(jobs: Jobs) -> None:
    jobs.declare("charge")
    first = jobs.enqueue("charge", idempotency_key="order")
    second = jobs.enqueue("charge", idempotency_key="order  ")
    kept = len(told_apart(jobs, ["order", "order  "]))
    assert len({first.id, second.id}) == count(jobs) == kept
    keys = ("new ", "new", "order ")
    many = jobs.enqueue_many([("charge", {}, {"idempotency_key": key}) for key in keys])
    again = jobs.enqueue_many([("charge", {}, {"idempotency_key": key}) for key in keys])
    assert [job.id for job in again] == [job.id for job in many]
    assert len({job.id for job in (first, second, *many)}) == count(jobs) == (5 if kept == 2 else 2)


def test_the_longest_keys_are_kept_or_refused(jobs: Jobs) -> None:
    jobs.declare("charge")
    for option in ("idempotency_key", "correlation_id", "principal"):
        for character in ("é", "語", "🎉"):
            before = count(jobs)
            try:
                [job] = jobs.enqueue_many([("charge", None, cast("EnqueueOptions", {option: character * 255}))])
            except errors.InvalidOption as refused:
                assert option in str(refused)
                assert count(jobs) == before
                continue
            assert getattr(jobs.get(job.id), option) == character * 255
    assert count(jobs) >= 6


def test_a_key_belongs_to_all_names_and_queues(jobs: Jobs) -> None:
    jobs.declare("charge")
    jobs.declare("refund")
    first = jobs.enqueue("charge", idempotency_key="order-1")
    other = jobs.enqueue("refund", idempotency_key="order-1", queue="elsewhere")
    assert (other.id, other.name, other.existing) == (first.id, "charge", True)


def test_a_key_is_kept_when_its_job_has_finished(jobs: Jobs) -> None:
    jobs.define("charge", lambda ctx, payload: "paid")
    first = jobs.enqueue("charge", idempotency_key="order-1")
    jobs.create_worker().run_once()
    again = jobs.enqueue("charge", idempotency_key="order-1")
    assert (again.id, again.status, again.result, again.existing) == (first.id, "succeeded", "paid", True)


def test_the_same_key_twice_among_many_is_one_job(jobs: Jobs) -> None:
    jobs.declare("charge")
    before = jobs.enqueue("charge", idempotency_key="a")
    keys = ("a", "b", None, "b", None, "c")
    written = jobs.enqueue_many([("charge", {}, {"idempotency_key": key}) for key in keys])
    assert [job.existing for job in written] == [True, False, False, True, False, False]
    assert written[0].id == before.id
    assert written[1].id == written[3].id
    assert count(jobs) == count(jobs, "events") == 5


def test_the_same_key_far_apart_among_thousands_is_one_job(jobs: Jobs) -> None:
    jobs.declare("charge")
    written = jobs.enqueue_many([("charge", 1, {"idempotency_key": f"k{number % 1_100}"}) for number in range(2_200)])
    assert [job.existing for job in written] == [False] * 1_100 + [True] * 1_100
    assert [job.id for job in written[:1_100]] == [job.id for job in written[1_100:]]
    assert count(jobs) == 1_100


def test_many_whose_keys_are_all_taken_write_nothing(jobs: Jobs) -> None:
    jobs.declare("charge")
    items: list[Item] = [("charge", number, {"idempotency_key": f"k{number}"}) for number in range(20)]
    first, again = jobs.enqueue_many(items), jobs.enqueue_many(items)
    assert [job.id for job in again] == [job.id for job in first]
    assert all(job.existing for job in again)
    assert count(jobs) == 20


def test_a_race_of_threads_lets_one_job_in(live_jobs: Jobs) -> None:
    live_jobs.declare("charge")
    barrier = threading.Barrier(8)

    def enqueue(_: int) -> Job:
        barrier.wait()
        return live_jobs.enqueue("charge", idempotency_key="order-1")

    with ThreadPoolExecutor(8) as pool:
        raced = list(pool.map(enqueue, range(8)))
    assert len({job.id for job in raced}) == 1
    assert sorted(job.existing for job in raced) == [False] + [True] * 7
    assert count(live_jobs) == 1
