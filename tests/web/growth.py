"""How long the pages take with few jobs and with many: ``python tests/web/growth.py 1000 1000000 [database url]``.

Prints the median milliseconds of each page at both sizes and their ratio, and the number of queries.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flask import Flask
from sqlalchemy import event

import webui
from sloppyjobs import Jobs, Retry

PATHS = (
    "/",
    "/jobs",
    "/jobs?status=dead",
    "/jobs?status=succeeded&size=100",
    "/jobs?queue=q7&range=24h",
    "/jobs?correlation_id=c-77",
    "/jobs/{dead}",
    "/dead",
    "/queues",
    "/queues/q7",
    "/recurring",
    "/workers",
    "/locks",
    "/audit",
)
BATCH = 10_000


def fill(jobs: Jobs, count: int) -> None:
    """So many jobs: most of them done, some dead, some waiting. Settled in bulk by the claim protocol."""
    for start in range(0, count, BATCH):
        jobs.enqueue_many(
            ("work", {"n": n}, {"queue": f"q{n % 20}", "correlation_id": f"c-{n % 1000}"})
            for n in range(start, min(count, start + BATCH))
        )
        _settle(jobs, min(BATCH, count - start) * 9 // 10)
    jobs.recurring("nightly", "work", {}, cron="0 2 * * *")


def _settle(jobs: Jobs, count: int) -> None:
    from sloppyjobs.model import Settlement
    from sloppyjobs.states import Failed, Failure, Succeeded, decide

    queues = tuple(f"q{n}" for n in range(20))
    while count > 0:
        claims = jobs.claim("filler", queues=queues, limit=min(500, count), lease=600)
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


def measure(jobs: Jobs, rounds: int = 7) -> dict[str, tuple[float, int]]:
    """Median milliseconds and queries of each page, with the overview's copy thrown away each time."""
    app = Flask("host")
    app.secret_key = "x"
    blueprint = webui.create_blueprint(jobs, webui.AllowAll())
    app.register_blueprint(blueprint, url_prefix="/j")
    client, queries = app.test_client(), [0]
    event.listen(jobs.storage.engine, "before_cursor_execute", lambda *_: queries.__setitem__(0, queries[0] + 1))
    dead = jobs.admin.list_jobs("dead", page_size=1)[0].id
    found = {}
    for path in PATHS:
        once = _fetch(client, "/j" + path.format(dead=dead))
        once()
        taken = []
        for _ in range(rounds):
            time.sleep(1.6 if path == "/" else 0)
            queries[0] = 0
            before = time.perf_counter()
            once()
            taken.append(time.perf_counter() - before)
        found[path] = (statistics.median(taken) * 1000, queries[0])
    return found


def _fetch(client: Any, address: str) -> Callable[[], None]:
    def once() -> None:
        response = client.get(address)
        assert response.status_code == 200, (address, response.status_code)

    return once


def at(url: str, count: int) -> dict[str, tuple[float, int]]:
    """The measurement with so many jobs."""
    jobs = Jobs(url)
    jobs.storage.init()
    jobs.define("work", lambda ctx, payload: None, retry=Retry(max_attempts=1))
    started = time.perf_counter()
    fill(jobs, count)
    sys.stderr.write(f"{count:,} jobs after {time.perf_counter() - started:.0f} s\n")
    if jobs.storage.dialect == "postgresql":
        with jobs.storage.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("ANALYZE")
    answer = measure(jobs)
    jobs.storage.close()
    return answer


def main(few: int, many: int, urls: tuple[str, str]) -> None:
    """Both sizes, side by side."""
    small, large = at(urls[0], few), at(urls[1], many)
    sys.stdout.write(f"| page | {few:,} jobs, ms | {many:,} jobs, ms | ratio | queries |\n|---|---|---|---|---|\n")
    for path in PATHS:
        before, after = small[path], large[path]
        ratio = after[0] / before[0]
        sys.stdout.write(f"| `{path}` | {before[0]:.1f} | {after[0]:.1f} | {ratio:.2f} | {after[1]} |\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        files = tuple(f"sqlite:///{Path(scratch) / name}.db" for name in ("few", "many"))
        given = tuple(sys.argv[3:5]) if len(sys.argv) > 4 else files
        main(int(sys.argv[1]), int(sys.argv[2]), (given[0], given[1]))
