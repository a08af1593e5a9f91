"""A small shop as a sample application, and a generator that fills its database with jobs of every state.

``sloppyjobs demo`` uses it. Its handlers pretend: they wait a little, and fail when their payload says so. The
secrets in the payloads are pretended too; they are there to be redacted.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from sqlalchemy import URL, Engine

from sloppyjobs.demo import refunds
from sloppyjobs.demo.archived import fill_archive
from sloppyjobs.demo.batches import fill_batches, start_batch
from sloppyjobs.demo.flows import fill_workflows
from sloppyjobs.domain.alerts import Alert
from sloppyjobs.domain.retry import Retry
from sloppyjobs.enqueue.option_types import EnqueueOptions
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage import from_url
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.storage.ports import Store
from sloppyjobs.worker import Context

log = logging.getLogger(__name__)

Payload = dict[str, Any]
Item = tuple[str, Payload, EnqueueOptions]

HOURS = 3.0
"""How far back the history goes that is filled in."""
STEPS = 12
HOLDER = "worker_demo_on_another_host"
"""The pretended worker that holds the jobs which are running when nobody works."""


class CardDeclined(Exception):
    """The bank said no; asking again does not help."""


class GatewayTimeout(Exception):
    """The payment gateway did not answer."""


# Handlers


def send_email(ctx: Context, payload: Payload) -> Payload:
    """Send one message."""
    ctx.log("info", "connecting", server="smtp.shop.example", password="demo-smtp-password")  # noqa: S106
    ctx.signal.wait(payload.get("seconds", 0))
    if payload.get("fails") == "mailbox":
        raise ConnectionRefusedError(f"452 mailbox of {payload['to']} is full, try again later")
    ctx.log("info", "accepted", to=payload["to"])
    return {"message_id": f"<{ctx.job_id}@shop.example>"}


def resize_image(ctx: Context, payload: Payload) -> Payload:
    """Make smaller copies of a picture."""
    ctx.signal.wait(payload.get("seconds", 0))
    if payload.get("fails") == "format":
        raise ValueError(f"{payload['path']}: cannot identify image file")
    return {"copies": [f"{payload['path']}@{width}w" for width in payload["widths"]]}


def charge_card(ctx: Context, payload: Payload) -> Payload:
    """Take the money for an order."""
    ctx.signal.wait(payload.get("seconds", 0))
    match payload.get("fails"):
        case "declined":
            raise CardDeclined(f"order {payload['order']}: insufficient funds, card_number={payload['card']['number']}")
        case "gateway":
            raise GatewayTimeout("POST https://shop:demo-gateway-password@pay.example/charges: no answer in 10 s")
        case "amount":
            return {"charged": payload["amount_cents"]}
    return {"order": payload["order"], "charged": payload["amount"], "receipt_token": "demo-receipt-token"}


def import_report(ctx: Context, payload: Payload) -> Payload:
    """Read a long report, saying how far it is."""
    steps = 20
    for step in range(steps):
        ctx.signal.raise_if_aborted()
        ctx.progress(100 * step / steps, f"row {step * payload['rows'] // steps:,} of {payload['rows']:,}")
        ctx.signal.wait(payload.get("seconds", 0) / steps)
    return {"rows": payload["rows"]}


def sync_contacts(ctx: Context, payload: Payload) -> None:
    """Talk to a service that often is not there."""
    ctx.signal.wait(payload.get("seconds", 0))
    if ctx.attempt <= payload.get("fails", 0):
        raise ConnectionResetError(f"crm.example closed the connection (attempt {ctx.attempt})")


async def fetch_rates(_ctx: Context, payload: Payload) -> Payload:
    """Ask for exchange rates."""
    await asyncio.sleep(payload.get("seconds", 0))
    return {currency: round(random.uniform(0.5, 2.0), 4) for currency in payload["currencies"]}  # noqa: S311


def tell_operations(alert: Alert) -> None:
    """Tell somebody of trouble; here a log does."""
    log.warning("%s: %s", alert.rule, alert.text)


def create_jobs(target: str | URL | Engine | Store) -> Jobs:
    """The sample application over a database."""
    jobs = Jobs(target, application="demo")
    # Those that fail do so on purpose: nobody needs to read of it in the log.
    patient, twice = Retry(max_attempts=5, initial=30), Retry(max_attempts=2, initial=20)
    jobs.define("send-email", send_email, queue="emails", retry=patient, redact=("coupon",), log="none")
    jobs.define("resize-image", resize_image, queue="media", retry=twice, timeout=60, log="none")
    retry = Retry(max_attempts=3, initial=60, give_up_on=(CardDeclined, KeyError))
    jobs.define(
        "charge-card",
        charge_card,
        queue="billing",
        priority=10,
        retry=retry,
        redact=("card.number",),
        metadata={"team": "payments"},
        log="none",
    )
    jobs.define("import-report", import_report, queue="reports", timeout=300, log="none")
    fixed = Retry(max_attempts=4, backoff="fixed", initial=300)
    jobs.define("sync-contacts", sync_contacts, retry=fixed, log="none")
    jobs.define("fetch-rates", fetch_rates)
    refunds.define(jobs)
    jobs.declare("export-invoices", queue="exports", version=2)
    jobs.declare("print-labels", queue="labels")
    jobs.declare_limit("partner-sftp", concurrency=2)
    jobs.declare_recurring("refresh-rates", "fetch-rates", {"currencies": ["EUR", "GBP"]}, every=60)
    jobs.declare_recurring(
        "nightly-import", "import-report", {"rows": 50_000}, cron="0 2 * * *", timezone="Europe/Paris"
    )
    newsletter = {"to": "subscribers@shop.example", "subject": "News", "api_key": "demo-mail-api-key"}
    jobs.declare_recurring("newsletter", "send-email", newsletter, cron="30 9 * * 1", timezone="America/New_York")
    jobs.declare_recurring("legacy-sync", "sync-contacts", {}, every=3600, paused=True)
    jobs.declare_alert("dead-payments", on="dead", name="charge-card", after=3, window=3600, deliver=tell_operations)
    jobs.declare_alert("slow-exports", on="late", queue="exports", longer_than=1800, deliver=tell_operations)
    jobs.declare_alert("lost-workers", on="stale-worker", deliver=tell_operations)
    return jobs


def __getattr__(name: str) -> Any:
    # ``--app sloppyjobs.demo:jobs``, made when somebody asks for it.
    if name == "jobs":
        return create_jobs(os.environ.get("SLOPPYJOBS_DATABASE_URL", "sqlite:///sloppyjobs.db"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Sample jobs


def samples(chance: random.Random, *, slow: bool) -> Iterator[Item]:
    """Jobs of the shop without end; ``slow`` ones take as long as real ones would."""
    kinds: list[Callable[[random.Random], Item]] = [_email, _image, _rates, _contacts, _charge, _report]
    while True:
        [kind] = chance.choices(kinds, weights=[40, 20, 15, 10, 10, 5])
        name, payload, given = kind(chance)
        payload["seconds"] = round(chance.uniform(0.05, 0.5) * (20 if kind is _report else 1), 2) if slow else 0
        yield name, payload, given


def _email(chance: random.Random) -> Item:
    person = chance.choice(["ada", "grace", "edsger", "barbara", "alan"])
    payload: Payload = {"to": f"{person}@example.com", "subject": "Your order", "coupon": "DEMO-COUPON-10"}
    payload["smtp"] = {"user": "shop", "password": "demo-smtp-password"}
    if chance.random() < 0.05:
        payload["fails"] = "mailbox"
    return "send-email", payload, {"correlation_id": f"order-{chance.randrange(1000, 1100)}"}


def _image(chance: random.Random) -> Item:
    payload: Payload = {"path": f"products/{chance.randrange(500)}.jpg", "widths": [320, 640, 1280]}
    if chance.random() < 0.05:
        payload["fails"] = "format"
    return "resize-image", payload, {}


def _rates(_chance: random.Random) -> Item:
    return "fetch-rates", {"currencies": ["EUR", "GBP", "JPY"], "apiKey": "demo-rates-api-key"}, {}


def _contacts(chance: random.Random) -> Item:
    return "sync-contacts", {"page": chance.randrange(50), "fails": chance.choice([0, 0, 1, 2])}, {}


def _charge(chance: random.Random) -> Item:
    order = chance.randrange(1000, 1100)
    payload: Payload = {"order": order, "amount": chance.randrange(500, 20_000)}
    payload["card"] = {"number": "4000000000000002", "cvv": "123", "holder": "A. Demo"}
    payload["fails"] = chance.choice([None, None, None, "declined", "gateway", "amount"])
    return "charge-card", payload, {"correlation_id": f"order-{order}", "principal": "checkout"}


def _report(chance: random.Random) -> Item:
    return "import-report", {"rows": chance.randrange(1_000, 100_000), "source": "sftp://bank.example/daily.csv"}, {}


# Filling


def fill(
    jobs: Jobs, count: int = 200, seed: int | None = None, advance: Callable[[int], None] = lambda _: None
) -> None:
    """Write about ``count`` jobs of every state, as if the shop had been open for some hours.

    ``advance`` is told how many jobs have been added. The past is real: a worker runs the handlers under a clock
    that is moved from then to now.
    """
    chance = random.Random(seed)  # noqa: S311
    jobs.schedules.sync()
    clock = FakeClock(jobs.storage.clock.now() - timedelta(hours=HOURS))
    past = create_jobs(from_url(jobs.storage.engine, clock=clock))
    fill_archive(past, clock)
    fill_workflows(past, clock)
    fill_batches(past, clock)
    worker = past.create_worker(recurring=False, maintenance=False)
    source = samples(chance, slow=False)
    for step in range(STEPS):
        batch = [next(source) for _ in range(count * (step + 1) // STEPS - count * step // STEPS)]
        past.enqueue_many(batch)
        worker.run_once()
        clock.advance(timedelta(hours=HOURS) / STEPS)
        advance(len(batch))
    _dead(past)
    worker.run_once()
    asked = FakeClock(jobs.storage.clock.now() - refunds.AGO)
    refunds.fill(create_jobs(from_url(jobs.storage.engine, clock=asked)), asked)
    start_batch(jobs)
    _standing(jobs, chance)


def _dead(past: Jobs) -> None:
    """However few jobs there are, one of each cause."""
    card = {"number": "4000000000000002", "cvv": "123"}
    for fails in ("declined", "gateway", "amount"):
        payload = {"order": 1000, "amount": 1999, "card": card, "fails": fails}
        past.enqueue("charge-card", payload, max_attempts=1, correlation_id="order-1000")
    past.enqueue("resize-image", {"path": "products/broken.bmp", "widths": [320], "fails": "format"}, max_attempts=1)
    past.enqueue("sync-contacts", {"page": 1, "fails": 3})


def _standing(jobs: Jobs, chance: random.Random) -> None:
    """Jobs that stay as they are for a while: one or more of each state in which nothing happens at once."""
    admin, actor = jobs.admin, "demo"
    for _ in range(3):
        _, payload, _ = _email(chance)
        jobs.enqueue("send-email", payload, delay=timedelta(minutes=chance.randrange(20, 300)))
    for reason in ("customer asked to wait", "under review"):
        paused = jobs.enqueue("charge-card", _charge(chance)[1], delay=3600)
        admin.pause(paused.id, actor=actor, reason=reason)
    cancelled = jobs.enqueue("send-email", _email(chance)[1], delay=3600)
    admin.cancel(cancelled.id, actor=actor, reason="the order was withdrawn")
    deleted = jobs.enqueue("fetch-rates", _rates(chance)[1], delay=3600)
    admin.cancel(deleted.id, actor=actor, reason="a mistake")
    admin.delete(deleted.id, actor=actor, reason="a mistake")
    until = jobs.storage.clock.now() + timedelta(hours=2)
    admin.pause_queue("newsletters", until, create=True, actor=actor, reason="mail limit")
    for _ in range(4):
        jobs.enqueue("send-email", _email(chance)[1], queue="newsletters")
    for month in ("2030-01", "2030-02"):
        jobs.enqueue("export-invoices", {"month": month})
    _running(jobs)


def _running(jobs: Jobs) -> None:
    """Reports of a partner who takes two connections at once: two are read, and the others wait for a permit."""
    jobs.declared_limits.sync()
    for rows in (120_000, 480_000, 90_000, 310_000):
        payload = {"rows": rows, "seconds": 30}
        jobs.enqueue("import-report", payload, queue="partner-reports", resource="partner-sftp", partition="acme-bank")
    for number, claim in enumerate(jobs.claim(HOLDER, queues=("partner-reports",), limit=4, lease=1800), start=1):
        jobs.storage.set_progress(HOLDER, (claim.id, claim.attempt), 30.0 * number, f"file {number} of 3")


def keep_enqueueing(jobs: Jobs, rate: float, stop: threading.Event, seed: int | None = None) -> int:
    """Enqueue ``rate`` jobs a second until told to stop; how many it was."""
    source = samples(random.Random(seed), slow=True)  # noqa: S311
    begun, written = time.monotonic(), 0
    while not stop.is_set():
        due = int((time.monotonic() - begun) * rate) + 1 - written
        if due > 0:
            jobs.enqueue_many([next(source) for _ in range(min(due, 1000))])
            written += min(due, 1000)
        stop.wait(min(0.5, 1 / rate))
    return written
