"""Every kind of bulk call beside the plain one: typed, with options, delayed, with keys; on PostgreSQL and SQLite."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import Any

from benchmarks import databases, enqueue, ours, sqlite
from benchmarks.report import Report, best, middle, middle_if_known, ratio, spread
from benchmarks.rounds import Measurement, Results, alternate, chosen

CALLS = (1000, 5000)


def run(server: str, jobs: int, rounds: int, peers: tuple[str, ...]) -> list[Report]:
    """Calls of 1000 and of 5000 jobs."""
    reports = []
    for call in CALLS:
        params = {"jobs": jobs, "call": call}
        of_postgres: dict[str, Measurement] = {
            f"sloppyjobs, {kind}": partial(enqueue.once, server, "ours", "enqueue_kind", {**params, "kind": kind})
            for kind in ours.BULK_KINDS
        }
        of_postgres |= {
            name: partial(enqueue.once, server, module, "enqueue_bulk", {**params, **given})
            for name, (module, given) in enqueue.SYSTEMS.items()
            if module != "ours"
        }
        of_sqlite: dict[str, Measurement] = {
            f"sloppyjobs, {kind}": partial(sqlite.once, "ours", "enqueue_kind", 0, {**params, "kind": kind})
            for kind in ours.BULK_KINDS
        }
        reports.append(_measured(f"bulk of {call}, PostgreSQL", chosen(of_postgres, peers), rounds))
        reports[-1].note(databases.describe(server))
        reports.append(_measured(f"bulk of {call}, SQLite", of_sqlite, rounds))
    return reports


def _measured(title: str, systems: dict[str, Measurement], rounds: int) -> Report:
    report = Report(
        title, ("kind", "jobs/s", "lowest-highest", "x plain", "x pgqueuer", "client us/job", "server us/job")
    )
    results = alternate(systems, rounds, report)
    rates = {name: middle(found, "per_second") for name, found in results.items()}
    for name, found in results.items():
        to_plain = f"{_beside(found, results):.2f}" if name.startswith("sloppyjobs") else None
        times = ratio(rates[name], best(rates, "pgqueuer"))
        client, server = (middle_if_known(found, key) for key in ("cpu_us_per_job", "server_us_per_job"))
        report.add(name, rates[name], spread(found, "per_second"), to_plain, times, client, server)
    report.note("us/job are microseconds of CPU, of the client and of all processes of the server")
    report.note("'x plain' is the median of the ratios within each round; 'x pgqueuer' is against its faster driver")
    report.note(f"medians of {rounds} alternating rounds")
    return report


def _beside(found: list[dict[str, Any]], results: Results) -> float:
    plain = results["sloppyjobs, plain"]
    return median(one["per_second"] / other["per_second"] for one, other in zip(found, plain, strict=True))
