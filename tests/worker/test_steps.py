"""Steps, sleeps and signals in every kind of runner, with a worker that runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sloppyjobs import Jobs, Retry

Start = Callable[..., Any]
Eventually = Callable[..., Any]


def note(path: str, word: str) -> str:
    """A step with an effect outside of the database."""
    with Path(path).open("a") as file:
        file.write(f"{word}\n")
    return word


def order(ctx: Any, path: str) -> Any:
    """Fails once between two steps, sleeps, and waits for a signal."""
    first = ctx.step("charge", note, path, "charge")
    if ctx.attempt == 1:
        raise ConnectionError("after the first step")
    ctx.sleep("cool-down", 0.05)
    approved = ctx.wait_for("approved", timeout=60)
    return [first, approved, ctx.step("ship", note, path, "ship")]


async def order_async(ctx: Any, path: str) -> Any:
    """The same as a coroutine."""
    first = await ctx.step("charge", note, path, "charge")
    if ctx.attempt == 1:
        raise ConnectionError("after the first step")
    await ctx.sleep("cool-down", 0.05)
    approved = await ctx.wait_for("approved", timeout=60)
    await asyncio.sleep(0)
    return [first, approved, await ctx.step("ship", note, path, "ship")]


@pytest.mark.parametrize("isolation", ["thread", "async", "process"])
def test_a_handler_goes_on_after_every_interruption(
    jobs: Jobs, start: Start, isolation: Any, tmp_path: Path, eventually: Eventually
) -> None:
    retry = Retry(max_attempts=2, backoff="none", jitter=False)
    handler = order_async if isolation == "async" else order
    jobs.define("order", handler, isolation=isolation, retry=retry)
    notes = tmp_path / "notes"
    job = jobs.enqueue("order", str(notes))
    start(concurrency=2)
    eventually(lambda: jobs.get(job.id).waiting_for == "signal")
    assert jobs.signal(job.id, "approved", {"by": "ada"})
    done = jobs.wait(job.id, timeout=60)
    assert (done.result, notes.read_text().split()) == (["charge", {"by": "ada"}, "ship"], ["charge", "ship"])
    ended = [attempt.status.value for attempt in jobs.admin.attempts(job.id)]
    assert ended == ["failed", "suspended", "suspended", "succeeded"]


def test_a_worker_wakes_a_sleeping_job_before_its_next_poll(jobs: Jobs, start: Start) -> None:
    jobs.define("nap", lambda ctx, payload: ctx.sleep("nap", 0.2))
    start(poll_interval=300)
    job = jobs.enqueue("nap")
    assert jobs.wait(job.id, timeout=60).attempt_count == 2
