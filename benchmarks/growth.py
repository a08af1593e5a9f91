"""Whether a claim, and a look at an idle queue, take longer when the tables are full of other jobs."""

from __future__ import annotations

from typing import Any

from benchmarks import databases, subject
from benchmarks.report import Report

SCENARIOS: dict[str, dict[str, Any]] = {
    "pending, same queue and name": {"status": "queued", "rows": 1_000_000},
    "pending in another queue": {"status": "queued", "rows": 1_000_000, "queue": "elsewhere"},
    "pending, a name we do not know": {"status": "queued", "rows": 1_000_000, "name": "unknown"},
    "finished": {"status": "succeeded", "rows": 5_000_000},
    "scheduled for later": {"status": "scheduled", "rows": 1_000_000},
}


def run(server: str, scale: float, sqlite_scale: float) -> list[Report]:
    """Every scenario in a database of its own, before and after ANALYZE."""
    return [_postgres(server, scale), _sqlite(sqlite_scale)]


def _postgres(server: str, scale: float) -> Report:
    report = _report("PostgreSQL")
    report.note(databases.describe(server))
    for title, backlog in SCENARIOS.items():
        with databases.fresh_postgres(server) as url, databases.fresh_postgres(server) as small:
            _measure(report, title, url, small, backlog, scale)
    return report


def _sqlite(scale: float) -> Report:
    report = _report("SQLite")
    for title, backlog in SCENARIOS.items():
        with databases.fresh_sqlite() as path, databases.fresh_sqlite() as small:
            _measure(report, title, f"sqlite:///{path}", f"sqlite:///{small}", backlog, scale)
    return report


def _report(database: str) -> Report:
    columns = ("table holds", "statistics", "claim of 10, ms", "x alone", "idle claim, ms", "x alone")
    report = Report(f"growth: {database}", (*columns, "sweep, ms", "x alone"))
    report.note("medians of 200; an idle claim asks for a queue that is empty; a sweep looks for leases and due times")
    report.note("'x alone' is against the same in a database that holds nothing else, taken in turns")
    return report


def _measure(report: Report, title: str, url: str, small: str, backlog: dict[str, Any], scale: float) -> None:
    rows = int(backlog["rows"] * scale)
    for each in (url, small):
        subject.run("ours", "prepare", url=each)
    found = subject.run("backlog", "measure", url=url, small=small, **{**backlog, "rows": rows})
    for state, times in found.items():
        cells = [cell for key in ("claim", "idle_claim", "sweep") for cell in times[key]]
        report.add(f"{rows:,} {title}", state, *cells)
