"""From the enqueue in one process to the start of the handler in another, on an idle PostgreSQL queue."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks import databases, subject
from benchmarks.report import Report, middle, ratio
from benchmarks.rounds import Measurement, alternate, chosen

MEASURED = ("p50", "p99", "after_p50", "after_p99")


def once(server: str, system: str, params: dict[str, Any]) -> dict[str, Any]:
    """Start a worker on a new database, then a producer."""
    with databases.fresh_postgres(server) as url:
        subject.run(system, "prepare", url=url)
        return subject.run(system, "latency", url=url, **params)


def run(server: str, jobs: int, rounds: int, peers: tuple[str, ...]) -> list[Report]:
    """Milliseconds, and the ratios to pgqueuer."""
    report = Report(
        f"latency: {jobs} jobs one at a time, 5 to 40 ms apart, milliseconds",
        ("system", "p50", "p99", "x pgqueuer p50", "x pgqueuer p99", "after enqueue p50", "after enqueue p99"),
    )
    report.note(databases.describe(server))
    measurements: dict[str, Measurement] = {
        "sloppyjobs, coroutines": partial(once, server, "ours", {"jobs": jobs, "handlers": "coroutines"}),
        "sloppyjobs, threads": partial(once, server, "ours", {"jobs": jobs, "handlers": "threads"}),
        "pgqueuer": partial(once, server, "pgqueuer_peer", {"jobs": jobs}),
    }
    results = alternate(chosen(measurements, peers), rounds, report)
    values = {name: {key: middle(found, key) for key in MEASURED} for name, found in results.items()}
    peer = values.get("pgqueuer", {})
    for name, found in values.items():
        report.add(
            name,
            found["p50"],
            found["p99"],
            ratio(found["p50"], peer.get("p50")),
            ratio(found["p99"], peer.get("p99")),
            found["after_p50"],
            found["after_p99"],
        )
    report.note("from just before the enqueue call; 'after enqueue' counts from its return")
    report.note(f"medians of {rounds} alternating rounds")
    return [report]
