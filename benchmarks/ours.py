"""sloppyjobs as a measured system: what the other processes are told to do with it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import text
from sqlalchemy.orm import sessionmaker

from benchmarks import bare
from benchmarks.stopwatch import Stopwatch, rate, resident_mb
from sloppyjobs import Jobs


def prepare(url: str, jobs: int = 0) -> None:
    """Create the tables, and enqueue."""
    found = _declared(url)
    found.init()
    if jobs:
        found.enqueue_many([("noop", {"n": n}) for n in range(jobs)])


def drain(url: str, jobs: int, handlers: str = "threads", concurrency: int = 16) -> dict[str, Any]:
    """Run a worker until everything is settled."""
    watch = Stopwatch(jobs, url)
    worker = _with_handlers(url, handlers, watch.handle).create_worker(concurrency=concurrency)
    worker.start()
    result = finish(url, jobs, watch)
    worker.stop(timeout=10)
    return result


def work(url: str, milliseconds: float = 0, concurrency: int = 16) -> None:
    """Run a worker until SIGTERM; each handler waits so long."""

    def handle() -> None:
        if milliseconds:
            time.sleep(milliseconds / 1000)

    _with_handlers(url, "threads", handle).create_worker(concurrency=concurrency).run()


def enqueue_single(url: str, jobs: int) -> dict[str, Any]:
    """Enqueue one by one from one thread, every call a commit."""
    found = _declared(url)
    found.enqueue("noop", {"n": -1})
    return rate(jobs, url, lambda: [found.enqueue("noop", {"n": n}) for n in range(jobs)])


def enqueue_in_session(url: str, jobs: int) -> dict[str, Any]:
    """Enqueue one by one, each in a transaction of the caller's SQLAlchemy session."""
    found = _declared(url)
    sessions = sessionmaker(found.storage.engine)

    def enqueue(number: int) -> None:
        with sessions.begin() as session:
            found.enqueue("noop", {"n": number}, session=session)

    enqueue(-1)
    return rate(jobs, url, lambda: [enqueue(n) for n in range(jobs)])


def enqueue_bulk(url: str, jobs: int, call: int) -> dict[str, Any]:
    """Enqueue with ``enqueue_many``, ``call`` jobs each time."""
    found = _declared(url)
    found.enqueue("noop", {"n": -1})
    return rate(jobs, url, partial(_in_calls, found, [("noop", {"n": n}) for n in range(jobs)], call))


class Numbered(msgspec.Struct):
    """A typed payload."""

    n: int


BULK_KINDS: dict[str, Callable[[int], tuple[Any, ...]]] = {
    "plain": lambda n: ("noop", {"n": n}),
    "typed": lambda n: ("typed", Numbered(n)),
    "empty options": lambda n: ("noop", {"n": n}, {}),
    "priority": lambda n: ("noop", {"n": n}, {"priority": n % 10}),
    "delayed": lambda n: ("noop", {"n": n}, {"delay": 60}),
    "mixed names and queues": lambda n: (f"noop-{n % 5}", {"n": n}),
    "metadata": lambda n: ("noop", {"n": n}, {"metadata": {"request": n}}),
    "correlation id": lambda n: ("noop", {"n": n}, {"correlation_id": f"order-{n}"}),
    "idempotency keys": lambda n: ("noop", {"n": n}, {"idempotency_key": f"key-{n}"}),
    "one tag": lambda n: ("noop", {"n": n}, {"tags": (f"tenant-{n % 10}",)}),
    "two tags": lambda n: ("noop", {"n": n}, {"tags": ("import", f"tenant-{n % 10}")}),
    "business keys": lambda n: ("noop", {"n": n}, {"business_key": f"order-{n}"}),
}
"""What an item of each kind of bulk call looks like."""


def enqueue_kind(url: str, jobs: int, call: int, kind: str) -> dict[str, Any]:
    """Enqueue with ``enqueue_many``, ``call`` jobs each time, all of one kind."""
    found = _declared(url)
    found.declare("typed", input=Numbered)
    for number in range(5):
        found.declare(f"noop-{number}", queue=f"queue-{number % 2}")
    items = [BULK_KINDS[kind](n) for n in range(jobs + 2)]
    found.enqueue_many(items[jobs:])
    return rate(jobs, url, partial(_in_calls, found, items[:jobs], call))


def _in_calls(jobs: Jobs, items: list[Any], call: int) -> None:
    """Enqueue so many in each call; what it answers is not kept."""
    for start in range(0, len(items), call):
        jobs.enqueue_many(items[start : start + call])


def latency(url: str, jobs: int, handlers: str = "threads") -> dict[str, Any]:
    """A worker here, a producer in another process; the seconds from enqueue to handler."""
    started: dict[int, int] = {}
    found = Jobs(url)

    def note(payload: Any) -> None:
        started[payload["n"]] = time.time_ns() - payload["sent"]

    if handlers == "threads":
        found.define("timed", lambda _ctx, payload: note(payload))
    else:

        async def timed(_ctx: Any, payload: Any) -> None:
            note(payload)

        found.define("timed", timed)
    worker = found.create_worker(concurrency=16)
    worker.start()
    took = produce_elsewhere("ours", url, jobs)
    worker.stop(timeout=10)
    return delays(started, took)


def produce(url: str, jobs: int) -> dict[str, Any]:
    """Enqueue one at a time with random gaps; how long each call took."""
    found = Jobs(url)
    found.declare("timed")
    return pace(jobs, lambda n: found.enqueue("timed", {"n": n, "sent": time.time_ns()}))


def idle(url: str, seconds: float) -> dict[str, Any]:
    """A worker with nothing to do: the share of a core that it takes, and its memory."""
    worker = _with_handlers(url, "threads", lambda: None).create_worker(concurrency=16)
    worker.start()
    time.sleep(2)
    cpu, began = time.process_time(), time.perf_counter()
    time.sleep(seconds)
    used = (time.process_time() - cpu) / (time.perf_counter() - began)
    result = {"cpu_percent": used * 100, "rss_mb": resident_mb(), "threads": threading.active_count()}
    worker.stop(timeout=10)
    return result


# What the peers use too


def produce_elsewhere(system: str, url: str, jobs: int) -> list[int]:
    """Let another process enqueue, wait for the handlers to be done, and return what each enqueue took."""
    time.sleep(1.5)
    called = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.subject",
            system,
            "produce",
            json.dumps({"url": url, "jobs": jobs}),
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent.parent,
    )
    time.sleep(0.5)
    found: list[int] = json.loads(called.stdout.splitlines()[-1].partition(" ")[2])["took"]
    return found


def pace(jobs: int, enqueue: Callable[[int], object]) -> dict[str, Any]:
    """Call ``enqueue`` with gaps of 5 to 40 ms; the nanoseconds that each call took."""
    took = []
    chance = random.Random(1)
    for n in range(-20, jobs):
        time.sleep(chance.uniform(0.005, 0.040))
        began = time.time_ns()
        enqueue(n)
        took.append(time.time_ns() - began)
    return {"took": took[20:]}


def delays(started: dict[int, int], took: list[int]) -> dict[str, Any]:
    """Percentiles, in milliseconds, from before and from after the enqueue."""
    missing = [n for n in range(len(took)) if n not in started]
    if missing:
        raise AssertionError(f"{len(missing)} jobs were never started")
    before = sorted(started[n] / 1e6 for n in range(len(took)))
    after = sorted((started[n] - took[n]) / 1e6 for n in range(len(took)))
    return {
        "p50": _percentile(before, 0.50),
        "p99": _percentile(before, 0.99),
        "after_p50": _percentile(after, 0.50),
        "after_p99": _percentile(after, 0.99),
    }


def _percentile(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


def _declared(url: str) -> Jobs:
    found = Jobs(url)
    found.declare("noop")
    return found


def _with_handlers(url: str, handlers: str, handle: Callable[[], None]) -> Jobs:
    found = Jobs(url)
    if handlers == "threads":
        found.define("noop", lambda _ctx, _payload: handle())
    else:

        async def noop(_ctx: Any, _payload: Any) -> None:
            handle()

        found.define("noop", noop)
    return found


def finish(url: str, jobs: int, watch: Stopwatch) -> dict[str, Any]:
    """Wait until every job is settled, and check that its whole history was written."""
    return bare.finish(url, jobs, watch) if url.startswith("postgresql") else _finish_by_sqlalchemy(url, jobs, watch)


def _finish_by_sqlalchemy(url: str, jobs: int, watch: Stopwatch) -> dict[str, Any]:
    engine = Jobs(url).storage.engine
    with engine.connect() as connection:

        def settled() -> bool:
            held = "SELECT EXISTS (SELECT 1 FROM sloppy_jobs WHERE status = 'processing')"
            answer = connection.execute(text(held)).scalar_one()
            connection.rollback()
            return not answer

        result = watch.wait(settled)
        counted = connection.execute(
            text(
                "SELECT (SELECT count(*) FROM sloppy_jobs WHERE status = 'succeeded'),"
                " (SELECT count(*) FROM sloppy_job_attempts WHERE status = 'succeeded'),"
                " (SELECT count(*) FROM sloppy_job_events)"
            )
        ).one()
    if tuple(counted) != (jobs, jobs, 3 * jobs):
        raise AssertionError(f"{counted} jobs, attempts and events, not {(jobs, jobs, 3 * jobs)}")
    return result
