"""SQLite with an fsync at every commit: drain and enqueue, beside Huey's SQLite storage."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks import databases, subject
from benchmarks.report import Report, best, middle, ratio, spread
from benchmarks.rounds import Measurement, Results, alternate, chosen


def once(system: str, action: str, filled: int, params: dict[str, Any]) -> dict[str, Any]:
    """Measure on a new file."""
    with databases.fresh_sqlite() as path:
        where = {"path": path} if system == "huey_peer" else {"url": f"sqlite:///{path}"}
        subject.run(system, "prepare", jobs=filled, **where)
        return subject.run(system, action, **where, **params)


def run(jobs: int, single: int, bulk: int, rounds: int, peers: tuple[str, ...]) -> list[Report]:
    """Drain, single enqueue, bulk enqueue."""
    report = Report(
        "sqlite: synchronous=FULL, one process",
        ("kind", "system", "jobs/s", "lowest-highest", "x huey", "RSS MB"),
    )
    both = (("sloppyjobs", "ours"), ("huey", "huey_peer"))
    drains: dict[str, Measurement] = {
        "sloppyjobs, coroutines": partial(once, "ours", "drain", jobs, {"jobs": jobs, "handlers": "coroutines"}),
        "sloppyjobs, 16 threads": partial(once, "ours", "drain", jobs, {"jobs": jobs, "handlers": "threads"}),
        **{
            f"huey, {threads} threads": partial(once, "huey_peer", "drain", jobs, {"jobs": jobs, "threads": threads})
            for threads in (1, 4)
        },
    }
    singles: dict[str, Measurement] = {
        name: partial(once, module, "enqueue_single", 0, {"jobs": single}) for name, module in both
    }
    bulks: dict[str, Measurement] = {
        name: partial(once, module, "enqueue_bulk", 0, {"jobs": bulk, "call": 1000}) for name, module in both
    }
    for title, measurements in (
        (f"drain, {jobs:,} jobs", drains),
        (f"single enqueue, {single:,} jobs", singles),
        (f"bulk enqueue by 1000, {bulk:,} jobs", bulks),
    ):
        _tabulate(report, title, alternate(chosen(measurements, peers), rounds, report))
    report.note("'x huey' is against the faster of its configurations")
    report.note("huey has no bulk enqueue; its row is its own insert, many in a transaction")
    report.note("huey removes a job before it runs it, and writes no history")
    report.note(f"medians of {rounds} alternating rounds")
    return [report]


def _tabulate(report: Report, title: str, results: Results) -> None:
    rates = {name: middle(found, "per_second") for name, found in results.items()}
    for name, found in results.items():
        memory = middle(found, "rss_mb") if "rss_mb" in found[0] else None
        times = ratio(rates[name], best(rates, "huey"))
        report.add(title, name, rates[name], spread(found, "per_second"), times, memory)
