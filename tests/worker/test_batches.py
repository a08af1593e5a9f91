"""Jobs that add to their own batch, in every kind of runner; and batches whose workers are killed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sloppyjobs import Jobs, UnknownBatch
from sloppyjobs.testing import history

Start = Callable[..., Any]
Eventually = Callable[..., Any]
KILLED = Path(__file__).with_name("killed_in_batch.py")
DATABASES = {"sqlite": "ready_sqlite_url", "postgres": "postgres_url", "mariadb": "new_mariadb_url"}


def split(ctx: Any, payload: Any) -> Any:
    """A member that adds others to its batch."""
    if payload:
        ctx.batch.enqueue("split", payload - 1)
        ctx.batch.enqueue_many([("split", 0), ("split", 0, {"priority": 1})])
    return ctx.batch.id


async def split_async(ctx: Any, payload: Any) -> Any:
    """The same as a coroutine."""
    if payload:
        await ctx.batch.enqueue_async("split", payload - 1)
        await ctx.batch.enqueue_many_async([("split", 0), ("split", 0, {"priority": 1})])
    return ctx.batch.id


def report(ctx: Any, payload: Any) -> Any:
    """What is called for in the end."""
    try:
        return ctx.batch.id
    except UnknownBatch:
        return payload


@pytest.mark.parametrize("isolation", ["thread", "async", "process"])
def test_a_member_adds_to_its_batch(jobs: Jobs, start: Start, eventually: Eventually, isolation: Any) -> None:
    jobs.define("split", split_async if isolation == "async" else split, isolation=isolation)
    jobs.define("report", report)
    with jobs.batch("import", on_success=("report", "done")) as batch:
        job = batch.enqueue("split", 2, correlation_id="c-1")
    [callback] = jobs.admin.get_batch(batch.id).callbacks
    start(concurrency=2)
    assert jobs.wait(job.id, timeout=60).result == batch.id
    eventually(lambda: jobs.admin.get_batch(batch.id).status == "succeeded")
    seen = jobs.admin.get_batch(batch.id)
    assert (seen.total, seen.succeeded) == (7, 7)
    assert jobs.wait(callback.job_id, timeout=60).result == "done"
    assert {one.correlation_id for one in jobs.admin.list_jobs(batch=batch.id)} == {"c-1"}


def test_batches_from_coroutines(jobs: Jobs) -> None:
    jobs.define("split", split)

    async def fill() -> tuple[str, str]:
        async with jobs.batch("import") as batch:
            await batch.enqueue_async("split", 0)
            await batch.enqueue_many_async([("split", 0)])
        opened = await jobs.open_batch_async("stream")
        await opened.enqueue_async("split", 0)
        await opened.seal_async()
        return batch.id, opened.id

    filled, streamed = asyncio.run(fill())
    assert [jobs.admin.get_batch(one).total for one in (filled, streamed)] == [2, 1]
    assert jobs.admin.get_batch(streamed).status == "running"


class TestKilledWorkers:
    """On every kind of database."""

    @pytest.fixture(params=DATABASES)
    def database_url(self, request: pytest.FixtureRequest) -> str:
        url: str = request.getfixturevalue(DATABASES[request.param])
        return url

    @pytest.mark.slow
    @pytest.mark.parametrize("point", ["handler", "settled", "end"])
    def test_a_batch_outlives_a_worker_that_is_killed(
        self, jobs: Jobs, start: Start, eventually: Eventually, database_url: str, point: str
    ) -> None:
        jobs.define("work", lambda _ctx, _payload: None)
        jobs.define("report", lambda _ctx, _payload: None)
        callbacks: Any = {f"on_{kind}": ("report", kind) for kind in ("success", "failure", "complete")}
        with jobs.batch("import", **callbacks) as batch:
            batch.enqueue_many([("work", place) for place in range(5)])
        killed = subprocess.Popen([sys.executable, str(KILLED), database_url, point])
        assert killed.wait(60) == -9
        assert jobs.admin.get_batch(batch.id).status == "running"
        start(poll_interval=0.1)
        eventually(lambda: jobs.admin.get_batch(batch.id).status == "succeeded")
        history.assert_sound(jobs, within=60)
        seen = jobs.admin.get_batch(batch.id)
        assert (seen.total, seen.succeeded, seen.outstanding) == (5, 5, 0)
        assert {one.kind for one in seen.callbacks if one.status is not None} == {"success", "complete"}
