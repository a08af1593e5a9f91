"""An application whose worker runs in a process of its own: ``python service.py URL NOTES [PROCESSES [PATIENCE]]``.

Handlers append lines to the file NOTES, outside the database, so that tests know what really ran.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from sloppyjobs import Jobs, Retry

URL, NOTES = sys.argv[1], Path(sys.argv[2])
PATIENCE = float(sys.argv[4]) if len(sys.argv) > 4 else 2
jobs = Jobs(URL)


def note(*words: object) -> None:
    with NOTES.open("a") as notes:
        notes.write(" ".join(map(str, words)) + "\n")


@jobs.define("hold", retry=Retry(max_attempts=5, backoff="none"))
def hold(ctx: Any, payload: Any) -> int:
    """Run until a file appears; the first attempt says that it has begun."""
    note("begin", ctx.job_id, ctx.attempt, os.getpid())
    while not Path(payload["until"]).exists():
        time.sleep(0.02)
    note("end", ctx.job_id, ctx.attempt, os.getpid())
    return int(ctx.attempt)


@jobs.define("crash", retry=Retry(max_attempts=2, backoff="none"))
def crash(ctx: Any, payload: Any) -> None:
    """Take the whole process down."""
    note("crash", ctx.job_id, ctx.attempt, os.getpid())
    os._exit(42)


@jobs.define("quick")
def quick(ctx: Any, payload: Any) -> None:
    note("quick", ctx.job_id, ctx.attempt, os.getpid())


def work() -> None:
    jobs.create_worker(
        concurrency=4, lease=1.5, heartbeat=0.3, poll_interval=0.2, shutdown_timeout=PATIENCE, maintenance=False
    ).run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    if len(sys.argv) > 3:
        from sloppyjobs.worker.supervisor import supervise

        sys.exit(supervise(work, int(sys.argv[3]), shutdown_timeout=PATIENCE))
    work()
