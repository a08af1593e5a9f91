"""From the moment when a job is due again to the start of its handler, in a worker that does little else."""

from __future__ import annotations

import random
import threading
import time
from datetime import UTC, datetime
from functools import partial
from typing import Any

from benchmarks import databases, subject
from benchmarks.report import Report, middle
from benchmarks.rounds import Measurement, alternate
from sloppyjobs import Jobs, Retry, Snooze

WAIT_SECONDS = 0.02
KINDS = ("retried", "snoozed", "enqueued with a delay")
"""How a job comes to be due so much later; the last by the handler of another job."""
PATIENCE_SECONDS = 60


def prepare(url: str) -> None:
    """Create the tables."""
    Jobs(url).init()


def measure(url: str, jobs: int, kind: str) -> dict[str, Any]:
    """A worker, and jobs one at a time; by how many milliseconds each was late."""
    started: dict[str, datetime] = {}
    all_ran = threading.Event()
    found = Jobs(url)

    def note(ctx: Any) -> None:
        started[ctx.job_id] = datetime.now(UTC)
        if len(started) == jobs:
            all_ran.set()

    def handle(ctx: Any, _payload: Any) -> Any:
        if kind == "enqueued with a delay":
            found.enqueue("delayed", delay=WAIT_SECONDS)
        elif ctx.attempt > 1:
            note(ctx)
        elif kind == "snoozed":
            return Snooze(WAIT_SECONDS)
        else:
            raise ValueError("try again later")
        return None

    found.define("first", handle, retry=Retry(max_attempts=2, backoff="fixed", initial=WAIT_SECONDS, jitter=False))
    found.define("delayed", lambda ctx, _payload: note(ctx))
    worker = found.create_worker(concurrency=16)
    worker.start()
    chance = random.Random(1)
    for _ in range(jobs):
        time.sleep(chance.uniform(0.005, 0.040))
        found.enqueue("first")
    if not all_ran.wait(PATIENCE_SECONDS):
        raise TimeoutError(f"only {len(started)} of {jobs} jobs have come back")
    worker.stop(timeout=10)
    late = sorted((moment - found.get(id).run_at).total_seconds() * 1000 for id, moment in started.items())
    return {"p50": late[len(late) // 2], "p99": late[int(len(late) * 0.99)]}


def _once(place: Any, jobs: int, kind: str) -> dict[str, Any]:
    with place() as where:
        url = where if "://" in where else f"sqlite:///{where}"
        subject.run("due_latency", "prepare", url=url)
        return subject.run("due_latency", "measure", url=url, jobs=jobs, kind=kind)


def run(server: str, jobs: int, rounds: int) -> list[Report]:
    """Every kind on PostgreSQL and on SQLite."""
    report = Report(
        f"due: {jobs} jobs one at a time, 5 to 40 ms apart, milliseconds", ("database", "jobs", "p50", "p99")
    )
    report.note(databases.describe(server))
    for name, place in (
        ("PostgreSQL", partial(databases.fresh_postgres, server)),
        ("SQLite", databases.fresh_sqlite),
    ):
        systems: dict[str, Measurement] = {kind: partial(_once, place, jobs, kind) for kind in KINDS}
        for kind, found in alternate(systems, rounds, report).items():
            report.add(name, kind, middle(found, "p50"), middle(found, "p99"))
    report.note(f"from the due time, {WAIT_SECONDS * 1000:g} ms after the first handler, to the start of the next one")
    report.note(f"medians of {rounds} alternating rounds")
    return [report]
