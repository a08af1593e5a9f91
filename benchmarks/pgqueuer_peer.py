"""pgqueuer as a measured system, with its durable tables.

``python -m benchmarks sweep`` compares its drivers, event loops and batch sizes. asyncpg was ahead of psycopg, and
large batches mostly ahead of small ones, but repeated sweeps did not agree on one winner; so the benchmarks measure
several configurations, and the fastest one in the run counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import uvloop
from pgqueuer.adapters.drivers.psycopg import PsycopgDriver
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.core.qm import QueueManager
from pgqueuer.domain.types import QueueExecutionMode

from benchmarks.drain_failing import JobFailed, fails
from benchmarks.ours import delays, pace, produce_elsewhere
from benchmarks.stopwatch import Stopwatch, Timed, resident_mb

DRIVER = "asyncpg"
BATCH = 1000
LOOP = "uvloop"


@contextlib.asynccontextmanager
async def _queries(url: str, driver: str = DRIVER) -> AsyncIterator[Queries]:
    if driver == "asyncpg":
        import asyncpg
        from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver

        connection = await asyncpg.connect(url)
        try:
            yield Queries(AsyncpgDriver(connection))
        finally:
            await connection.close()
    else:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            yield Queries(PsycopgDriver(connection))


def _run(work: Any, loop: str = LOOP) -> Any:
    return uvloop.run(work) if loop == "uvloop" else asyncio.run(work)


def prepare(url: str, jobs: int = 0) -> None:
    """Create the tables, and enqueue."""

    async def work() -> None:
        async with _queries(url) as queries:
            await queries.install()
            for start in range(0, jobs, 1000):
                size = min(1000, jobs - start)
                payloads = [json.dumps({"n": start + n}).encode() for n in range(size)]
                await queries.enqueue(["noop"] * size, payloads, [0] * size)

    _run(work())


def drain(
    url: str,
    jobs: int,
    driver: str = DRIVER,
    batch: int = BATCH,
    loop: str = LOOP,
    most: int | None = None,
    share: int = 0,
) -> dict[str, Any]:
    """Run a queue manager until its table is empty; ``share`` jobs of a hundred fail."""
    watch = Stopwatch(jobs, url)
    # It logs every failure with its traceback, formatted as for a file; no terminal is measured.
    logging.getLogger("pgqueuer").addHandler(logging.FileHandler(os.devnull))
    logging.getLogger("pgqueuer").propagate = False

    async def work() -> None:
        async with _queries(url, driver) as queries:
            manager = QueueManager(queries)

            @manager.entrypoint("noop")
            async def noop(job: Any) -> None:
                watch.handle()
                if share and fails(number := json.loads(job.payload)["n"], share):
                    raise JobFailed(number)

            await manager.run(batch_size=batch, mode=QueueExecutionMode.drain, max_concurrent_tasks=most)

    threading.Thread(target=_run, args=(work(), loop), daemon=True).start()
    with psycopg.connect(url, autocommit=True) as connection:

        def settled() -> bool:
            left = connection.execute("SELECT EXISTS (SELECT FROM pgqueuer)").fetchone()
            return left == (False,)

        result = watch.wait(settled)
        ended = "SELECT count(*) FROM pgqueuer_log WHERE status IN ('successful', 'exception')"
        logged = connection.execute(ended).fetchone()
    if logged != (jobs,):
        raise AssertionError(f"{logged} jobs were logged as ended, not {jobs}")
    return result


def enqueue_single(url: str, jobs: int, driver: str = DRIVER) -> dict[str, Any]:
    """Enqueue one by one, every call a commit."""

    async def work() -> dict[str, Any]:
        async with _queries(url, driver) as queries:
            payload = json.dumps({"n": 1}).encode()
            await queries.enqueue("noop", payload)
            timed = Timed(jobs, url)
            for _ in range(jobs):
                await queries.enqueue("noop", payload)
            return timed.result()

    answer: dict[str, Any] = _run(work())
    return answer


def enqueue_bulk(url: str, jobs: int, call: int, driver: str = DRIVER) -> dict[str, Any]:
    """Enqueue with lists, ``call`` jobs each time; the payloads are bytes beforehand."""

    async def work() -> dict[str, Any]:
        async with _queries(url, driver) as queries:
            payloads: list[bytes | None] = [json.dumps({"n": n}).encode() for n in range(jobs)]
            await queries.enqueue("noop", payloads[0])
            timed = Timed(jobs, url)
            for start in range(0, jobs, call):
                size = min(call, jobs - start)
                await queries.enqueue(["noop"] * size, payloads[start : start + size], [0] * size)
            return timed.result()

    answer: dict[str, Any] = _run(work())
    return answer


def latency(url: str, jobs: int) -> dict[str, Any]:
    """A queue manager here, a producer in another process; the time from enqueue to handler."""
    started: dict[int, int] = {}

    async def work() -> None:
        async with _queries(url) as queries:
            manager = QueueManager(queries)

            @manager.entrypoint("timed")
            async def timed(job: Any) -> None:
                now = time.time_ns()
                payload = json.loads(job.payload)
                started[payload["n"]] = now - payload["sent"]

            await manager.run(batch_size=BATCH)

    threading.Thread(target=_run, args=(work(),), daemon=True).start()
    return delays(started, produce_elsewhere("pgqueuer_peer", url, jobs))


def produce(url: str, jobs: int) -> dict[str, Any]:
    """Enqueue one at a time with random gaps; how long each call took."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        context = _queries(url)
        queries = runner.run(context.__aenter__())

        def enqueue(n: int) -> None:
            payload = json.dumps({"n": n, "sent": time.time_ns()}).encode()
            runner.run(queries.enqueue("timed", payload))

        found = pace(jobs, enqueue)
        runner.run(context.__aexit__(None, None, None))
    return found


def idle(url: str, seconds: float) -> dict[str, Any]:
    """A queue manager with nothing to do."""

    async def work() -> None:
        async with _queries(url) as queries:
            manager = QueueManager(queries)

            @manager.entrypoint("noop")
            async def noop(_job: Any) -> None:
                pass

            await manager.run(batch_size=BATCH)

    threading.Thread(target=_run, args=(work(),), daemon=True).start()
    time.sleep(2)
    cpu, began = time.process_time(), time.perf_counter()
    time.sleep(seconds)
    used = (time.process_time() - cpu) / (time.perf_counter() - began)
    return {"cpu_percent": used * 100, "rss_mb": resident_mb(), "threads": threading.active_count()}
