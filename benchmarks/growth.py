"""Whether a claim, and a look at an idle queue, take longer when the tables are full of other jobs."""

from __future__ import annotations

from typing import Any

from benchmarks import databases, subject
from benchmarks.report import Report, ratio

SCENARIOS = {
    "a small table": {},
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
    base: dict[str, Any] = {}
    for title, backlog in SCENARIOS.items():
        with databases.fresh_postgres(server) as url:
            _measure(report, title, url, backlog, scale, base)
    return report


def _sqlite(scale: float) -> Report:
    report = _report("SQLite")
    base: dict[str, Any] = {}
    for title, backlog in SCENARIOS.items():
        with databases.fresh_sqlite() as path:
            _measure(report, title, f"sqlite:///{path}", backlog, scale, base)
    return report


def _report(database: str) -> Report:
    columns = ("table holds", "statistics", "claim of 10, ms", "x small", "idle claim, ms", "x small")
    report = Report(f"growth: {database}", (*columns, "sweep, ms", "x small"))
    report.note("medians of 200; an idle claim asks for a queue that is empty; a sweep looks for leases and due times")
    return report


def _measure(report: Report, title: str, url: str, backlog: dict[str, Any], scale: float, base: dict[str, Any]) -> None:
    rows = int(backlog.get("rows", 0) * scale)
    subject.run("ours", "prepare", url=url)
    found = subject.run("backlog", "measure", url=url, **{**backlog, "rows": rows})
    for state, times in found.items():
        small = base.setdefault(state, times)
        cells: list[Any] = []
        for key in ("claim", "idle_claim", "sweep"):
            cells += [times[key], ratio(times[key], small[key])]
        report.add(f"{rows:,} {title}" if rows else title, state, *cells)
