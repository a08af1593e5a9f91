"""What limits cost: a drain under one that does not bind, and claims beside many jobs that wait for permits."""

from __future__ import annotations

import time
from functools import partial
from statistics import median
from typing import Any

from benchmarks import databases, ours, subject
from benchmarks.report import Report, middle, spread
from benchmarks.rounds import Measurement, alternate
from benchmarks.stopwatch import Stopwatch
from sloppyjobs import Jobs

PARKED = 100_000
"""Jobs that wait for one permit."""
CLAIMS = 100
"""Claims that are timed, of ten jobs each."""
AT_ONCE = 10


def _defined(url: str, watch: Stopwatch | None = None) -> Jobs:
    found = Jobs(url)

    def handle(_ctx: Any, _payload: Any) -> None:
        assert watch is not None
        watch.handle()

    found.define("noop", handle)
    return found


def prepare(url: str, jobs: int, kind: str) -> None:
    """Create the tables, and enqueue; those of a limit that is far above what runs at once name its resource."""
    found = _defined(url)
    found.init()
    found.limit("api", concurrency=10_000)
    options = {"resource": "api"} if kind == "under a limit" else {}
    found.enqueue_many([("noop", {"n": n}, options) for n in range(jobs)])


def drain(url: str, jobs: int) -> dict[str, Any]:
    """Run a worker until everything is settled."""
    watch = Stopwatch(jobs, url)
    worker = _defined(url, watch).create_worker(concurrency=16)
    worker.start()
    result = ours.finish(url, jobs, watch)
    worker.stop(timeout=10)
    return result


def claim(url: str, parked: int) -> dict[str, Any]:
    """Time claims of plain jobs in a queue whose other jobs all wait for one permit."""
    jobs = _defined(url)
    jobs.init()
    jobs.limit("api", concurrency=1)
    jobs.enqueue_many([("noop", None, {"resource": "api"})] * (parked + 1))
    began = time.perf_counter()
    while jobs.admin.list_jobs(status="queued", page_size=1):
        # One claim parks for a moment only.
        jobs.claim("parker", limit=AT_ONCE, lease=3600)
    parking = time.perf_counter() - began
    if jobs.storage.engine.dialect.name == "postgresql":
        # As autovacuum does within a minute; what it has not done yet would be measured, or its work.
        databases.execute(url, "VACUUM sloppy_jobs")
    jobs.enqueue_many([("noop", {"n": n}) for n in range(CLAIMS * AT_ONCE)])
    times = []
    for _ in range(CLAIMS):
        began = time.perf_counter()
        assert len(jobs.claim("worker", limit=AT_ONCE, lease=3600)) == AT_ONCE
        times.append(time.perf_counter() - began)
    return {"ms": 1000 * median(times), "parked_per_second": parked / parking if parked else 0.0}


def _drained(place: Any, jobs: int, kind: str) -> dict[str, Any]:
    with place() as where:
        url = where if "://" in where else f"sqlite:///{where}"
        subject.run("limits", "prepare", url=url, jobs=jobs, kind=kind)
        return subject.run("limits", "drain", url=url, jobs=jobs)


def _claimed(place: Any, parked: int) -> dict[str, Any]:
    with place() as where:
        url = where if "://" in where else f"sqlite:///{where}"
        return subject.run("limits", "claim", url=url, parked=parked)


def run(server: str, jobs: int, rounds: int, parked: int) -> list[Report]:
    """Both on PostgreSQL and on SQLite."""
    drains = Report(
        f"limits: {jobs:,} jobs, one worker process, 16 threads",
        ("database", "jobs", "jobs/s", "lowest-highest", "x plain"),
    )
    claims = Report(f"limits: claims of {AT_ONCE} jobs", ("database", "beside", "ms", "lowest-highest", "x none"))
    drains.note(databases.describe(server))
    for name, place in (
        ("PostgreSQL", partial(databases.fresh_postgres, server)),
        ("SQLite", databases.fresh_sqlite),
    ):
        kinds: dict[str, Measurement] = {
            kind: partial(_drained, place, jobs, kind) for kind in ("plain", "under a limit")
        }
        results = alternate(kinds, rounds, drains)
        for kind, found in results.items():
            pairs = zip(found, results["plain"], strict=True)
            times = median(one["per_second"] / plain["per_second"] for one, plain in pairs)
            drains.add(name, kind, middle(found, "per_second"), spread(found, "per_second"), f"{times:.2f}")
        beside: dict[str, Measurement] = {
            f"{number:,} parked": partial(_claimed, place, number) for number in (0, parked)
        }
        timed = alternate(beside, rounds, claims)
        for kind, found in timed.items():
            pairs = zip(found, timed["0 parked"], strict=True)
            times = median(none["ms"] / one["ms"] for one, none in pairs)
            claims.add(name, kind, middle(found, "ms"), spread(found, "ms"), f"{times:.2f}")
    drains.note(f"medians of {rounds} alternating rounds; the limit is far above what runs at once")
    claims.note("on PostgreSQL after a VACUUM of the jobs")
    claims.note("'x none' is the rate of claims beside parked jobs, of that without")
    return [drains, claims]
