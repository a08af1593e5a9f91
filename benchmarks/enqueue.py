"""How fast jobs are enqueued in PostgreSQL, one at a time and many at once."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks import databases, subject
from benchmarks.report import Report, best, middle, middle_if_known, ratio, spread
from benchmarks.rounds import Measurement, alternate, chosen

SYSTEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "sloppyjobs": ("ours", {}),
    "pgqueuer, psycopg": ("pgqueuer_peer", {"driver": "psycopg"}),
    "pgqueuer, asyncpg": ("pgqueuer_peer", {"driver": "asyncpg"}),
}


BARE = "bare writes of the same"
"""What of a bulk call the server itself takes."""

BARE_IN_SESSION = "bare statement in a session"
"""What of an enqueue in the caller's session the session itself takes."""


def once(server: str, system: str, action: str, params: dict[str, Any]) -> dict[str, Any]:
    """Enqueue into a new database."""
    with databases.fresh_postgres(server) as url:
        subject.run(system, "prepare", url=url)
        return subject.run(system, action, url=url, **params)


def run(server: str, single: int, bulk: int, rounds: int, peers: tuple[str, ...]) -> list[Report]:
    """Single calls, and bulk calls of 1000, 5000 and 10,000."""
    kinds: list[tuple[str, str, dict[str, Any]]] = [
        (f"single, {single:,} jobs", "enqueue_single", {"jobs": single}),
        (f"bulk of 1000, {bulk:,} jobs", "enqueue_bulk", {"jobs": bulk, "call": 1000}),
        (f"bulk of 5000, {bulk:,} jobs", "enqueue_bulk", {"jobs": bulk, "call": 5000}),
        (f"bulk of 10,000, {bulk:,} jobs", "enqueue_bulk", {"jobs": bulk, "call": 10_000}),
    ]
    report = Report(
        "enqueue: one thread, every call a commit",
        ("kind", "system", "jobs/s", "lowest-highest", "x pgqueuer", "client us/job", "server us/job"),
    )
    report.note(databases.describe(server))
    bulk_rates: dict[str, float] = {}
    for title, action, params in kinds:
        measurements: dict[str, Measurement] = {
            name: partial(once, server, module, action, {**params, **settings})
            for name, (module, settings) in SYSTEMS.items()
        }
        if action == "enqueue_single":
            measurements["sloppyjobs, in the caller's session"] = partial(
                once, server, "ours", "enqueue_in_session", params
            )
            measurements[BARE_IN_SESSION] = partial(once, server, "bare_enqueue", "enqueue_in_session", params)
        else:
            measurements[BARE] = partial(once, server, "bare_enqueue", action, params)
        results = alternate(chosen(measurements, peers), rounds, report)
        rates = {name: middle(found, "per_second") for name, found in results.items()}
        for name, found in results.items():
            times = ratio(rates[name], best(rates, "pgqueuer"))
            cpu = (middle_if_known(found, key) for key in ("cpu_us_per_job", "server_us_per_job"))
            report.add(title, name, rates[name], spread(found, "per_second"), times, *cpu)
            if action == "enqueue_bulk":
                bulk_rates[name] = max(rates[name], bulk_rates.get(name, 0))
    for name, rate in bulk_rates.items():
        report.add("bulk, its fastest size", name, rate, None, ratio(rate, best(bulk_rates, "pgqueuer")), None, None)
    report.note("'x pgqueuer' is against the faster of its two drivers")
    report.note("us/job are microseconds of CPU, of the client and of all processes of the server")
    report.note(f"'{BARE}': our statements alone, whose values were made before; CPU that no client can save")
    report.note(f"'{BARE_IN_SESSION}': begin, our statement with such values, executed by SQLAlchemy, commit")
    report.note(f"medians of {rounds} alternating rounds")
    return [report]
