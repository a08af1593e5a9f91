"""Jobs of workflows beside plain ones; and a job for which thousands of others wait."""

from __future__ import annotations

import threading
import time
from functools import partial
from statistics import median
from typing import Any

from sqlalchemy import Connection, text

from benchmarks import by_statement, databases, subject
from benchmarks.report import Report, middle, middle_if_known, spread
from benchmarks.rounds import Measurement, Results, alternate
from benchmarks.stopwatch import Stopwatch, rate
from sloppyjobs import Jobs

KINDS = ("plain", "members without edges", "graphs of 10")
CHILDREN = 5000
HEARTBEAT = 0.2


def _defined(url: str, watch: Stopwatch | None = None) -> Jobs:
    found = Jobs(url)
    found.define("noop", lambda _ctx, _payload: watch.handle() if watch is not None else None)
    return found


def prepare(url: str, jobs: int, kind: str) -> None:
    """Create the tables, and write the jobs. A graph: one job, eight that wait for it, and one that waits for these."""
    found = _defined(url)
    found.init()
    if kind == "plain":
        found.enqueue_many([("noop", {"n": n}) for n in range(jobs)])
        return
    for start in range(0, jobs, 10 if kind == "graphs of 10" else 1000):
        with found.workflow("measured") as flow:
            if kind == "graphs of 10":
                first = flow.add("noop", {"n": start})
                flow.add("noop", after=[flow.add("noop", {"n": n}, after=first) for n in range(8)])
            else:
                for n in range(start, min(jobs, start + 1000)):
                    flow.add("noop", {"n": n})


def drain(url: str, jobs: int) -> dict[str, Any]:
    """Run a worker until everything is settled."""
    watch = Stopwatch(jobs, url)
    worker = _defined(url, watch).create_worker(concurrency=16)
    worker.start()
    result = _finish(url, jobs, watch)
    worker.stop(timeout=10)
    return result


def _finish(url: str, jobs: int, watch: Stopwatch) -> dict[str, Any]:
    """Wait until every job is settled; a job that has waited has one event more than a plain one."""
    engine = Jobs(url).storage.engine
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:

        def count(status: str) -> int:
            query = text("SELECT count(*) FROM sloppy_jobs WHERE status = :status")
            found: int = connection.execute(query, {"status": status}).scalar_one()
            return found

        result = watch.wait(lambda: count("processing") == 0)
        if count("succeeded") != jobs:
            raise AssertionError(f"{count('succeeded')} jobs have succeeded, not {jobs}")
    return result


def release(url: str, children: int) -> dict[str, Any]:
    """Settle a job for which so many wait, while its worker renews the lease of another one."""
    found = _defined(url)
    found.init()
    with found.workflow("wide") as flow:
        first = flow.add("noop")
        for n in range(children):
            flow.add("noop", {"n": n}, after=first)
    other = found.enqueue("noop")
    by_id = {claim.id: claim for claim in found.claim("w", limit=2, lease=30)}
    gaps, done = [0.0], threading.Event()

    def renew() -> None:
        last = time.perf_counter()
        while not done.wait(HEARTBEAT):
            assert found.heartbeat(by_id[other.id])
            now = time.perf_counter()
            gaps.append(now - last - HEARTBEAT)
            last = now

    thread = threading.Thread(target=renew)
    thread.start()
    begun = time.perf_counter()
    assert found.complete(by_id[first.id])
    took = time.perf_counter() - begun
    done.set()
    thread.join()
    return {"seconds": took, "late": max(gaps)}


WRITES = {
    "edges decided": "UPDATE sloppy_job_dependencies SET state = 1 WHERE child_id BETWEEN :first AND :last",
    "jobs queued": "UPDATE sloppy_jobs SET status = 'queued', updated_at = created_at, waiting_for = NULL"
    " WHERE id BETWEEN :first AND :last AND coalesce(status, '') = 'waiting'",
    "events written": "INSERT INTO sloppy_job_events (job_id, event_type, from_status, to_status, created_at)"
    " SELECT id, 'unblocked', 'waiting', 'queued', created_at FROM sloppy_jobs WHERE id BETWEEN :first AND :last"
    " AND id IN (SELECT child_id FROM sloppy_job_dependencies WHERE child_id BETWEEN :first AND :last)",
}
"""What the release of jobs that are queued must write: by ranges of ids, without a lock, a test or a parent."""
RANGE = 500


def writes(url: str, jobs: int) -> dict[str, float]:
    """Do nothing but these writes for all jobs that wait: the CPU of each, of the server where there is one."""
    took = {}
    with Jobs(url).storage.engine.connect() as connection:
        ids = list(connection.execute(text("SELECT id FROM sloppy_jobs ORDER BY id")).scalars())
        connection.rollback()
        for name, statement in WRITES.items():
            used = rate(jobs, url, partial(_by_ranges, connection, statement, ids))
            took[name] = used["server_us_per_job"] or used["cpu_us_per_job"]
    return took


def _by_ranges(connection: Connection, statement: str, ids: list[str]) -> None:
    for start in range(0, len(ids), RANGE):
        some = ids[start : start + RANGE]
        connection.execute(text(statement), {"first": some[0], "last": some[-1]})
        connection.commit()


def _writes(place: Any, jobs: int) -> dict[str, Any]:
    with place() as where:
        url = where if "://" in where else f"sqlite:///{where}"
        subject.run("workflows", "prepare", url=url, jobs=jobs, kind="graphs of 10")
        return subject.run("workflows", "writes", url=url, jobs=jobs)


def _statements(server: str, jobs: int, kind: str) -> dict[str, Any]:
    with databases.fresh_postgres(server) as url:
        subject.run("workflows", "prepare", url=url, jobs=jobs, kind=kind)
        return subject.run("by_statement", "drain", url=url, jobs=jobs, graphs=kind == "graphs of 10")


def _by_statement(server: str, jobs: int, rounds: int) -> Report:
    report = Report(
        "workflows: CPU of PostgreSQL by statement, all on one connection, us/job",
        ("jobs", *by_statement.PARTS, "sum"),
    )
    systems: dict[str, Measurement] = {kind: partial(_statements, server, jobs, kind) for kind in KINDS}
    for kind, found in alternate(systems, rounds, report).items():
        parts = {part: median(one[part] for one in found) for part in by_statement.PARTS}
        report.add(kind, *(f"{value:.1f}" for value in (*parts.values(), sum(parts.values()))))
    return report


def _once(place: Any, jobs: int, kind: str) -> dict[str, Any]:
    with place() as where:
        url = where if "://" in where else f"sqlite:///{where}"
        subject.run("workflows", "prepare", url=url, jobs=jobs, kind=kind)
        return subject.run("workflows", "drain", url=url, jobs=jobs)


def _release(place: Any) -> dict[str, Any]:
    with place() as where:
        url = where if "://" in where else f"sqlite:///{where}"
        return subject.run("workflows", "release", url=url, children=CHILDREN)


def run(server: str, jobs: int, rounds: int) -> list[Report]:
    """On PostgreSQL and on SQLite."""
    drains = Report(
        f"workflows: {jobs:,} no-op jobs, one worker process, 16 threads",
        ("database", "jobs", "jobs/s", "lowest-highest", "x plain", "client us/job", "server us/job"),
    )
    bare = Report(
        "workflows: what the release of jobs in graphs of ten writes where all are queued, CPU in us/job",
        ("database", *WRITES),
    )
    releases = Report(
        f"workflows: one settlement lets {CHILDREN:,} jobs go",
        ("database", "seconds", "latest heartbeat of another job, s"),
    )
    drains.note(databases.describe(server))
    for name, place in (
        ("PostgreSQL", partial(databases.fresh_postgres, server)),
        ("SQLite", databases.fresh_sqlite),
    ):
        systems: dict[str, Measurement] = {kind: partial(_once, place, jobs, kind) for kind in KINDS}
        _tabulate(drains, name, alternate(systems, rounds, drains))
        found = [_release(place) for _ in range(rounds)]
        releases.add(
            name, f"{median(one['seconds'] for one in found):.2f}", f"{median(one['late'] for one in found):.2f}"
        )
        found = [_writes(place, jobs) for _ in range(rounds)]
        bare.add(name, *(f"{median(one[part] for one in found):.1f}" for part in WRITES))
    drains.note("a graph is one job, eight that wait for it, and one that waits for them")
    drains.note(f"medians of {rounds} alternating rounds; 'x plain' is the median of the ratios within each round")
    by_statement_too = [_by_statement(server, jobs, rounds)] if by_statement.AVAILABLE else []
    return [drains, releases, bare, *by_statement_too]


def _tabulate(report: Report, database: str, results: Results) -> None:
    for kind, found in results.items():
        pairs = zip(found, results["plain"], strict=True)
        times = median(one["per_second"] / plain["per_second"] for one, plain in pairs)
        client, server = (middle_if_known(found, key) for key in ("cpu_us_per_job", "server_us_per_job"))
        rates = middle(found, "per_second"), spread(found, "per_second")
        report.add(database, kind, *rates, f"{times:.2f}", client, server)
