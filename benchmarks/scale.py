"""Many worker processes on one PostgreSQL: how the rate grows, whose CPU it takes, and what a job leaves behind.

The queue is paused while it is filled and while the workers start, so that all of them begin together. Times are the
database's own, from the first attempt's start to the last one's end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import psutil
import psycopg

from benchmarks import databases, subject
from benchmarks.report import Report, middle, ratio, spread
from benchmarks.rounds import alternate
from benchmarks.server_cpu import ServerCpu
from sloppyjobs import Jobs

PATIENCE_SECONDS = 300
TABLES = ("sloppy_jobs", "sloppy_job_attempts", "sloppy_job_events")


def run(server: str, jobs: int, rounds: int, processes: Sequence[int], milliseconds: float) -> list[Report]:
    """Drain with each number of processes, and weigh what one job has written."""
    systems = {_title(count): partial(once, server, jobs, count, milliseconds) for count in processes}
    results = alternate(systems, rounds)
    handlers = f"that wait {milliseconds:g} ms" if milliseconds else "that do nothing"
    return [_rates(server, f"{jobs:,} jobs {handlers}", rounds, results), _weights(jobs, results)]


def once(server: str, jobs: int, processes: int, milliseconds: float) -> dict[str, Any]:
    """Fill a new database and drain it with so many worker processes."""
    with databases.fresh_postgres(server) as url, psycopg.connect(url, autocommit=True) as connection:
        subject.run("ours", "prepare", url=url)
        admin, server = Jobs(url), ServerCpu(url)
        admin.admin.pause_queue("default")
        written = _wal(connection)
        subject.run("ours", "prepare", url=url, jobs=jobs)
        wal_enqueue, written = _wal(connection) - written, _wal(connection)
        with _workers(url, connection, processes, milliseconds) as workers:
            before = server.seconds(), _cpu(workers)
            admin.admin.resume_queue("default")
            _until(connection, "SELECT NOT EXISTS (SELECT FROM sloppy_jobs WHERE status IN ('queued', 'processing'))")
            after = server.seconds(), _cpu(workers)
        result = _measured(connection, jobs)
        removed = _removal(admin)
        admin.storage.close()
    known = before[0] is not None and after[0] is not None
    return {
        **result,
        "database_cpu": (after[0] - before[0]) / result["seconds"] * 100 if known else None,
        "workers_cpu": (after[1] - before[1]) / result["seconds"] * 100,
        "wal_enqueue": wal_enqueue / jobs,
        "wal_drain": result.pop("wal_end") / jobs - written / jobs,
        "removed_per_second": removed,
    }


def _measured(connection: psycopg.Connection, jobs: int) -> dict[str, Any]:
    done, seconds, busiest = _one(
        connection,
        "SELECT count(*), extract(epoch FROM max(finished_at) - min(started_at))::float8,"
        " (SELECT max(n) FROM (SELECT count(*) AS n FROM sloppy_job_attempts GROUP BY worker_id) AS by_worker)"
        " FROM sloppy_job_attempts WHERE status = 'succeeded'",
    )
    if done != jobs:
        raise AssertionError(f"{done} attempts succeeded, not {jobs}")
    sizes = {table: _one(connection, f"SELECT pg_total_relation_size('{table}')")[0] / jobs for table in TABLES}
    return {
        "seconds": seconds,
        "per_second": jobs / seconds,
        "busiest": busiest / jobs * 100,
        "wal_end": _wal(connection),
        "bytes": sizes,
    }


def _removal(jobs: Jobs) -> float:
    """Finished jobs a second that cleanup and purge remove together, a thousand at a time as workers do."""
    began, removed = time.perf_counter(), 0
    while jobs.admin.cleanup(ages={"succeeded": 0}).total:
        pass
    while purged := jobs.admin.purge(older_than=0).jobs:
        removed += purged
    return removed / (time.perf_counter() - began)


@contextmanager
def _workers(
    url: str, connection: psycopg.Connection, count: int, milliseconds: float
) -> Iterator[list[psutil.Process]]:
    """So many worker processes, up and heard of; stopped at the end."""
    settings = json.dumps({"url": url, "milliseconds": milliseconds})
    command = [sys.executable, "-m", "benchmarks.subject", "ours", "work", settings]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    children = [subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) for _ in range(count)]
    try:
        _until(connection, f"SELECT count(*) = {count} FROM sloppy_job_workers")
        # What a process does once in its life is not part of the measurement.
        time.sleep(1.5)
        yield [psutil.Process(child.pid) for child in children]
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.wait(60)


def _cpu(processes: Sequence[psutil.Process]) -> float:
    """CPU seconds that they have used."""
    seconds = 0.0
    for process in processes:
        try:
            used = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        seconds += used.user + used.system
    return seconds


def _until(connection: psycopg.Connection, question: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not _one(connection, question)[0]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"still not: {question}")
        time.sleep(0.05)


def _wal(connection: psycopg.Connection) -> float:
    return float(_one(connection, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")[0])


def _one(connection: psycopg.Connection, query: str) -> tuple[Any, ...]:
    found = connection.execute(query).fetchone()
    assert found is not None
    return tuple(found)


def _title(processes: int) -> str:
    return f"{processes} worker process{'es' if processes > 1 else ''}"


def _rates(server: str, what: str, rounds: int, results: dict[str, list[dict[str, Any]]]) -> Report:
    columns = ("workers", "jobs/s", "lowest-highest", "x first", "database CPU %", "workers CPU %", "busiest took %")
    report = Report(f"scale: {what}, 16 threads in each process", columns)
    first: float | None = None
    for name, found in results.items():
        rate = middle(found, "per_second")
        first = first or rate
        database = None if found[0]["database_cpu"] is None else middle(found, "database_cpu")
        cells = (spread(found, "per_second"), ratio(rate, first), database, middle(found, "workers_cpu"))
        report.add(name, rate, *cells, middle(found, "busiest"))
    report.note(databases.describe(server))
    report.note(f"medians of {rounds} rounds; 100 % is one core, of {os.cpu_count()} that this machine has")
    return report


def _weights(jobs: int, results: dict[str, list[dict[str, Any]]]) -> Report:
    """What one job has written, by the first system's first round."""
    found = next(iter(results.values()))[0]
    report = Report("scale: what one finished job leaves behind", ("part", "bytes/job"))
    for table, size in found["bytes"].items():
        report.add(f"{table}, indexes included", size)
    report.add("together", sum(found["bytes"].values()))
    report.add("WAL of its enqueue, many in a call", found["wal_enqueue"])
    report.add("WAL of its run", found["wal_drain"])
    report.note(f"cleanup and purge removed {found['removed_per_second']:,.0f} jobs a second, one process at work")
    report.note(f"after {jobs:,} jobs with a payload of about 12 bytes, one attempt each, before any vacuum or purge")
    return report
