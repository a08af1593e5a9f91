"""The smallest whole thing: define a job, enqueue it, run a worker until everything is done.

    python examples/minimal.py

It keeps its jobs in a SQLite file in a temporary folder, or in the database that DATABASE_URL names.
"""

from __future__ import annotations

import os
import tempfile

from sloppyjobs import Jobs, Retry

jobs = Jobs(os.environ.get("DATABASE_URL") or f"sqlite:///{tempfile.mkdtemp()}/minimal.db")


@jobs.define("greet", retry=Retry(max_attempts=3, initial=0.1))
def greet(ctx, payload):
    """Greets; the first try for Grace fails, so that there is a retry to see."""
    if payload["name"] == "Grace" and ctx.attempt == 1:
        raise ConnectionError("no answer")
    return f"Hello, {payload['name']}!"


def main() -> None:
    """Enqueue, work, look."""
    jobs.init()
    greetings = jobs.enqueue_many([("greet", {"name": name}) for name in ("Ada", "Grace", "Edsger")])
    print(f"{len(greetings)} jobs are {greetings[0].status}")

    worker = jobs.create_worker(concurrency=2)
    worker.start()
    for job in greetings:
        done = jobs.wait(job.id, timeout=30)
        print(f"{done.result} ({done.status} at attempt {done.attempt_count})")
    worker.stop()


if __name__ == "__main__":
    main()
