"""Handlers that go on after their attempt has ended: their worker claims nothing for them, and says so."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import func, select

from sloppyjobs import Jobs, Retry, Worker
from sloppyjobs.cli import main
from sloppyjobs.cli.target import Target

sys.path.insert(0, str(Path(__file__).parents[1] / "web"))
from hosts import Client, make_app

Start = Callable[..., Worker]
Eventually = Callable[..., Any]

ONCE = Retry(max_attempts=1)


class Deaf:
    """A handler that heeds no signal, and returns when it is let go."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def __call__(self, ctx: Any, payload: Any) -> None:
        self.released.wait(60)


@pytest.fixture
def deaf() -> Iterator[Deaf]:
    made = Deaf()
    yield made
    made.released.set()


def health(worker: Worker) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"{worker.metrics_url}/healthz") as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


def attempts_of(jobs: Jobs, ids: list[str]) -> int:
    """How many attempts there were, those included that were given back."""
    table = jobs.storage.tables.attempts
    query = select(func.count()).select_from(table).where(table.c.job_id.in_(ids))
    with jobs.storage.engine.connect() as connection:
        return connection.execute(query).scalar_one()


def stick(jobs: Jobs, worker: Worker, number: int, eventually: Eventually) -> None:
    """Let so many handlers of the worker run out of their time, and go on."""
    for job in jobs.enqueue_many([("deaf", None)] * number):
        assert jobs.wait(job.id, timeout=60).error_code == "SLOPPY_E_JOBS_TIMEOUT"
    eventually(lambda: worker.info().stuck == number)


def turns(worker: Worker, number: int, eventually: Eventually) -> None:
    """Wait for so many turns of the worker's loop."""
    seen = worker._loop.turns
    eventually(lambda: worker._loop.turns >= seen + number)


def test_a_worker_without_a_free_thread_claims_nothing_until_one_comes_back(
    jobs: Jobs, start: Start, deaf: Deaf, eventually: Eventually
) -> None:
    jobs.define("deaf", deaf, timeout=0.1, retry=ONCE)
    jobs.define("quick", lambda ctx, payload: "ran")
    worker = start(concurrency=2, poll_interval=0.05)
    stick(jobs, worker, 2, eventually)
    waiting = [job.id for job in jobs.enqueue_many([("quick", None)] * 4)]
    turns(worker, 5, eventually)
    assert {jobs.get(job_id).status for job_id in waiting} == {"queued"}
    assert attempts_of(jobs, waiting) == 0
    deaf.released.set()
    assert [jobs.wait(job_id, timeout=60).result for job_id in waiting] == ["ran"] * 4
    assert attempts_of(jobs, waiting) == 4


def test_a_cancelled_handler_that_goes_on_is_not_said_to_be_over(
    jobs: Jobs, start: Start, deaf: Deaf, eventually: Eventually
) -> None:
    jobs.define("deaf", deaf)
    worker = start(concurrency=2)
    job = jobs.enqueue("deaf")
    eventually(lambda: worker.info().running == 1)
    jobs.admin.cancel(job.id)
    eventually(lambda: jobs.admin.list_workers()[0].stuck == 1)
    assert "may still be running" in jobs.admin.explain(job.id).verdict
    deaf.released.set()
    eventually(lambda: jobs.admin.explain(job.id).verdict.endswith(" It will not run again."))


def test_a_worker_with_some_free_threads_uses_those(
    jobs: Jobs, start: Start, deaf: Deaf, eventually: Eventually
) -> None:
    jobs.define("deaf", deaf, timeout=0.1, retry=ONCE)
    jobs.define("quick", lambda ctx, payload: "ran")
    worker = start(concurrency=3)
    stick(jobs, worker, 2, eventually)
    quick = [job.id for job in jobs.enqueue_many([("quick", None)] * 5)]
    assert [jobs.wait(job_id, timeout=60).result for job_id in quick] == ["ran"] * 5
    assert attempts_of(jobs, quick) == 5


def test_coroutines_run_while_all_threads_are_stuck(
    jobs: Jobs, start: Start, deaf: Deaf, eventually: Eventually
) -> None:
    async def quick(ctx: Any, payload: Any) -> str:
        return "ran"

    jobs.define("deaf", deaf, timeout=0.1, retry=ONCE)
    jobs.define("quick", quick)
    worker = start(concurrency=2)
    stick(jobs, worker, 2, eventually)
    assert jobs.wait(jobs.enqueue("quick").id, timeout=60).result == "ran"


def test_a_healthy_worker_beside_a_stuck_one_runs_everything_at_the_first_attempt(
    jobs: Jobs, start: Start, deaf: Deaf, eventually: Eventually
) -> None:
    jobs.define("deaf", deaf, timeout=0.1, retry=ONCE)
    jobs.define("quick", lambda ctx, payload: "ran")
    stuck = start(concurrency=2, poll_interval=0.05)
    stick(jobs, stuck, 2, eventually)
    start(concurrency=2)
    quick = [job.id for job in jobs.enqueue_many([("quick", None)] * 30)]
    for job_id in quick:
        jobs.wait(job_id, timeout=60)
    assert attempts_of(jobs, quick) == 30


def test_what_was_held_ready_behind_stuck_threads_is_given_back(
    jobs: Jobs, start: Start, deaf: Deaf, eventually: Eventually
) -> None:
    jobs.define("deaf", deaf, timeout=0.1, retry=ONCE)
    jobs.define("quick", lambda ctx, payload: "ran")
    first = jobs.enqueue_many([("deaf", None), ("quick", None), ("quick", None)])
    worker = start(concurrency=1, prefetch=2, poll_interval=0.05)
    eventually(lambda: worker.info().stuck == 1)
    eventually(lambda: [jobs.get(job.id).status for job in first[1:]] == ["queued", "queued"])
    turns(worker, 5, eventually)
    assert attempts_of(jobs, [job.id for job in first[1:]]) <= 2
    deaf.released.set()
    assert [jobs.wait(job.id, timeout=60).result for job in first[1:]] == ["ran", "ran"]


def test_the_health_check_fails_while_no_thread_is_free(
    jobs: Jobs, start: Start, deaf: Deaf, eventually: Eventually
) -> None:
    jobs.define("deaf", deaf, timeout=0.1, retry=ONCE)
    worker = start(concurrency=2, metrics_port=0)
    assert health(worker)[1]["status"] == "ok"
    stick(jobs, worker, 2, eventually)
    code, said = health(worker)
    assert (code, said["status"], said["stuck"]) == (503, "stuck", 2)
    assert "no thread free" in said["detail"]
    with urllib.request.urlopen(f"{worker.metrics_url}/metrics") as answer:
        assert b"sloppyjobs_worker_stuck 2.0" in answer.read()
    deaf.released.set()
    eventually(lambda: health(worker)[0] == 200)


def test_a_loop_that_a_coroutine_blocks_is_stuck_as_a_whole(
    jobs: Jobs, start: Start, deaf: Deaf, eventually: Eventually
) -> None:
    async def blocking(ctx: Any, payload: Any) -> None:
        deaf.released.wait(60)

    async def quick(ctx: Any, payload: Any) -> str:
        await asyncio.sleep(0)
        return "ran"

    jobs.define("deaf", blocking, timeout=0.1, retry=ONCE)
    jobs.define("quick", quick)
    worker = start(concurrency=4, metrics_port=0, poll_interval=0.05)
    stick(jobs, worker, 1, eventually)
    eventually(lambda: health(worker)[1]["status"] == "stuck")
    waiting = jobs.enqueue("quick")
    turns(worker, 5, eventually)
    assert attempts_of(jobs, [waiting.id]) == 0
    deaf.released.set()
    assert jobs.wait(waiting.id, timeout=60).result == "ran"


def test_the_admin_the_pages_the_command_line_and_the_doctor_name_a_stuck_worker(
    jobs: Jobs, start: Start, deaf: Deaf, eventually: Eventually
) -> None:
    jobs.define("deaf", deaf, timeout=0.1, retry=ONCE)
    worker = start(concurrency=2)
    stick(jobs, worker, 2, eventually)
    eventually(lambda: jobs.admin.list_workers()[0].stuck == 2)
    [shown] = jobs.admin.list_workers()
    assert (shown.liveness, shown.trouble) == ("running", "2 of 2 threads stuck")
    seen = jobs.admin.overview()
    assert ([one.id for one in seen.stuck_workers], seen.slots) == ([worker.id], 0)
    client = Client(make_app(jobs).test_client())
    assert "2 of 2 threads stuck" in client.get("/workers").text
    assert "2 of 2 threads stuck" in client.get("/").text
    listed = CliRunner().invoke(main, ["workers"], obj=Target(given=jobs), env={"COLUMNS": "200"})
    assert "2 of 2 threads stuck" in " ".join(listed.output.split())
    found = json.loads(CliRunner().invoke(main, ["doctor", "--json"], obj=Target(given=jobs)).stdout)
    [said] = [one for one in found["checks"] if one["check"] == "workers"]
    assert (said["status"], "2 of 2 threads stuck" in said["detail"], found["ok"]) == ("FAIL", True, False)
    deaf.released.set()
    eventually(lambda: jobs.admin.list_workers()[0].stuck == 0)


def test_a_handler_that_heeds_its_signal_is_not_stuck(jobs: Jobs, start: Start, eventually: Eventually) -> None:
    jobs.define("polite", lambda ctx, payload: ctx.signal.wait(60), timeout=0.1, retry=ONCE)
    worker = start(concurrency=1)
    for _ in range(3):
        assert jobs.wait(jobs.enqueue("polite").id, timeout=60).error_code == "SLOPPY_E_JOBS_TIMEOUT"
    eventually(lambda: not worker._loop.tasks.stuck)


@pytest.mark.parametrize("stuck", [False, True], ids=["busy", "stuck"])
def test_a_worker_that_has_room_for_nothing_waits_as_long_as_one_that_finds_nothing(
    jobs: Jobs, start: Start, eventually: Eventually, deaf: Deaf, monkeypatch: pytest.MonkeyPatch, stuck: bool
) -> None:
    jobs.define("deaf", deaf, retry=ONCE, timeout=0.1 if stuck else None)
    sweeps: list[None] = []
    sweep = jobs.storage.sweep
    monkeypatch.setattr(jobs.storage, "sweep", lambda: (sweeps.append(None), sweep())[1])
    worker = start(concurrency=1, poll_interval=0.05)
    if stuck:
        stick(jobs, worker, 1, eventually)
    jobs.enqueue_many([("deaf", None)] * 3)
    eventually(lambda: worker._loop._next_poll < time.monotonic() and len(sweeps) > 5)
    turned, swept = worker._loop.turns, len(sweeps)
    eventually(lambda: len(sweeps) >= swept + 5)
    # There is a sweep for each wait, or, when it comes a moment too early, for every second one.
    assert worker._loop.turns - turned <= 3 * (len(sweeps) - swept)
