"""Middleware around handlers, and what is called after an attempt has failed."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm_start

from sloppyjobs import HandlerFailed, InvalidOption, Job, Jobs, Retry, Snooze, Worker
from sloppyjobs.domain.states import Status
from sloppyjobs.testing import drain

Start = Callable[..., Worker]
Eventually = Callable[..., Any]

ONCE = Retry(max_attempts=1)
TWICE = Retry(max_attempts=2, backoff="fixed", initial=30, jitter=False)


def test_middleware_surrounds_functions_in_the_order_of_registration(jobs: Jobs, start: Start) -> None:
    seen: list[str] = []

    def layer(name: str) -> None:
        @jobs.middleware
        def surround(ctx: Any, payload: Any, call_next: Any) -> Any:
            seen.append(f"{name} in {ctx.name}")
            try:
                return call_next()
            finally:
                seen.append(f"{name} out")

    layer("outer")
    layer("inner")
    jobs.define("say", lambda ctx, payload: seen.append("handler") or "said")
    job = jobs.enqueue("say")
    start()
    assert jobs.wait(job.id, 60).result == "said"
    assert seen == ["outer in say", "inner in say", "handler", "inner out", "outer out"]


def test_middleware_may_change_payload_and_answer_or_not_go_on(jobs: Jobs) -> None:
    @jobs.middleware
    def surround(ctx: Any, payload: Any, call_next: Any) -> Any:
        if payload == "stop":
            return "stopped"
        return call_next(ctx, payload * 2) + 1

    jobs.define("say", lambda ctx, payload: payload)
    ran, stopped = jobs.enqueue("say", 20), jobs.enqueue("say", "stop")
    assert drain(jobs) == 2
    assert (jobs.get(ran.id).result, jobs.get(stopped.id).result) == (41, "stopped")


def test_coroutines_have_middleware_of_their_own_kind(jobs: Jobs, start: Start) -> None:
    seen: list[str] = []

    @jobs.middleware
    async def for_coroutines(ctx: Any, payload: Any, call_next: Any) -> Any:
        seen.append("coroutine")
        return await call_next(ctx, payload) + 1

    @jobs.middleware
    def for_functions(ctx: Any, payload: Any, call_next: Any) -> Any:
        seen.append("function")
        return call_next() + 10

    @jobs.define("later")
    async def later(ctx: Any, payload: Any) -> int:
        return 1

    jobs.define("now", lambda ctx, payload: 1)
    later_job = later.enqueue()
    start()
    assert jobs.wait(later_job.id, 60).result == 2
    assert jobs.wait(jobs.enqueue("now").id, 60).result == 11
    assert seen == ["coroutine", "function"]


def test_middleware_that_is_registered_while_a_worker_runs_surrounds_the_jobs_to_come(jobs: Jobs, start: Start) -> None:
    jobs.define("say", lambda ctx, payload: "plain")
    start()
    assert jobs.wait(jobs.enqueue("say").id, 60).result == "plain"
    jobs.middleware(lambda ctx, payload, call_next: f"not so {call_next()}")
    assert jobs.wait(jobs.enqueue("say").id, 60).result == "not so plain"


def test_what_middleware_raises_is_the_failure_of_the_attempt(jobs: Jobs) -> None:
    @jobs.middleware
    def refuse(ctx: Any, payload: Any, call_next: Any) -> Any:
        raise PermissionError("not today")

    jobs.define("say", lambda ctx, payload: None, retry=ONCE)
    job = jobs.enqueue("say")
    drain(jobs)
    assert (jobs.get(job.id).status, jobs.get(job.id).error_type) == (Status.DEAD, "PermissionError")


def test_on_dead_is_told_of_the_job_as_the_settlement_left_it(jobs: Jobs, start: Start, eventually: Eventually) -> None:
    told: list[Job] = []
    threads: list[str] = []

    @jobs.on_dead
    def alert(job: Job) -> None:
        told.append(job)
        threads.append(threading.current_thread().name)

    @jobs.define("fail", retry=ONCE)
    def fail(ctx: Any, payload: Any) -> None:
        raise ValueError("no such customer")

    job = jobs.enqueue("fail", correlation_id="order-7")
    start()
    (dead,) = eventually(lambda: told)
    now = jobs.wait(job.id, 60)
    assert (dead.id, dead.status, dead.correlation_id) == (job.id, Status.DEAD, "order-7")
    assert (dead.error_type, dead.error_message, dead.attempt_count) == ("ValueError", "no such customer", 1)
    assert (dead.error_code, dead.error_frame, dead.locked_by) == (now.error_code, now.error_frame, None)
    assert threads == ["sloppyjobs-hooks"]


def test_on_retry_is_told_when_the_job_will_be_tried_again_and_not_of_a_snooze(jobs: Jobs) -> None:
    retried: list[Job] = []
    dead: list[Job] = []
    jobs.on_retry(retried.append)
    jobs.on_dead(dead.append)

    @jobs.define("fail", retry=TWICE)
    def fail(ctx: Any, payload: Any) -> None:
        raise ValueError("again")

    jobs.define("doze", lambda ctx, payload: Snooze(60))
    job, _ = jobs.enqueue("fail"), jobs.enqueue("doze")
    assert drain(jobs) == 2
    (told,) = retried
    stored = jobs.get(job.id)
    assert (told.id, told.status, told.finished_at) == (job.id, Status.RETRYING, None)
    assert abs((told.run_at - stored.run_at).total_seconds()) < 5
    assert dead == []


def test_a_hook_that_fails_or_sleeps_harms_neither_jobs_nor_other_hooks(
    jobs: Jobs, start: Start, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    slept, told = threading.Event(), []

    @jobs.on_dead
    def broken(job: Job) -> None:
        raise RuntimeError("the alarm is broken")

    @jobs.on_dead
    def slow(job: Job) -> None:
        slept.wait(60)

    @jobs.on_dead
    async def of_coroutines(job: Job) -> None:
        told.append(job.id)

    def fail(ctx: Any, payload: Any) -> None:
        raise ValueError

    jobs.define("fail", fail, retry=ONCE)
    jobs.define("say", lambda ctx, payload: "said")
    failing = jobs.enqueue("fail")
    start()
    assert jobs.wait(failing.id, 60).status is Status.DEAD
    assert jobs.wait(jobs.enqueue("say").id, 60).result == "said", "jobs go on while a hook sleeps"
    slept.set()
    eventually(lambda: told == [failing.id])
    assert "the alarm is broken" in caplog.text


def test_a_settlement_that_was_stale_calls_no_hook(jobs: Jobs) -> None:
    told: list[Job] = []
    jobs.on_dead(told.append)

    @jobs.define("fail", retry=ONCE)
    def fail(ctx: Any, payload: Any) -> None:
        jobs.admin.cancel(ctx.job_id)
        raise ValueError

    jobs.enqueue("fail")
    assert drain(jobs) == 1
    assert told == []


def break_payloads(jobs: Jobs) -> None:
    with jobs.storage.engine.begin() as connection:
        connection.execute(jobs.storage.tables.jobs.update().values(payload='{"n": "one"}'))


def be_killed(ctx: Any, payload: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def spin(ctx: Any, payload: Any) -> None:
    while True:
        pass


def leave(ctx: Any, payload: Any) -> None:
    os._exit(7)


@pytest.mark.slow
@pytest.mark.parametrize(("handler", "how"), [(be_killed, "was killed by SIGKILL"), (leave, "exited with code 7")])
def test_a_process_that_ended_before_its_handler_says_how(jobs: Jobs, start: Start, handler: Any, how: str) -> None:
    jobs.define("end", handler, isolation="process", retry=Retry(max_attempts=1))
    job = jobs.enqueue("end")
    start(concurrency=1)
    dead = jobs.wait(job.id, timeout=60)
    assert f"the process of the handler {how}" in (dead.error_message or "")
    assert (dead.error_code, dead.error_type) == (HandlerFailed.code, "sloppyjobs.errors.HandlerFailed")


@pytest.mark.slow
def test_every_kind_of_death_is_told_once(jobs: Jobs, start: Start, eventually: Eventually) -> None:
    told: list[tuple[str, str | None]] = []
    jobs.on_dead(lambda job: told.append((job.name, job.error_code)))
    going = threading.Event()
    jobs.define("typed", lambda ctx, payload: None, input=dict[str, int])
    jobs.define("typed-in-process", spin, input=dict[str, int], isolation="process")
    for name in ("typed", "typed-in-process"):
        jobs.enqueue(name, {"n": 1})
    break_payloads(jobs)
    jobs.define("slow", lambda ctx, payload: going.wait(30) and None, timeout=0.2, retry=ONCE)
    jobs.define("killed", be_killed, isolation="process", retry=ONCE)
    jobs.define("spin", spin, isolation="process", timeout=0.5, retry=ONCE)
    for name in ("slow", "killed", "spin"):
        jobs.enqueue(name)
    worker = start(concurrency=2)
    eventually(lambda: len(told) >= 5, 120)
    going.set()
    worker.stop()
    assert sorted(told) == [
        ("killed", "SLOPPY_E_JOBS_HANDLER_FAILED"),
        ("slow", "SLOPPY_E_JOBS_TIMEOUT"),
        ("spin", "SLOPPY_E_JOBS_TIMEOUT"),
        ("typed", "SLOPPY_E_JOBS_INVALID_PAYLOAD"),
        ("typed-in-process", "SLOPPY_E_JOBS_INVALID_PAYLOAD"),
    ]


def lose(jobs: Jobs, worker_id: str = "gone") -> None:
    """Take what is due, and let the lease run out."""
    assert jobs.claim(worker_id, lease=0.05, limit=10)
    deadline = time.monotonic() + 60
    while jobs.storage.sweep(limit=0).next_in != 0.0:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_attempts_that_lost_their_worker_are_told_and_counted_by_the_one_that_finds_them(
    jobs: Jobs, start: Start, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    dead: list[Job] = []
    retried: list[Job] = []
    jobs.on_dead(dead.append)
    jobs.on_retry(retried.append)
    jobs.declare("once", retry=ONCE)
    jobs.declare("twice", retry=TWICE)
    once = jobs.enqueue("once", correlation_id="order-7", metadata={"team": "growth"})
    twice = jobs.enqueue("twice")
    lose(jobs)
    workers = [start(metrics_port=0), start(metrics_port=0)]
    eventually(lambda: dead and retried)
    for worker in workers:
        worker.stop()
    assert [(job.id, job.status, job.correlation_id, job.metadata) for job in dead] == [
        (once.id, Status.DEAD, "order-7", {"team": "growth"})
    ]
    assert [(job.id, job.status, job.run_at) for job in retried] == [(twice.id, Status.QUEUED, twice.run_at)]
    for job in (*dead, *retried):
        assert (job.error_code, job.locked_by, job.attempt_count) == ("SLOPPY_E_JOBS_LEASE_EXPIRED", None, 1)
        assert f"job {job.id} ({job.name}) lost its worker gone in attempt 1; it is {job.status}" in caplog.text


def test_one_pass_tells_of_lost_attempts_before_it_returns(jobs: Jobs) -> None:
    told: list[str] = []
    jobs.on_dead(lambda job: told.append(job.id))
    jobs.declare("once", retry=ONCE)
    job = jobs.enqueue("once")
    lose(jobs)
    assert drain(jobs) == 0
    assert told == [job.id]


def test_workers_written_by_others_call_the_hooks_where_they_settle(jobs: Jobs) -> None:
    told: list[tuple[str, str]] = []
    jobs.on_dead(lambda job: told.append((job.id, job.status)))
    jobs.on_retry(lambda job: told.append((job.id, job.status)))
    jobs.declare("once", retry=ONCE)
    jobs.declare("twice", retry=TWICE)
    lost = jobs.enqueue("once")
    lose(jobs)
    failing = jobs.enqueue("twice")
    (claim,) = jobs.claim("w1")
    assert told == [(lost.id, "dead")]
    assert jobs.fail(claim, "no")
    assert not jobs.fail(claim, "no"), "stale"
    assert told == [(lost.id, "dead"), (failing.id, "retrying")]


def test_only_functions_can_be_hooks(jobs: Jobs) -> None:
    for register in (jobs.middleware, jobs.on_dead, jobs.on_retry):
        with pytest.raises(InvalidOption):
            register("not a function")


SCRIPT = """
import os
from sloppyjobs import Jobs

jobs = Jobs(os.environ["URL"])

@jobs.middleware
def surround(ctx, payload, call_next):
    return [os.getpid(), *call_next()]

@jobs.define("say", isolation="process")
def say(ctx, payload):
    return [os.getpid(), os.getppid()]

if __name__ == "__main__":
    jobs.create_worker(concurrency=1).run()
"""


@pytest.mark.slow
def test_middleware_surrounds_a_handler_in_its_process(jobs: Jobs, tmp_path: Path, database_url: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    jobs.declare("say")
    job = jobs.enqueue("say")
    worker = warm_start.Popen([sys.executable, str(script)], env={**os.environ, "URL": database_url})
    try:
        around, inside, parent = jobs.wait(job.id, timeout=60).result
    finally:
        worker.terminate()
        worker.wait(60)
    assert around == inside
    assert parent == worker.pid


def test_a_hook_that_exits_does_not_keep_later_hooks_from_being_called(
    jobs: Jobs, start: Start, eventually: Eventually
) -> None:
    told: list[str] = []

    @jobs.on_dead
    def leave(job: Job) -> None:
        told.append(job.id)
        raise SystemExit("bye")

    @jobs.define("fail", retry=Retry(max_attempts=1))
    def fail(ctx: Any, payload: Any) -> None:
        raise ValueError("no")

    start(concurrency=1)
    for _ in range(2):
        job = jobs.enqueue("fail")
        eventually(lambda job=job: job.id in told)
