"""How much of a drain's rate is left where some of the jobs fail: for good, or once before they succeed."""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import Any

import sqlalchemy

from benchmarks import databases, subject
from benchmarks.report import Report, middle, middle_if_known, ratio, spread
from benchmarks.rounds import Measurement, alternate, chosen
from benchmarks.stopwatch import Stopwatch
from sloppyjobs import NO_RETRY, Jobs, Retry

SHARES = (0, 1, 10, 50)
"""Jobs of a hundred that fail."""
POLICIES = {
    "dead": NO_RETRY,
    "retried at once": Retry(max_attempts=2, backoff="none"),
    "retried after 20 ms": Retry(max_attempts=2, backoff="fixed", initial=0.02, jitter=False),
}
"""A job that is retried after a delay is promoted when its time has come; one without a delay is queued at once."""


class JobFailed(Exception):
    """What the handlers raise: one cause, and a text of its own for each job."""

    def __init__(self, number: int) -> None:
        super().__init__(f"order {number} was not shipped: the carrier answered 503, try again later")


def fails(number: int, share: int) -> bool:
    """Whether a job is one of those that fail, which are spread evenly."""
    return number * share % 100 < share


def prepare(url: str, jobs: int, ends: str) -> None:
    """Create the tables, and enqueue jobs that end so where they fail."""
    found = Jobs(url)
    found.storage.init()
    found.declare("noop", retry=POLICIES[ends])
    found.enqueue_many([("noop", {"n": n}) for n in range(jobs)])
    found.storage.close()


def drain(url: str, jobs: int, share: int, ends: str) -> dict[str, Any]:
    """Run a worker until everything is settled; a retried job is run twice, and both runs count."""
    failing = sum(fails(n, share) for n in range(jobs))
    runs = jobs + (failing if ends.startswith("retried") else 0)
    watch = Stopwatch(runs, url)
    # Records are made and formatted as for a file; no terminal is measured.
    logging.getLogger("sloppyjobs").addHandler(logging.FileHandler(os.devnull))
    logging.getLogger("sloppyjobs").propagate = False
    found = Jobs(url)

    def noop(ctx: Any, payload: Any) -> None:
        watch.handle()
        if ctx.attempt == 1 and fails(payload["n"], share):
            raise JobFailed(payload["n"])

    found.define("noop", noop, retry=POLICIES[ends])
    worker = found.create_worker(concurrency=16)
    worker.start()
    result = _finish(url, runs, jobs if ends.startswith("retried") else jobs - failing, watch)
    worker.stop(timeout=10)
    return result


def _finish(url: str, runs: int, succeeded: int, watch: Stopwatch) -> dict[str, Any]:
    with Jobs(url).storage.engine.connect() as connection:

        def number(query: str) -> int:
            found: int = connection.execute(sqlalchemy.text(query)).scalar_one()
            connection.rollback()
            return found

        open_jobs = "SELECT count(*) FROM sloppy_jobs WHERE status IN ('processing', 'retrying', 'queued')"
        result = watch.wait(lambda: number(open_jobs) == 0)
        counted = (
            number("SELECT count(*) FROM sloppy_jobs WHERE status = 'succeeded'"),
            number("SELECT count(*) FROM sloppy_job_attempts WHERE status IN ('succeeded', 'failed')"),
        )
    if counted != (succeeded, runs):
        raise AssertionError(f"{counted} successes and attempts, not {(succeeded, runs)}")
    return result


def _postgres(server: str, jobs: int, share: int, ends: str) -> dict[str, Any]:
    with databases.fresh_postgres(server) as url:
        subject.run("drain_failing", "prepare", url=url, jobs=jobs, ends=ends)
        return subject.run("drain_failing", "drain", url=url, jobs=jobs, share=share, ends=ends)


def _sqlite(jobs: int, share: int, ends: str) -> dict[str, Any]:
    with databases.fresh_sqlite() as path:
        url = f"sqlite:///{path}"
        subject.run("drain_failing", "prepare", url=url, jobs=jobs, ends=ends)
        return subject.run("drain_failing", "drain", url=url, jobs=jobs, share=share, ends=ends)


def _pgqueuer(server: str, jobs: int, share: int) -> dict[str, Any]:
    with databases.fresh_postgres(server) as url:
        subject.run("pgqueuer_peer", "prepare", url=url, jobs=jobs)
        return subject.run("pgqueuer_peer", "drain", url=url, jobs=jobs, share=share)


def run(server: str, jobs: int, rounds: int, peers: tuple[str, ...]) -> list[Report]:
    """Our own on both databases, and pgqueuer."""
    report = Report(
        f"failing: {jobs:,} jobs, one worker process, 16 threads",
        (
            "system",
            "failing",
            "runs/s",
            "lowest-highest",
            "of the plain drain",
            "x pgqueuer",
            "worker us/run",
            "server us/run",
        ),
    )
    report.note(databases.describe(server))
    kinds: dict[str, Any] = {
        f"sloppyjobs, {name}, {ends}": partial(once, ends=ends)
        for name, once in (("PostgreSQL", partial(_postgres, server)), ("SQLite", _sqlite))
        for ends in POLICIES
    }
    kinds["pgqueuer"] = partial(_pgqueuer, server)
    systems: dict[str, Measurement] = {
        f"{kind}, {share} %": partial(once, jobs, share) for kind, once in kinds.items() for share in SHARES
    }
    results = alternate(chosen(systems, peers), rounds, report)
    rates = {name: middle(found, "per_second") for name, found in results.items()}
    for name, found in results.items():
        kind, _, share = name.rpartition(", ")
        report.add(
            kind,
            share,
            rates[name],
            spread(found, "per_second"),
            ratio(rates[name], rates.get(f"{kind}, 0 %")),
            ratio(rates[name], rates.get(f"pgqueuer, {share}")),
            middle(found, "cpu_us_per_job"),
            middle_if_known(found, "server_us_per_job"),
        )
    report.note("a retried job fails in its first attempt and succeeds in its second; both are runs, so runs/s are")
    report.note("attempts per second, and are compared with the attempts per second of the plain drain")
    report.note(
        "the last retries come 20 ms after all others, whatever the number of jobs: take so many that it is little"
    )
    report.note("every failure has a text of its own, and is formatted for the log and written to the null device")
    report.note("us/run are microseconds of CPU, of the worker and of all processes of the server")
    report.note("pgqueuer deletes a job that fails, and writes its traceback to the log")
    report.note(f"medians of {rounds} alternating rounds")
    return [report]
