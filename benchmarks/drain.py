"""How fast one worker process empties a PostgreSQL queue of jobs that do nothing."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks import databases, subject
from benchmarks.report import Report, best, middle, ratio, spread
from benchmarks.rounds import Measurement, Results, alternate, chosen

BARE = "bare loop, 16 threads"


def once(server: str, jobs: int, analyze: bool, filler: str, system: str, params: dict[str, Any]) -> dict[str, Any]:
    """Fill a new database and drain it, each in a process of its own."""
    with databases.fresh_postgres(server) as url:
        subject.run(filler, "prepare", url=url, jobs=jobs)
        if analyze:
            databases.execute(url, "ANALYZE")
        return subject.run(system, "drain", url=url, jobs=jobs, **params)


def systems(server: str, jobs: int, *, analyze: bool) -> dict[str, Measurement]:
    """Every system that drains PostgreSQL."""
    measure = partial(once, server, jobs, analyze)
    return {
        "sloppyjobs, coroutines": partial(measure, "ours", "ours", {"handlers": "coroutines"}),
        "sloppyjobs, 16 threads": partial(measure, "ours", "ours", {"handlers": "threads"}),
        BARE: partial(measure, "ours", "bare", {}),
        "bare loop, no threads": partial(measure, "ours", "bare", {"threads": 0}),
        **{
            f"pgqueuer, {driver}, batch {batch}": partial(
                measure, "pgqueuer_peer", "pgqueuer_peer", {"driver": driver, "batch": batch}
            )
            for driver, batch in (("psycopg", 1000), ("asyncpg", 100), ("asyncpg", 1000))
        },
    }


def run(server: str, jobs: int, rounds: int, peers: tuple[str, ...]) -> list[Report]:
    """Drain with fresh statistics and with none, which is what a queue usually has."""
    reports = []
    for analyze in (False, True):
        state = "after ANALYZE" if analyze else "statistics never gathered"
        report = Report(
            f"drain: {jobs:,} no-op jobs, one worker process, {state}",
            ("system", "jobs/s", "lowest-highest", "x pgqueuer", "x bare loop", "worker CPU us/job", "RSS MB"),
        )
        report.note(databases.describe(server))
        _tabulate(report, alternate(chosen(systems(server, jobs, analyze=analyze), peers), rounds, report), rounds)
        reports.append(report)
    return reports


def _tabulate(report: Report, results: Results, rounds: int) -> None:
    rates = {name: middle(found, "per_second") for name, found in results.items()}
    for name, found in results.items():
        report.add(
            name,
            rates[name],
            spread(found, "per_second"),
            ratio(rates[name], best(rates, "pgqueuer")),
            ratio(rates[name], rates.get(BARE)),
            middle(found, "cpu_us_per_job"),
            middle(found, "rss_mb"),
        )
    report.note("'x pgqueuer' is against the fastest of its configurations here; all with uvloop")
    report.note(f"medians of {rounds} alternating rounds, from the first handler to the last settlement seen")
