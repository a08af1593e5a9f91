"""The upper bound: our own set-based statements in a loop with nothing around it.

No worker, no heartbeat, no prefetch to adapt, no signals, no results: claim, let 16 threads run the handlers, settle.
What a worker loses against this is what its machinery costs.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from queue import SimpleQueue
from typing import Any

import psycopg

from benchmarks.stopwatch import Stopwatch
from sloppyjobs.storage.dialects.postgres import statements
from sloppyjobs.storage.dialects.postgres.settle_statements import Hanging
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.schema.tables import Tables

WORKER = "worker_bare"
THREADS = 16
BATCH = 200
ATTEMPT, PAYLOAD = rows.CLAIM_FIELDS.index("attempt_count"), rows.CLAIM_FIELDS.index("payload")


class BareLoop:
    """One connection on which each turn settles and claims, in one transaction and one round trip."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._sql = statements.statements(Tables(), None)

    def turn(self, finished: list[tuple[str, int]], room: int) -> list[tuple[str, int, str]]:
        """Settle ``finished`` as succeeded; claim up to ``room`` jobs: id, attempt number and payload."""
        claimed = None
        execute = self._connection.execute
        with self._connection.pipeline():
            execute("BEGIN")
            execute(statements.PLAN_BY_INDEX, prepare=True)
            if finished:
                execute(self._sql.settle[Hanging.NOTHING].successes, settle_values(finished), prepare=True)
            if room:
                claimed = execute(self._sql.claim, claim_values(room), prepare=True)
            execute("COMMIT")
        return [] if claimed is None else [(row[0], row[ATTEMPT], row[PAYLOAD]) for row in claimed.fetchall()]


def settle_values(finished: list[tuple[str, int]]) -> dict[str, Any]:
    """The parameters of the statement that settles."""
    ordered = sorted(finished)
    return {
        "ids": "{" + ",".join([job for job, _ in ordered]) + "}",
        "attempts": "{" + ",".join([str(attempt) for _, attempt in ordered]) + "}",
        "microseconds": "{" + ",".join(["100"] * len(ordered)) + "}",
        "results": [None] * len(ordered),
        "worker": WORKER,
        "shard": 0,
        "now": None,
    }


def claim_values(room: int) -> dict[str, Any]:
    """The parameters of the statement that claims."""
    return {"worker": WORKER, "queues": None, "names": ["noop"], "most": room, "lease": 30.0, "now": None}


def drain(url: str, jobs: int, threads: int = THREADS, batch: int = BATCH) -> dict[str, Any]:
    """Claim, run and settle everything; with no threads the loop runs the handlers itself."""
    watch = Stopwatch(jobs, url)
    loop = _inline if threads == 0 else _threaded
    worker = threading.Thread(target=loop, args=(url, jobs, watch, threads, batch), daemon=True)
    worker.start()
    return finish(url, jobs, watch)


def finish(url: str, jobs: int, watch: Stopwatch) -> dict[str, Any]:
    """Wait until every job is settled, and check that its whole history was written."""
    with psycopg.connect(url, autocommit=True) as connection:

        def settled() -> bool:
            held = "SELECT EXISTS (SELECT FROM sloppy_jobs WHERE status = 'processing')"
            return connection.execute(held).fetchone() == (False,)

        result = watch.wait(settled)
        counted = connection.execute(
            "SELECT (SELECT count(*) FROM sloppy_jobs WHERE status = 'succeeded'),"
            " (SELECT count(*) FROM sloppy_job_attempts WHERE status = 'succeeded'),"
            " (SELECT count(*) FROM sloppy_job_events)"
        ).fetchone()
    if counted != (jobs, jobs, 3 * jobs):
        raise AssertionError(f"{counted} jobs, attempts and events, not {(jobs, jobs, 3 * jobs)}")
    return result


def statement_times(url: str, jobs: int, batch: int = BATCH) -> dict[str, Any]:
    """Seconds in each statement of the turns, when they are run one after the other without a pipeline."""
    sql = statements.statements(Tables(), None)
    seconds = dict.fromkeys(("begin", "settle", "claim", "commit"), 0.0)
    turns, finished = 0, []
    with psycopg.connect(url, autocommit=True) as connection:

        def timed(name: str, text: str, values: dict[str, Any] | None = None) -> list[Any]:
            began = time.perf_counter()
            cursor = connection.execute(text, values, prepare=True)  # type: ignore[call-overload]
            rows: list[Any] = cursor.fetchall() if cursor.description else []
            seconds[name] += time.perf_counter() - began
            return rows

        while jobs or finished:
            turns += 1
            timed("begin", "BEGIN")
            timed("begin", statements.PLAN_BY_INDEX)
            if finished:
                timed("settle", sql.settle[Hanging.NOTHING].successes, settle_values(finished))
            claimed = timed("claim", sql.claim, claim_values(batch)) if jobs else []
            timed("commit", "COMMIT")
            jobs -= len(claimed)
            finished = [(row[0], row[ATTEMPT]) for row in claimed]
    return {"turns": turns, "seconds": seconds}


def _inline(url: str, jobs: int, watch: Stopwatch, _threads: int, batch: int) -> None:
    loop = BareLoop(url)
    finished: list[tuple[str, int]] = []
    while jobs or finished:
        claimed = loop.turn(finished, batch if jobs else 0)
        for _ in claimed:
            watch.handle()
        jobs -= len(claimed)
        finished = [(job, attempt) for job, attempt, _ in claimed]


def _threaded(url: str, jobs: int, watch: Stopwatch, threads: int, batch: int) -> None:
    loop = BareLoop(url)
    work: SimpleQueue[tuple[str, int, str]] = SimpleQueue()
    done: deque[tuple[str, int]] = deque()
    some_done = threading.Semaphore(0)

    def run() -> None:
        while True:
            job, attempt, _payload = work.get()
            watch.handle()
            done.append((job, attempt))
            some_done.release()

    for _ in range(threads):
        threading.Thread(target=run, daemon=True).start()
    in_flight = 0
    while jobs or in_flight:
        finished = [done.popleft() for _ in range(len(done))]
        in_flight -= len(finished)
        # Twice the batch in flight: one half runs while the other half is in the database.
        room = min(batch, 2 * batch - in_flight, jobs)
        if not finished and not room:
            some_done.acquire(timeout=0.001)
            continue
        claimed = loop.turn(finished, room)
        jobs -= len(claimed)
        in_flight += len(claimed)
        for item in claimed:
            work.put(item)
