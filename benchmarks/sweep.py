"""The search for the peers' fastest settings, which their files then use."""

from __future__ import annotations

from functools import partial

from benchmarks import drain, sqlite
from benchmarks.report import Report, middle, spread
from benchmarks.rounds import Measurement, alternate


def run(server: str, jobs: int, rounds: int) -> list[Report]:
    """Drivers, event loops and batch sizes of pgqueuer; threads of Huey."""
    pgqueuer: dict[str, Measurement] = {}
    for driver, loop in (("psycopg", "uvloop"), ("asyncpg", "asyncio"), ("asyncpg", "uvloop")):
        for batch in (100, 500, 1000, 2000):
            params = {"driver": driver, "loop": loop, "batch": batch}
            name = f"pgqueuer: {driver}, {loop}, batch {batch}"
            pgqueuer[name] = partial(drain.once, server, jobs, False, "pgqueuer_peer", "pgqueuer_peer", params)
    huey: dict[str, Measurement] = {
        f"huey: {threads} threads": partial(sqlite.once, "huey_peer", "drain", jobs, {"jobs": jobs, "threads": threads})
        for threads in (1, 2, 4, 8)
    }
    report = Report(f"sweep: settings of the peers, {jobs:,} jobs", ("settings", "jobs/s", "lowest-highest"))
    results = alternate({**pgqueuer, **huey}, rounds, report)
    for name, found in sorted(results.items(), key=lambda item: -middle(item[1], "per_second")):
        report.add(name, middle(found, "per_second"), spread(found, "per_second"))
    return [report]
