"""How long the pages take with few jobs and with many: ``python tests/web/growth.py --jobs 1000000``.

Prints, as Markdown, the median milliseconds of each page at both sizes, the ratio, everything that was sent to the
database for a page (counted by the driver), and the indexes by which the table of jobs was read. Requests alternate
between the two sizes, and the ratio is the median of those of neighbours, so that a busy machine is busy for both.
``--server`` names a PostgreSQL server; databases of
its own are made there and dropped. With ``--keep`` what was filled stays, and the next run begins with it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from flask import Flask
from sqlalchemy import create_engine, event, make_url

import webui
from sloppyjobs import Jobs, Retry
from webui.blueprint import build
from webui.ui import Ui

PATHS = (
    "/",
    "/?range=7d",
    "/jobs",
    "/jobs?status=dead",
    "/jobs?status=succeeded&size=100",
    "/jobs?queue=q7&range=24h",
    "/jobs?correlation_id=c-7",
    "/jobs/{dead}",
    "/jobs/{queued}",
    "/dead",
    "/queues",
    "/queues/q7",
    "/recurring",
    "/recurring/nightly",
    "/workers",
    "/locks",
    "/limits",
    "/limits/payments-api",
    "/audit",
    "/archive",
    "/alerts",
    "/workflows",
    "/batches",
)
QUEUES = tuple(f"q{n}" for n in range(20))
BATCH = 10_000
ROUNDS = 61
PREFIX = "/j"


class Page(NamedTuple):
    """What one page took: milliseconds, everything sent to the database, and how it read the table of jobs.

    ``ratio`` compares it with the first site.
    """

    milliseconds: float
    ratio: float
    sent: int
    plan: frozenset[str]


# Filling


def fill(jobs: Jobs, count: int) -> None:
    """So many jobs: most of them done, some dead, some waiting. Settled in bulk by the claim protocol."""
    for start in range(0, count, BATCH):
        jobs.enqueue_many(
            ("work", {"n": n}, {"queue": QUEUES[n % 20], "correlation_id": f"c-{n // 20}"})
            for n in range(start, min(count, start + BATCH))
        )
        _settle(jobs, min(BATCH, count - start) * 9 // 10)
    jobs.recurring("nightly", "work", {}, cron="0 2 * * *")
    jobs.limit("payments-api", concurrency=5)


def _settle(jobs: Jobs, count: int) -> None:
    from sloppyjobs.domain.model import Settlement
    from sloppyjobs.domain.states import Failed, Failure, Succeeded, decide

    while count > 0:
        claims = jobs.claim("filler", queues=QUEUES, limit=min(500, count), lease=600)
        if not claims:
            return
        failed = Failed(Failure("SLOPPY_E_JOBS_HANDLER_FAILED", "no reply", "SmtpTimeout", "mail:send"), 0, False)
        outcomes = (failed if number % 20 == 0 else Succeeded() for number in range(len(claims)))
        jobs.storage.settle(
            [
                Settlement(claim.id, claim.attempt, claim.worker_id, decide(claim.attempt, 1, outcome))
                for claim, outcome in zip(claims, outcomes, strict=True)
            ]
        )
        count -= len(claims)


def filled(url: str, count: int) -> Jobs:
    """Jobs in that database, filled unless they are already."""
    jobs = Jobs(url)
    jobs.storage.init()
    jobs.define("work", lambda ctx, payload: None, retry=Retry(max_attempts=1))
    if not jobs.admin.list_jobs(page_size=1):
        started = time.perf_counter()
        fill(jobs, count)
        sys.stderr.write(f"{jobs.storage.dialect.name}: {count:,} jobs after {time.perf_counter() - started:.0f} s\n")
    if jobs.storage.dialect.name == "postgresql":
        with jobs.storage.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            # As autovacuum does in its time.
            connection.exec_driver_sql(f"VACUUM (ANALYZE) {jobs.storage.tables.jobs.name}")
    return jobs


# Measuring


class Site:
    """The pages of one database, and a client."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs
        app = Flask("host")
        app.secret_key = "x"
        self.ui = Ui(jobs, webui.AllowAll(), None, "sloppyjobs", read_only=False)
        app.register_blueprint(build(self.ui), url_prefix=PREFIX)
        self.client = app.test_client(use_cookies=False)
        self.names = {status: jobs.admin.list_jobs(status, page_size=1)[0].id for status in ("dead", "queued")}

    def get(self, path: str) -> float:
        """Open a page, without what was kept from the last time; the seconds it took."""
        self.ui.snapshots.clear()
        before = time.perf_counter()
        response = self.client.get(PREFIX + path.format(**self.names))
        taken = time.perf_counter() - before
        assert response.status_code == 200, (path, response.status_code)
        return taken

    def sent(self, path: str) -> int:
        """How many statements the driver sends for a page, those that begin and end its transaction included."""
        self.get(path)
        with sent(self.jobs) as statements:
            self.get(path)
        return len(statements)

    def plan(self, path: str) -> frozenset[str]:
        """How the page reads the table of jobs."""
        return plans(self.jobs, lambda: self.get(path))


@contextmanager
def sent(jobs: Jobs) -> Iterator[list[str]]:
    """Collect everything that drivers send to the database meanwhile, on connections of the pool in use."""
    statements: list[str] = []
    connection = jobs.storage.engine.connect()
    driver: Any = connection.connection.driver_connection
    connection.close()
    if jobs.storage.dialect.name == "sqlite":
        driver.set_trace_callback(statements.append)
        yield statements
        driver.set_trace_callback(None)
        return
    with tempfile.TemporaryFile("w+") as trace:
        driver.pgconn.trace(trace.fileno())
        yield statements
        driver.pgconn.untrace()
        trace.seek(0)
        # Lines of the protocol: time, direction, length, message and its fields. "F" comes from the front end.
        messages = [line.rstrip("\n").split("\t") for line in trace]
        statements += [parts[-1] for parts in messages if parts[1:2] == ["F"] and parts[3] in ("Query", "Execute")]


def plans(jobs: Jobs, work: Any) -> frozenset[str]:
    """By which indexes ``work`` reads the table of jobs; "all rows" where it does without any."""
    asked: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        if jobs.storage.tables.jobs.name in statement:
            asked.append((statement, parameters))

    event.listen(jobs.storage.engine, "before_cursor_execute", note)
    try:
        work()
    finally:
        event.remove(jobs.storage.engine, "before_cursor_execute", note)
    found: set[str] = set()
    with jobs.storage.engine.connect() as connection:
        jobs.storage.database.bounded(connection)
        for statement, parameters in asked:
            if jobs.storage.dialect.name == "sqlite":
                rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
                found.update(_sqlite_step(row[3], jobs.storage.tables.jobs.name) for row in rows)
            else:
                plan = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters).scalar_one()
                plan = json.loads(plan) if isinstance(plan, str) else plan
                found.update(_postgres_scans(plan[0]["Plan"], jobs.storage.tables.jobs.name))
    return frozenset(found - {""})


def _sqlite_step(step: str, table: str) -> str:
    words = step.split()
    if words[0] not in ("SCAN", "SEARCH") or words[1] != table:
        return ""
    return words[words.index("INDEX") + 1] if "INDEX" in words else "all rows"


def _postgres_scans(node: dict[str, Any], table: str) -> Iterator[str]:
    if node.get("Relation Name") == table:
        yield node.get("Index Name", "all rows")
    for inner in node.get("Plans", ()):
        yield from _postgres_scans(inner, table)


def measure(sites: list[Site], rounds: int = ROUNDS) -> list[dict[str, Page]]:
    """Every page of every site, in turn, so many times."""
    found: list[dict[str, Page]] = [{} for _ in sites]
    for path in PATHS:
        for site in sites:
            site.get(path)
        taken = [[site.get(path) for site in sites] for _ in range(rounds)]
        for place, site in enumerate(sites):
            median = statistics.median(one[place] for one in taken) * 1000
            ratio = statistics.median(one[place] / one[0] for one in taken)
            found[place][path] = Page(median, ratio, site.sent(path), site.plan(path))
    return found


def table(few: int, many: int, small: dict[str, Page], large: dict[str, Page], prefix: str) -> Iterator[str]:
    """Both sizes side by side."""
    yield f"| page | {few:,} jobs, ms | {many:,} jobs, ms | ratio | sent | jobs are read by |"
    yield "|---|---|---|---|---|---|"
    for path in PATHS:
        before, after = small[path], large[path]
        by = ", ".join(sorted(name.removeprefix(prefix) for name in after.plan)) or "not read"
        times = f"{before.milliseconds:.1f} | {after.milliseconds:.1f} | {after.ratio:.2f}"
        yield f"| `{path}` | {times} | {after.sent} | {by} |"


# The command


@contextmanager
def databases(server: str | None, folder: Path, sizes: tuple[int, int], *, keep: bool) -> Iterator[list[str]]:
    """A database for each size: on a PostgreSQL server, or SQLite files."""
    if server is None:
        yield [f"sqlite:///{folder / f'growth-{size}.db'}" for size in sizes]
        return
    url = make_url(server).set(drivername="postgresql+psycopg")
    names = [f"sloppyjobs_growth_{size}" for size in sizes]
    engine = create_engine(url.set(database="postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        there = set(connection.exec_driver_sql("SELECT datname FROM pg_database").scalars())
        for name in names:
            if name not in there:
                connection.exec_driver_sql(f'CREATE DATABASE "{name}"')
        yield [url.set(database=name).render_as_string(hide_password=False) for name in names]
        for name in names if not keep else ():
            connection.exec_driver_sql(f'DROP DATABASE "{name}" WITH (FORCE)')
    engine.dispose()


def main() -> None:
    """Fill, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--few", type=int, default=1_000)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--server", help="a PostgreSQL server, as a URL; without it, SQLite")
    parser.add_argument("--folder", type=Path, help="where the SQLite files are; a temporary folder by default")
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        sizes = (given.few, given.jobs)
        with databases(given.server, given.folder or Path(scratch), sizes, keep=given.keep) as urls:
            sites = [Site(filled(url, size)) for url, size in zip(urls, sizes, strict=True)]
            small, large = measure(sites, given.rounds)
            for line in table(*sizes, small, large, "ix_sloppy_jobs_"):
                sys.stdout.write(f"{line}\n")
            for site in sites:
                site.jobs.storage.close()


if __name__ == "__main__":
    main()
