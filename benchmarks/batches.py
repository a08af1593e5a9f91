"""What a batch costs: the drain of its jobs beside that of plain ones, by one worker and by several; and bulk calls."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import Any

from benchmarks import databases, ours, subject
from benchmarks.report import Report, middle, middle_if_known, spread
from benchmarks.rounds import Measurement, Results, alternate
from benchmarks.stopwatch import Stopwatch, rate
from sloppyjobs import Jobs

CALL = 1000
"""Jobs in each bulk call."""
WORKERS = 16
"""Workers that settle jobs of one batch at once."""
CASES: dict[str, tuple[str, bool, int]] = {
    "drain, plain": ("drain", False, 1),
    "drain, one batch": ("drain", True, 1),
    f"drain by {WORKERS} workers, plain": ("drain", False, WORKERS),
    f"drain by {WORKERS} workers, one batch": ("drain", True, WORKERS),
    f"bulk of {CALL}, plain": ("enqueue", False, 1),
    f"bulk of {CALL}, one batch": ("enqueue", True, 1),
}
"""What is measured, whether the jobs are of a batch, and the number of workers."""


def prepare(url: str, jobs: int, batched: bool) -> None:
    """Create the tables, and enqueue."""
    found = Jobs(url)
    found.declare("noop")
    found.init()
    items = [("noop", {"n": n}) for n in range(jobs)]
    if not batched:
        found.enqueue_many(items)
        return
    with found.batch("bench") as batch:
        batch.enqueue_many(items)


def drain(url: str, jobs: int, workers: int) -> dict[str, Any]:
    """Run workers, each with its own connections, until everything is settled."""
    watch = Stopwatch(jobs, url)
    found = Jobs(url)

    def handle(_ctx: Any, _payload: Any) -> None:
        watch.handle()

    found.define("noop", handle)
    started = [found.create_worker(concurrency=16, prefetch=100) for _ in range(workers)]
    for worker in started:
        worker.start()
    result = ours.finish(url, jobs, watch)
    for worker in started:
        worker.stop(timeout=10)
    return result


def enqueue(url: str, jobs: int, batched: bool) -> dict[str, Any]:
    """Enqueue in bulk calls."""
    found = Jobs(url)
    found.declare("noop")
    items = [("noop", {"n": n}) for n in range(jobs)]
    add: Any = found.open_batch("bench").enqueue_many if batched else found.enqueue_many
    add(items[:2])
    return rate(jobs, url, lambda: [add(items[start : start + CALL]) for start in range(0, jobs, CALL)])


def _once(place: Any, jobs: int, case: str) -> dict[str, Any]:
    what, batched, workers = CASES[case]
    with place() as where:
        url = where if "://" in where else f"sqlite:///{where}"
        if what == "drain":
            subject.run("batches", "prepare", url=url, jobs=jobs, batched=batched)
            return subject.run("batches", "drain", url=url, jobs=jobs, workers=workers)
        subject.run("batches", "prepare", url=url, jobs=0, batched=False)
        return subject.run("batches", "enqueue", url=url, jobs=jobs, batched=batched)


def run(server: str, jobs: int, rounds: int) -> list[Report]:
    """Every case on PostgreSQL and on SQLite."""
    report = Report(
        f"batches: {jobs:,} jobs",
        ("database", "case", "jobs/s", "lowest-highest", "x plain", "client us/job", "server us/job"),
    )
    report.note(databases.describe(server))
    for name, place in (
        ("PostgreSQL", partial(databases.fresh_postgres, server)),
        ("SQLite", databases.fresh_sqlite),
    ):
        systems: dict[str, Measurement] = {case: partial(_once, place, jobs, case) for case in CASES}
        _tabulate(report, name, alternate(systems, rounds, report))
    report.note(f"medians of {rounds} alternating rounds; 'x plain' is the median of the ratios within each round")
    return [report]


def _tabulate(report: Report, database: str, results: Results) -> None:
    for case, found in results.items():
        plain = results[case.replace("one batch", "plain")]
        times = median(one["per_second"] / other["per_second"] for one, other in zip(found, plain, strict=True))
        client, server = (middle_if_known(found, key) for key in ("cpu_us_per_job", "server_us_per_job"))
        rates = middle(found, "per_second"), spread(found, "per_second")
        report.add(database, case, *rates, f"{times:.2f}", client, server)
