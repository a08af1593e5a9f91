"""What the sample shop has been through: nine nights of schedules, an outage, a worker that stopped responding.

``sloppyjobs demo`` adds it to the jobs of ``demo.fill``, so that every page has something to say. All of it is done
by the library itself, under a clock that is moved from then to now.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NoReturn

import msgspec

from sloppyjobs import demo
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage import from_url
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.worker import Context

DAYS = 9
STEP = timedelta(hours=12)
LOST = "worker_demo_lost"
"""The worker that stopped responding while it held jobs."""
OUTAGE = timedelta(minutes=50)
"""How long ago the payment gateway stopped answering."""


def add_history(jobs: Jobs) -> None:
    """The nights and the outage. To be called before ``demo.fill``, whose jobs are younger."""
    now = jobs.storage.clock.now()
    _nights(jobs, now)
    _outage(jobs, now)


def add_trouble(jobs: Jobs) -> None:
    """What an operator has to look at now: a lost worker, held locks, a paused queue, jobs that nobody can run."""
    _lost_worker(jobs, jobs.storage.clock.now())
    for owner, lock, seconds in ((LOST, "stock-count", 900), ("deploy", "catalog-import", 3600)):
        jobs.locks(owner).acquire(lock, ttl=seconds)
    jobs.admin.pause_queue("returns", create=True, actor="demo", reason="the warehouse is counting its stock")
    for number in range(3):
        jobs.enqueue("send-email", {"to": f"customer-{number}@example.com", "subject": "Your parcel"}, queue="returns")
    for number in range(6):
        jobs.enqueue("print-labels", {"parcel": 7000 + number})


def _in_the_past(jobs: Jobs, start: datetime) -> tuple[Jobs, FakeClock]:
    clock = FakeClock(start)
    return demo.create_jobs(from_url(jobs.storage.engine, clock=clock)), clock


def _nights(jobs: Jobs, now: datetime) -> None:
    """Most fire and succeed; two nights the source is down, one passes while paused, one without a scheduler."""
    past, clock = _in_the_past(jobs, now - timedelta(days=DAYS))
    past.schedules.sync()
    worker = past.create_worker(recurring=False, maintenance=False)
    report = past.definitions.require("import-report")
    works = report.handler
    for step in range(2 * DAYS):
        clock.advance(STEP)
        report.handler = _no_source if 4 <= step < 9 else works
        if step == 10:
            past.admin.pause_recurring("nightly-import", actor="demo", reason="the bank is closed")
        if step == 12:
            past.admin.resume_recurring("nightly-import", actor="demo")
        if not 13 <= step < 15:
            past.tick_recurring()
            worker.run_once()


def _no_source(ctx: Context, _payload: Any) -> NoReturn:
    ctx.log("warning", "no answer", host="bank.example", port=22)
    raise ConnectionRefusedError("sftp://bank.example: connection refused")


def _outage(jobs: Jobs, now: datetime) -> None:
    """For a quarter of an hour the payment gateway does not answer, and its jobs die."""
    past, clock = _in_the_past(jobs, now - OUTAGE)
    worker = past.create_worker(queues=("billing",), recurring=False, maintenance=False)
    for minute in range(5):
        past.enqueue_many([_charge(1000 + 3 * minute + number) for number in range(3)])
        worker.run_once()
        clock.advance(timedelta(minutes=3))


def _charge(order: int) -> demo.Item:
    card = {"number": "4000000000000002", "cvv": "123"}
    payload = {"order": order, "amount": 1999, "card": card, "fails": "gateway"}
    return "charge-card", payload, {"max_attempts": 1, "correlation_id": f"order-{order}"}


def _lost_worker(jobs: Jobs, now: datetime) -> None:
    """It claimed two imports, said how far it was, and was not heard again. One lease is over, one runs on."""
    past, _ = _in_the_past(jobs, now - timedelta(minutes=4))
    said = past.create_worker(id=LOST, queues=("partner-imports",), concurrency=2).info()
    past.storage.workers.register(msgspec.structs.replace(said, hostname="worker-2", pid=4127, running=2))
    for rows, lease in ((250_000, 60), (90_000, 1800)):
        past.enqueue("import-report", {"rows": rows, "seconds": 5}, queue="partner-imports")
        for claim in past.claim(LOST, queues=("partner-imports",), limit=1, lease=lease):
            past.storage.set_progress(LOST, (claim.id, claim.attempt), 40.0, f"row {rows * 2 // 5:,} of {rows:,}")
