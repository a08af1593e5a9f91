"""This checkout beside another, such as the commit before a change: the same cases, in alternating rounds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import databases, subject
from benchmarks.report import Report, middle, spread
from benchmarks.rounds import Measurement, alternate

HERE = Path(__file__).parents[1]


class Case(NamedTuple):
    """An action of ``benchmarks.ours``, the value that it measures, and what it is given."""

    action: str
    key: str
    params: Mapping[str, Any]
    filled: int = 0
    sqlite: bool = False


def cases(jobs: int) -> dict[str, Case]:
    """What is compared."""
    call = {"jobs": 5 * jobs, "call": 1000}
    return {
        "drain, 16 threads": Case("drain", "per_second", {"jobs": jobs, "handlers": "threads"}, filled=jobs),
        "drain, coroutines": Case("drain", "per_second", {"jobs": jobs, "handlers": "coroutines"}, filled=jobs),
        "single enqueue": Case("enqueue_single", "per_second", {"jobs": jobs // 10}),
        "bulk by 1000": Case("enqueue_bulk", "per_second", call),
        "bulk by 5000": Case("enqueue_bulk", "per_second", {**call, "call": 5000}),
        "latency p50, ms": Case("latency", "p50", {"jobs": 200, "handlers": "threads"}),
        "latency p99, ms": Case("latency", "p99", {"jobs": 200, "handlers": "threads"}),
        "idle RSS, MB": Case("idle", "rss_mb", {"seconds": 3.0}),
        "SQLite, drain": Case(
            "drain", "per_second", {"jobs": jobs // 2, "handlers": "threads"}, filled=jobs // 2, sqlite=True
        ),
        "SQLite, single enqueue": Case("enqueue_single", "per_second", {"jobs": jobs // 10}, sqlite=True),
        "SQLite, bulk by 1000": Case("enqueue_bulk", "per_second", call, sqlite=True),
    }


def once(server: str, checkout: Path, case: Case) -> dict[str, Any]:
    """Measure one checkout on a new database."""
    run = partial(subject.run, "ours", checkout=checkout)
    if case.sqlite:
        with databases.fresh_sqlite() as path:
            url = f"sqlite:///{path}"
            run("prepare", url=url, jobs=case.filled)
            return run(case.action, url=url, **case.params)
    with databases.fresh_postgres(server) as url:
        run("prepare", url=url, jobs=case.filled)
        return run(case.action, url=url, **case.params)


def run(server: str, other: Path, jobs: int, rounds: int, only: tuple[str, ...]) -> list[Report]:
    """Every case in both checkouts, and the ratio of this one to the other."""
    report = Report(
        f"{HERE.name} beside {other.name}", ("case", other.name, "lowest-highest", HERE.name, "lowest-highest", "ratio")
    )
    report.note(databases.describe(server))
    for name, case in cases(jobs).items():
        if only and not any(word in name for word in only):
            continue
        measurements: dict[str, Measurement] = {
            "before": partial(once, server, other, case),
            "after": partial(once, server, HERE, case),
        }
        found = alternate(measurements, rounds, report)
        before, after = (middle(found[which], case.key) for which in ("before", "after"))
        faster = before / after if case.key != "per_second" else after / before
        report.add(
            name, before, spread(found["before"], case.key), after, spread(found["after"], case.key), f"{faster:.2f}"
        )
    report.note("a ratio above 1 is better than before, whether the figure is a rate, a time or memory")
    report.note(f"medians of {rounds} alternating rounds, each checkout by the Python of its own .venv")
    return [report]
