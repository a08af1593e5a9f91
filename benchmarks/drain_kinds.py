"""How much of a drain's rate is left where jobs are of many kinds, have large payloads, or return results."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import Any

from benchmarks import databases, ours, subject
from benchmarks.report import Report, middle, middle_if_known, spread
from benchmarks.rounds import Measurement, Results, alternate
from benchmarks.stopwatch import Stopwatch
from sloppyjobs import Jobs

QUEUES = 10
"""Queues over which the names are spread, where there are several names."""
KILOBYTE = "x" * 1000

KINDS: dict[str, tuple[int, bool, bool]] = {
    "plain": (1, False, False),
    "100 lanes": (100, False, False),
    "1000 lanes": (1000, False, False),
    "results": (1, True, False),
    "1 kB payloads": (1, False, True),
}
"""The number of lanes, which are pairs of a queue and a name; whether handlers return something; large payloads."""


def _defined(url: str, kind: str, watch: Stopwatch | None = None) -> Jobs:
    lanes, results, _ = KINDS[kind]
    found = Jobs(url)

    def handle(_ctx: Any, payload: Any) -> Any:
        assert watch is not None
        watch.handle()
        return {"order": payload["n"], "shipped": True} if results else None

    for lane in range(lanes):
        found.define(f"noop-{lane}", handle, queue=f"queue-{lane % QUEUES}" if lanes > 1 else "default")
    return found


def prepare(url: str, jobs: int, kind: str) -> None:
    """Create the tables, and enqueue; jobs of different lanes follow one another."""
    lanes, _, large = KINDS[kind]
    found = _defined(url, kind)
    found.init()
    more = {"text": KILOBYTE} if large else {}
    found.enqueue_many([(f"noop-{n % lanes}", {"n": n, **more}) for n in range(jobs)])


def drain(url: str, jobs: int, kind: str) -> dict[str, Any]:
    """Run a worker until everything is settled."""
    watch = Stopwatch(jobs, url)
    worker = _defined(url, kind, watch).create_worker(concurrency=16)
    worker.start()
    result = ours.finish(url, jobs, watch)
    worker.stop(timeout=10)
    return result


def _once(place: Any, jobs: int, kind: str) -> dict[str, Any]:
    with place() as where:
        url = where if "://" in where else f"sqlite:///{where}"
        subject.run("drain_kinds", "prepare", url=url, jobs=jobs, kind=kind)
        return subject.run("drain_kinds", "drain", url=url, jobs=jobs, kind=kind)


def run(server: str, jobs: int, rounds: int) -> list[Report]:
    """Every kind on PostgreSQL and on SQLite."""
    report = Report(
        f"kinds: {jobs:,} jobs, one worker process, 16 threads",
        ("database", "jobs", "jobs/s", "lowest-highest", "x plain", "worker us/job", "server us/job"),
    )
    report.note(databases.describe(server))
    for name, place in (
        ("PostgreSQL", partial(databases.fresh_postgres, server)),
        ("SQLite", databases.fresh_sqlite),
    ):
        systems: dict[str, Measurement] = {kind: partial(_once, place, jobs, kind) for kind in KINDS}
        _tabulate(report, name, alternate(systems, rounds, report))
    report.note("a lane is a queue and a name; jobs of all lanes follow one another, and the lanes are in ten queues")
    report.note("us/job are microseconds of CPU, of the worker and of all processes of the server")
    report.note(f"medians of {rounds} alternating rounds; 'x plain' is the median of the ratios within each round")
    return [report]


def _tabulate(report: Report, database: str, results: Results) -> None:
    for kind, found in results.items():
        pairs = zip(found, results["plain"], strict=True)
        times = median(one["per_second"] / plain["per_second"] for one, plain in pairs)
        client, server = (middle_if_known(found, key) for key in ("cpu_us_per_job", "server_us_per_job"))
        rates = middle(found, "per_second"), spread(found, "per_second")
        report.add(database, kind, *rates, f"{times:.2f}", client, server)
