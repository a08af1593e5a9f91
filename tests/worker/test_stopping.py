"""How a worker stops: what runs may finish, what does not is given back at no cost."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import func, select

from sloppyjobs import Jobs, Retry, Worker
from sloppyjobs.domain.states import Status

Start = Callable[..., Worker]
Eventually = Callable[..., Any]


def worker_row(jobs: Jobs, worker: Worker) -> Any:
    table = jobs.storage.tables.workers
    with jobs.storage.engine.connect() as connection:
        return connection.execute(select(table).where(table.c.id == worker.id)).one()


def test_stop_waits_for_what_runs(jobs: Jobs, start: Start) -> None:
    running = threading.Event()

    @jobs.define("long")
    def long(ctx: Any, payload: Any) -> str:
        running.set()
        time.sleep(0.5)
        return "finished"

    job = jobs.enqueue("long")
    worker = start()
    assert running.wait(60)
    assert worker.stop(timeout=60) is True
    assert jobs.get(job.id).result == "finished"
    assert worker_row(jobs, worker).status == "stopped"


def test_a_worker_that_is_told_to_stop_just_as_its_last_job_ends_leaves_at_once(jobs: Jobs) -> None:
    waited_for = threading.Event()
    jobs.define("last", lambda ctx, payload: waited_for.wait(60) and None)
    worker = jobs.create_worker(poll_interval=3600, recurring=False, maintenance=False)
    loop = worker._loop

    class StopComesBeforeTheClear(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if loop.tasks:
                waited_for.set()
            return super().wait(timeout)

        def clear(self) -> None:
            # Both wake the worker, which is awake by one of them and forgets both.
            if loop.tasks.finished and not loop.draining:
                loop.drain(3600)
            super().clear()

    loop._woken = StopComesBeforeTheClear()
    worker.start()
    thread = worker._thread
    jobs.enqueue("last")
    thread.join(60)
    left = not thread.is_alive()
    worker.stop(timeout=0)
    assert left


def test_a_worker_that_is_told_to_stop_right_after_it_registered_is_shown_as_stopped(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = jobs.create_worker(recurring=False, maintenance=False)

    def told_to_stop(*_given: Any) -> None:
        worker._stop_requested(signal.SIGTERM, False)

    monkeypatch.setattr(type(worker.storage.redactions), "write", told_to_stop)
    worker.run()
    assert worker_row(jobs, worker).status == "stopped"


def test_what_does_not_finish_in_time_is_released_and_costs_no_attempt(jobs: Jobs, start: Start) -> None:
    running, reasons = threading.Event(), []

    @jobs.define("stubborn", retry=Retry(max_attempts=1))
    def stubborn(ctx: Any, payload: Any) -> str:
        if ctx.attempt > 1:
            return "second try"
        running.set()
        ctx.signal.wait(60)
        reasons.append(ctx.signal.reason)
        return "too late"

    job = jobs.enqueue("stubborn")
    worker = start()
    assert running.wait(60)
    assert worker.stop(timeout=0.1) is False
    given_back = jobs.get(job.id)
    assert (given_back.status, given_back.attempt_count, given_back.max_attempts) == (Status.QUEUED, 1, 2)
    assert given_back.error_code == "SLOPPY_E_JOBS_RELEASED"
    start()
    assert jobs.wait(job.id, 60).result == "second try"
    assert reasons == ["shutdown"]


def test_what_was_fetched_ahead_is_released_at_no_cost(jobs: Jobs, start: Start, eventually: Eventually) -> None:
    running = threading.Event()

    @jobs.define("long")
    def long(ctx: Any, payload: Any) -> None:
        running.set()
        ctx.signal.wait(60)

    several = [jobs.enqueue("long") for _ in range(5)]
    worker = start(concurrency=1, prefetch=4)
    assert running.wait(60)
    eventually(lambda: jobs.get(several[4].id).status == "processing")
    worker.stop(timeout=0)
    states = [jobs.get(job.id) for job in several]
    assert [job.status for job in states] == [Status.QUEUED] * 5
    assert [job.max_attempts - job.attempt_count for job in states] == [3] * 5


def test_jobs_fetched_ahead_are_given_back_when_their_turn_does_not_come(
    jobs: Jobs, start: Start, eventually: Eventually
) -> None:
    release = threading.Event()
    jobs.define("slow", lambda ctx, payload: release.wait(60) and None)
    worker = start(concurrency=1)
    # As after many quick jobs: it takes all of the slow ones, though it can run only one.
    worker._loop.prefetch.ran(20e-6)
    several = jobs.enqueue_many([("slow", None)] * 5)
    eventually(lambda: all(jobs.get(job.id).attempt_count == 1 for job in several))
    eventually(lambda: [jobs.get(job.id).status for job in several] == ["processing"] + ["queued"] * 4)
    release.set()
    for job in several:
        assert jobs.wait(job.id, 60).status is Status.SUCCEEDED


@pytest.mark.parametrize("executed", [1, 16, 400, 900])
def test_a_worker_that_stops_amid_a_crowd_leaves_nothing_in_its_hands(
    jobs: Jobs, start: Start, eventually: Eventually, executed: int
) -> None:
    ran: list[str] = []
    jobs.define("quick", lambda ctx, _payload: ran.append(ctx.job_id))
    jobs.enqueue_many([("quick", {}) for _ in range(2_000)])
    worker = start(concurrency=4)
    eventually(lambda: len(ran) >= executed, 60)
    worker.stop(timeout=30)
    assert not jobs.admin.list_jobs("processing").items
    table = jobs.storage.tables.jobs
    with jobs.storage.engine.connect() as connection:
        counts = dict(connection.execute(select(table.c.status, func.count()).group_by(table.c.status)).all())
    assert len(ran) == len(set(ran)) == counts["succeeded"]
    assert sum(counts.values()) == 2_000


def test_a_worker_can_be_started_again(jobs: Jobs, start: Start) -> None:
    jobs.define("quick", lambda ctx, payload: payload)
    worker = start()
    assert jobs.wait(jobs.enqueue("quick", 1).id, 60).result == 1
    assert worker.stop()
    worker.start()
    assert jobs.wait(jobs.enqueue("quick", 2).id, 60).result == 2
