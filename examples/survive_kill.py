"""Nothing is lost: jobs enqueued in a transaction survive the death of the process that runs them.

    python examples/survive_kill.py

The script writes an order and the jobs that belong to it in one transaction, starts a worker process, kills it with
SIGKILL in the middle of a job, starts another worker, and shows that every job was completed. It also enqueues a job
in a transaction that it rolls back, and shows that this one never existed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sqlalchemy import text

from sloppyjobs import Jobs, Retry

DATABASE = os.environ.get("DATABASE_URL") or f"sqlite:///{tempfile.mkdtemp()}/orders.db"
jobs = Jobs(DATABASE)


@jobs.define("pack", retry=Retry(max_attempts=3))
def pack(ctx, payload):
    """Slow work, done in steps that one can see."""
    for step in range(1, 6):
        print(f"    {payload['item']}: step {step} of 5 (attempt {ctx.attempt})", flush=True)
        ctx.signal.wait(0.1)
    return f"{payload['item']} packed"


def work() -> None:
    """What the worker process does. The short lease makes the example short; the default is 30 seconds."""
    jobs.create_worker(concurrency=1, prefetch=0, lease=2, heartbeat=0.5).run()


def start_worker() -> subprocess.Popen[bytes]:
    """Start this script again, as a worker on the same database."""
    return subprocess.Popen([sys.executable, __file__, "worker"], env={**os.environ, "DATABASE_URL": DATABASE})


def main() -> None:
    """Order, kill, recover."""
    jobs.init()
    with jobs.storage.engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (number INTEGER, customer VARCHAR(50))"))

    with jobs.storage.engine.begin() as connection:
        connection.execute(text("INSERT INTO orders VALUES (1, 'Ada')"))
        packing = [jobs.enqueue("pack", {"item": item}, connection=connection) for item in ("book", "lamp", "chair")]
    print("order 1 and its three jobs were committed together")

    with jobs.storage.engine.connect() as connection:
        connection.execute(text("INSERT INTO orders VALUES (2, 'Bob')"))
        jobs.enqueue("pack", {"item": "ghost"}, idempotency_key="ghost", connection=connection)
        connection.rollback()
    found = jobs.admin.list_jobs(idempotency_key="ghost")
    print(f"order 2 was rolled back, and so was its job: {len(found)} found")

    victim = start_worker()
    while not any(jobs.get(job.id).status == "processing" for job in packing):
        time.sleep(0.05)
    time.sleep(0.25)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    print("the worker was killed in the middle of a job:", [str(jobs.get(job.id).status) for job in packing])

    successor = start_worker()
    for job in packing:
        done = jobs.wait(job.id, timeout=30)
        print(f"{done.id}: {done.status} after {done.attempt_count} attempt(s): {done.result}")
        assert done.status == "succeeded"
    successor.send_signal(signal.SIGTERM)
    successor.wait()


if __name__ == "__main__":
    work() if Path(sys.argv[-1]).name == "worker" else main()
