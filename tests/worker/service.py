"""An application whose worker runs in a process of its own: ``python service.py URL NOTES [--options]``.

Handlers append lines to the file NOTES, outside the database, so that tests know what really ran. The history is
written beside it.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from sloppyjobs import Jobs, Retry
from sloppyjobs.testing import history

parser = argparse.ArgumentParser()
parser.add_argument("url")
parser.add_argument("notes", type=Path)
parser.add_argument("--processes", type=int, default=0, help="under a supervisor; 0: one worker without")
parser.add_argument("--shutdown-timeout", type=float, default=60)
parser.add_argument("--lease", type=float, default=30)
settings = parser.parse_args()
NOTES: Path = settings.notes
jobs = Jobs(settings.url)
LOG = history.Log(NOTES.with_suffix(".history"))
history.record_handlers(jobs, LOG)


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


@jobs.define("stepped", retry=Retry(max_attempts=5, backoff="none"))
def stepped(ctx: Any, payload: Any) -> Any:
    """Two steps, a sleep and a signal between them; it stays where the payload says until a file appears."""

    def reach(place: str) -> None:
        note(place, ctx.job_id, ctx.attempt, os.getpid())
        while place == payload["hold"] and not Path(payload["until"]).exists():
            time.sleep(0.02)

    def charge() -> str:
        reach("inside")
        note("charged", ctx.job_id, ctx.attempt, os.getpid())
        reach("effect")
        return "charged"

    charged = history.recorded_step(LOG, ctx, "charge", charge)
    reach("checkpoint")
    ctx.sleep("cool-down", 0.3)
    approved = ctx.wait_for("approved", timeout=600)
    reach("approved")
    return [charged, approved, history.recorded_step(LOG, ctx, "ship", lambda: "shipped")]


def work() -> bool:
    return jobs.create_worker(
        concurrency=4,
        lease=settings.lease,
        heartbeat=min(0.3, settings.lease / 5),
        poll_interval=0.2,
        shutdown_timeout=settings.shutdown_timeout,
        maintenance=False,
    ).run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    if settings.processes:
        from sloppyjobs.worker.supervisor import supervise

        sys.exit(supervise(work, settings.processes, shutdown_timeout=settings.shutdown_timeout))
    work()
