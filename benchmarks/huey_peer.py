"""Huey on SQLite as a measured system: fsync at every commit, no results kept.

All threads share one connection, so they help only where the scheduler is slow to come back to the one that has
committed. Which number is best differs from machine to machine (``python -m benchmarks sweep``): one and four are
measured, and the better one counts.
"""

from __future__ import annotations

import logging
from typing import Any

from huey import SqliteHuey

from benchmarks.stopwatch import Stopwatch, rate


def _huey(path: str) -> Any:
    logging.getLogger("huey").setLevel(logging.ERROR)
    return SqliteHuey(filename=path, fsync=True, results=False, store_none=False)


def _task(huey: Any, handle: Any) -> Any:
    @huey.task(name="noop")
    def noop(_payload: Any) -> None:
        handle()

    return noop


def prepare(path: str, jobs: int = 0) -> None:
    """Create the tables, and enqueue, in one transaction for speed."""
    huey = _huey(path)
    task = _task(huey, lambda: None)
    _insert_all(huey, [task.s({"n": n}) for n in range(jobs)])


def drain(path: str, jobs: int, threads: int) -> dict[str, Any]:
    """Run a consumer until its table is empty."""
    huey = _huey(path)
    watch = Stopwatch(jobs, path)
    _task(huey, watch.handle)
    consumer = huey.create_consumer(workers=threads, periodic=False, initial_delay=0.001, max_delay=0.01)
    consumer.start()
    result = watch.wait(lambda: huey.storage.queue_size() == 0)
    consumer.stop(graceful=False)
    return result


def enqueue_single(path: str, jobs: int) -> dict[str, Any]:
    """Enqueue one by one, every call a commit."""
    huey = _huey(path)
    task = _task(huey, lambda: None)
    task({"n": -1})
    return rate(jobs, path, lambda: [task({"n": n}) for n in range(jobs)])


def enqueue_bulk(path: str, jobs: int, call: int) -> dict[str, Any]:
    """Huey has no bulk enqueue: its own insert, ``call`` at a time in a transaction, is the best one could do."""
    huey = _huey(path)
    task = _task(huey, lambda: None)
    task({"n": -1})
    payloads = [{"n": n} for n in range(jobs)]

    def work() -> None:
        for start in range(0, jobs, call):
            _insert_all(huey, [task.s(payload) for payload in payloads[start : start + call]])

    return rate(jobs, path, work)


def _insert_all(huey: Any, tasks: list[Any]) -> None:
    rows = [(huey.storage.name, memoryview(huey.serialize_task(task)), 0) for task in tasks]
    with huey.storage.db(commit=True) as cursor:
        cursor.executemany("insert into task (queue, data, priority) values (?, ?, ?)", rows)
