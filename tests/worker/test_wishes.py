"""What operators want of a worker: that it takes no new jobs, takes them again, or stops."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from sloppyjobs import Jobs, Retry, Worker

Start = Callable[..., Worker]
Eventually = Callable[..., Any]


def liveness(jobs: Jobs, worker: Worker) -> str:
    return jobs.admin.get_worker(worker.id).liveness


def test_a_quiet_worker_finishes_what_runs_and_takes_nothing_until_it_is_resumed(
    jobs: Jobs, start: Start, eventually: Eventually
) -> None:
    running, may_end = threading.Event(), threading.Event()

    @jobs.define("long")
    def long(ctx: Any, payload: Any) -> str:
        running.set()
        may_end.wait(60)
        return "finished"

    first = jobs.enqueue("long")
    worker = start()
    assert running.wait(60)
    jobs.admin.quiet_worker(worker.id, actor="ada")
    eventually(lambda: liveness(jobs, worker) == "quiet")
    second = jobs.enqueue("long")
    lease = jobs.get(first.id).locked_until
    eventually(lambda: jobs.get(first.id).locked_until > lease)
    may_end.set()
    assert jobs.wait(first.id, 60).result == "finished"
    turns = worker._loop.turns
    eventually(lambda: worker._loop.turns > turns + 2)
    assert jobs.get(second.id).status == "queued"
    jobs.admin.resume_worker(worker.id, actor="ada")
    assert jobs.wait(second.id, 60).result == "finished"
    eventually(lambda: liveness(jobs, worker) == "running")
    eventually(lambda: jobs.admin.get_worker(worker.id).done == 2)


def test_a_quiet_worker_gives_back_what_it_has_fetched_ahead(jobs: Jobs, start: Start, eventually: Eventually) -> None:
    running = threading.Event()

    @jobs.define("long")
    def long(ctx: Any, payload: Any) -> None:
        running.set()
        ctx.signal.wait(60)

    several = [jobs.enqueue("long").id for _ in range(4)]
    worker = start(concurrency=1, prefetch=3)
    assert running.wait(60)
    eventually(lambda: jobs.get(several[3]).status == "processing")
    jobs.admin.quiet_worker(worker.id)
    eventually(lambda: [jobs.get(id).status for id in several] == ["processing", "queued", "queued", "queued"])


def test_a_quiet_worker_still_queues_what_becomes_due(jobs: Jobs, start: Start, eventually: Eventually) -> None:
    jobs.define("note", lambda ctx, payload: None)
    worker = start()
    eventually(lambda: len(jobs.admin.list_workers()))
    jobs.admin.quiet_worker(worker.id)
    eventually(lambda: liveness(jobs, worker) == "quiet")
    later = jobs.enqueue("note", delay=0.3)
    eventually(lambda: jobs.get(later.id).status == "queued")


def test_a_worker_that_an_operator_stops_finishes_what_runs_and_leaves(
    jobs: Jobs, start: Start, eventually: Eventually
) -> None:
    running, may_end = threading.Event(), threading.Event()

    @jobs.define("long")
    def long(ctx: Any, payload: Any) -> str:
        running.set()
        may_end.wait(60)
        return "finished"

    job = jobs.enqueue("long")
    worker = start()
    assert running.wait(60)
    jobs.admin.stop_worker(worker.id, actor="ada", reason="new host")
    eventually(lambda: liveness(jobs, worker) == "draining")
    may_end.set()
    assert jobs.wait(job.id, 60).result == "finished"
    eventually(lambda: liveness(jobs, worker) == "stopped")
    assert worker._loop.left_for_operator


def test_a_worker_counts_what_it_has_done(jobs: Jobs, start: Start, eventually: Eventually) -> None:
    @jobs.define("halve", retry=Retry(max_attempts=1))
    def halve(ctx: Any, payload: int) -> None:
        if payload % 2:
            raise ValueError("odd")

    jobs.enqueue_many([("halve", number) for number in range(5)])
    worker = start()

    def told() -> tuple[int | None, int | None]:
        shown = jobs.admin.get_worker(worker.id)
        return shown.done, shown.failed

    eventually(lambda: len(jobs.admin.list_workers()))
    eventually(lambda: told() == (3, 2))
    memory = jobs.admin.get_worker(worker.id).memory
    assert memory is None or memory > 1_000_000
