"""A believable day in an application with jobs, for the tests of the UI and for its screenshots."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

import msgspec

from sloppyjobs import Jobs, Result, Retry, storage
from sloppyjobs.alerting.evaluation import evaluate
from sloppyjobs.domain.states import Status
from sloppyjobs.internals import internals
from sloppyjobs.storage import FakeClock
from sloppyjobs.storage.ports.operators import Command

SECRET = "hunter2-canary-9f31"
"""Must never leave through the UI."""


class SmtpTimeout(Exception):
    """A relay that does not answer."""


class TemplateError(Exception):
    """A template that asks for what is not there."""


class WarehouseTimeout(Exception):
    """A warehouse that does not answer."""


class Mailer:
    """What the handlers talk to; tests repair it."""

    broken = True


def define(jobs: Jobs) -> Mailer:
    """The application's jobs."""
    mailer = Mailer()
    once = Retry(max_attempts=1)
    twice = Retry(max_attempts=2, backoff="none")

    @jobs.define("send-email", queue="emails", retry=twice, redact=("token",), timeout=30)
    def send_email(ctx: Any, payload: Any) -> Any:
        ctx.log("info", "connecting", relay="relay.internal", port=587)
        if mailer.broken and payload.get("template") == "receipt":
            ctx.log("warning", "slow reply", stage="DATA", after="9.9 s")
            raise SmtpTimeout(f"no reply from smtp://mailer:{SECRET}@relay.internal:587 in 28 s")
        return {"delivered": True, "message_id": "m-48213"}

    @jobs.define("render-invoice-pdf", queue="invoices", retry=once)
    def render(ctx: Any, payload: Any) -> Any:
        if payload["invoice"].endswith("7"):
            raise TemplateError("'due_date' is undefined")
        return {"pages": 2}

    @jobs.define("resize-image", queue="media")
    def resize(ctx: Any, payload: Any) -> Any:
        ctx.progress(62, "1,240 of 2,000 tiles written")

    @jobs.define("rollup-daily-metrics", queue="rollups", metadata={"team": "data"})
    def rollup(ctx: Any, payload: Any) -> Any:
        return {"rows": 1284}

    jobs.declare("export-orders", queue="exports")
    return mailer


def history(url: str, until: datetime, minutes: int = 60) -> None:
    """The hour before: a quiet start, a relay that stops answering, a busy end."""
    clock = FakeClock(until - timedelta(minutes=minutes))
    jobs = Jobs(storage.from_url(url, clock=clock))
    jobs.storage.init()
    mailer = define(jobs)
    deploys = {8: "shop 117", 33: "shop 118", 38: "shop 118.1", 46: "shop 119"}
    for minute in range(minutes):
        mailer.broken = 34 <= minute < 46
        if minute in deploys:
            jobs.admin.mark_deploy(deploys[minute], "the relay is back" if minute == 46 else None, actor="ada")
        for number in range(9 + round(9 * math.sin(minute / 7) ** 2) + minute % 3):
            jobs.enqueue("rollup-daily-metrics", {"day": number})
            jobs.enqueue("send-email", {"template": "receipt" if number % 2 else "welcome", "order": 48000 + minute})
        jobs.create_worker(id="app-1:4126", concurrency=4, recurring=False).run_once()
        clock.advance(60)
    jobs.storage.close()


def nights(url: str, until: datetime) -> None:
    """Nine nights of a schedule: most of them fire, two pass without a scheduler, two during a pause."""
    clock = FakeClock(until - timedelta(days=9))
    jobs = Jobs(storage.from_url(url, clock=clock))
    jobs.storage.init()
    define(jobs)
    jobs.recurring("nightly-rollup", "rollup-daily-metrics", {"day": "yesterday"}, cron="30 2 * * *",
                   timezone="Europe/Paris")  # fmt: skip
    worker = jobs.create_worker(id="app-1:4125", concurrency=1, recurring=False)
    for hour in range(9 * 24):
        clock.advance(3600)
        if hour == 5 * 24:
            jobs.admin.pause_recurring("nightly-rollup", actor="ops", reason="month end")
        if hour == 7 * 24:
            jobs.admin.resume_recurring("nightly-rollup", actor="ops")
        if not 2 * 24 < hour < 4 * 24 + 12:
            jobs.tick_recurring()
            worker.run_once()
    jobs.storage.close()


def play(jobs: Jobs, *, many: int = 1) -> Mailer:
    """Enqueue and run what the day brings."""
    mailer = define(jobs)
    for number in range(8 * many):
        jobs.enqueue(
            "send-email",
            {"template": "receipt", "to": "ada@example.org", "order": 48213 + number, "password": SECRET,
             "options": {"locale": "en", "attach_pdf": True, "token": SECRET}, "lines": ["SKU-2210", "SKU-0087"]},
            correlation_id=f"req-7c1f-{number}", idempotency_key=f"receipt:{48213 + number}",
        )  # fmt: skip
        jobs.enqueue("send-email", {"template": "welcome", "to": "grace@example.org"})
    for number in range(20 * many):
        jobs.enqueue("render-invoice-pdf", {"invoice": f"2026-03-{1180 + number:05d}", "locale": "fr"})
        jobs.enqueue("rollup-daily-metrics", {"day": number})
    worker = jobs.create_worker(id="app-1:4127", concurrency=4, recurring=False)
    for _ in range(3):
        worker.run_once()
    _waiting(jobs, many)
    _schedules(jobs)
    batches(jobs)
    archive(jobs)
    alerts(jobs)
    jobs.limit("payments-api", concurrency=5, rate=100, per=60)
    return mailer


def workflow(jobs: Jobs) -> str:
    """A graph that a dead job holds up, a wide one, and one that went well; the id of the first."""
    for name in ("extract-orders", "transform", "merge", "load-warehouse", "page-on-call"):
        jobs.declare(name, queue="warehouse", retry=Retry(max_attempts=1))
    ids = []
    for number, parts in enumerate((3, 8, 230)):
        with jobs.workflow(("short", "warehouse-refresh", "wide")[number], correlation_id=f"wh-{number}",
                           metadata={"region": "eu", "password": SECRET}) as flow:  # fmt: skip
            first = flow.add("extract-orders", {"password": SECRET})
            middle = [flow.add("transform", part, after=first) for part in range(parts)]
            merge = flow.add("merge", after=middle)
            flow.add("load-warehouse", after=merge, when=Result("/rows", ">", 0))
            flow.add("page-on-call", after=middle, on="failure", any=True)
        ids.append(flow.id)
        while number < 2 and (claims := jobs.claim("app-1:4130", queues=("warehouse",), limit=10)):
            for place, claim in enumerate(claims):
                if number == 1 and claim.job.name == "transform" and place == 4:
                    jobs.fail(claim, WarehouseTimeout(f"no answer; password={SECRET}"))
                else:
                    jobs.complete(claim, {"rows": 3})
    return ids[1]


def batches(jobs: Jobs) -> None:
    """Batches of some weeks ago, whose jobs were purged: nothing of them counts among the jobs of the day."""
    clock = FakeClock(jobs.storage.clock.now() - timedelta(days=50))
    past = Jobs(storage.from_url(jobs.storage.engine, clock=clock))
    past.declare("refund-order", queue="refunds", retry=Retry(max_attempts=1))
    for name, bad in (("week-end refunds", 0), ("month-end refunds", 2)):
        with past.batch(
            name, on_success=("refund-order", {}), on_failure=("refund-order", {"failed": True}), success_rate=0.95,
            metadata={"requested_by": "grace", "token": SECRET},
        ) as batch:  # fmt: skip
            batch.enqueue_many([("refund-order", {"order": 32000 + number}) for number in range(12)])
        for number, claim in enumerate(past.claim("app-1:1877", queues=("refunds",), limit=100)):
            clock.advance(1)
            past.fail(claim, LookupError("no order")) if number < bad else past.complete(claim)
        for claim in past.claim("app-1:1877", queues=("refunds",), limit=100):
            past.complete(claim)
    clock.advance(86_400)
    for status in (Status.SUCCEEDED, Status.DEAD):
        past.storage.retention.soft_delete(status, clock.now(), 100, Command("cleanup"))
    clock.advance(3_600)
    past.storage.retention.purge(clock.now(), 100, archive=False)
    jobs.open_batch("nightly stream", on_complete=("rollup-daily-metrics", {}))


def archive(jobs: Jobs) -> None:
    """What was purged some weeks ago; nothing of it counts among the jobs of the day."""
    clock = FakeClock(jobs.storage.clock.now() - timedelta(days=40))
    past = Jobs(storage.from_url(jobs.storage.engine, clock=clock))
    past.declare("refund-order", queue="refunds", redact=("iban",), retry=Retry(max_attempts=1))
    for number in range(3):
        past.enqueue("refund-order", {"order": 31070 + number, "amount": "54.00", "iban": SECRET},
                     business_key=f"order:{31070 + number}", tags=("refund", "eu"), principal="grace")  # fmt: skip
        [claim] = past.claim("app-1:1877", queues=("refunds",))
        clock.advance(7)
        if number:
            past.complete(claim, {"refunded": True})
        else:
            past.fail(claim, LookupError(f"no order; password={SECRET}"))
    clock.advance(86_400)
    for status in (Status.SUCCEEDED, Status.DEAD):
        past.storage.retention.soft_delete(status, clock.now(), 100, Command("cleanup"))
    clock.advance(3_600)
    past.storage.retention.purge(clock.now(), 100, archive=True)


def tell_billing(alert: Any) -> None:
    """A channel that everybody reads."""


def alerts(jobs: Jobs) -> None:
    """Rules by another process, one of which tells somebody and one cannot; nothing of it runs in this one."""
    other = Jobs(jobs.storage, application="alarms")
    other.declare_alert("dead-invoices", on="dead", queue="invoices", after=1, deliver=tell_billing)
    other.declare_alert("dead-anything", on="dead", name="send-email", after=3, deliver="https://hooks.internal/x")
    other.declare_alert("worker-gone", on="stale-worker", deliver=tell_billing)
    evaluate(jobs.storage, other.alerts, other.definitions, internals(other).sealing)
    claims = jobs.claim("app-1:4127", queues=("sloppyjobs.alerts",), limit=10)
    for claim in claims:
        if claim.payload["rule"] == "dead-invoices":
            jobs.complete(claim, {"told": "tell_billing"})
        else:
            jobs.fail(claim, ConnectionError(f"hooks.internal answered HTTP 503; token={SECRET}"))


def trouble(jobs: Jobs) -> None:
    """For pictures, not for tests that count: more causes of death, a worker that stopped responding, retries."""
    once = Retry(max_attempts=1)

    @jobs.define("import-orders", queue="imports", retry=once)
    def import_orders(ctx: Any, payload: Any) -> None:
        raise ImportError(f"{payload['file']}: unknown column 'discount'")

    @jobs.define("sync-stock", queue="stock", retry=once)
    def sync_stock(ctx: Any, payload: Any) -> None:
        raise LookupError(f"no article {payload['article']}")

    @jobs.define("fetch-rates", queue="rates", retry=Retry(max_attempts=5, initial=600))
    def fetch_rates(ctx: Any, payload: Any) -> None:
        raise ConnectionResetError("rates.internal closed the connection")

    for number in range(9):
        jobs.enqueue("import-orders", {"file": f"orders-{number}.csv"})
        jobs.enqueue("sync-stock", {"article": f"SKU-{2200 + number}"})
    jobs.enqueue("fetch-rates", {"currencies": ["EUR", "GBP"]})
    jobs.create_worker(id="app-1:4128", queues=("imports", "stock", "rates"), recurring=False).run_once()
    clock = FakeClock(jobs.storage.clock.now() - timedelta(minutes=4))
    past = Jobs(storage.from_url(jobs.storage.engine, clock=clock))
    define(past)
    lost = past.create_worker(id="app-3:2210", queues=("archive",), concurrency=2).info()
    past.storage.workers.register(msgspec.structs.replace(lost, hostname="app-3", pid=2210, running=1))
    past.enqueue("rollup-daily-metrics", {"day": 0}, queue="archive")
    past.claim("app-3:2210", queues=("archive",), limit=1, lease=60)


def refund(ctx: Any, payload: Any) -> Any:
    """A handler with steps that sleeps, and then waits for somebody's approval."""
    ctx.step("load-order", lambda: {"order": payload["order"], "total": "129.90", "password": SECRET})
    if ctx.attempt == 1:
        raise ConnectionResetError("fraud.internal closed the connection")
    ctx.step("check-fraud", lambda: {"score": 0.31, "review": True})
    ctx.sleep("cool-down", 600)
    approved = ctx.wait_for("approved", timeout=86_400)
    ctx.sleep("cool-down-again", 600)
    return approved


def suspend(jobs: Jobs) -> tuple[str, str]:
    """Two jobs whose handlers wait for a signal and sleep; not a part of the day, whose jobs tests count."""
    jobs.define("refund-order", refund, queue="refunds", retry=Retry(max_attempts=3, backoff="none"))
    made = [jobs.enqueue("refund-order", {"order": 48213 + number, "iban": SECRET}).id for number in range(2)]
    worker = jobs.create_worker(id="app-1:4126", queues=("refunds",), recurring=False)
    for _ in range(2):
        worker.run_once()
    for id in made:
        jobs.admin.run_now(id, actor="ada", reason="the customer waits")
    worker.run_once()
    jobs.signal(made[1], "approved", {"by": "grace", "token": SECRET})
    worker.run_once()
    return made[0], made[1]


def worker(jobs: Jobs) -> str:
    """The worker that resizes images, which lives; not a part of the day, for which no worker takes jobs."""
    made = jobs.create_worker(
        id="app-2:3380", queues=("media", "exports"), concurrency=6, app_version="shop 119"
    ).info()
    told = {"hostname": "app-2", "pid": 3380, "running": 2, "memory": 412_300_000, "done": 40_311, "failed": 322}
    jobs.storage.workers.register(msgspec.structs.replace(made, heartbeat=600.0, **told))
    return made.id


LONG = "a-very-long-name-" * 7


def long_names(jobs: Jobs) -> dict[str, str]:
    """Names as long as they may be, in one word where that is allowed; the addresses of what has them."""
    queue, schedule = f"queue-{LONG}"[:128], f"schedule-{LONG}"[:128]

    @jobs.define(LONG, queue=queue, retry=Retry(max_attempts=1))
    def fail(ctx: Any, payload: Any) -> None:
        ctx.log("info", "x" * 300, field="y" * 200)
        raise type("Error" + "Z" * 100, (Exception,), {})("z" * 400)

    id = jobs.enqueue(LONG, {"text": "w" * 200}, correlation_id="c" * 200, idempotency_key="i" * 200).id
    jobs.create_worker(id="worker-" + "h" * 80, queues=(queue, "sloppyjobs.alerts"), recurring=False).run_once()
    jobs.recurring(schedule, LONG, {}, cron="*/5 * * * *", timezone="America/Argentina/ComodRivadavia")
    jobs.admin.trigger_recurring(schedule, actor="a" * 100, reason="because " * 20)
    jobs.locks("owner-" + "o" * 100).acquire("lock-" + "l" * 100, ttl=600)
    jobs.locks(f"worker_{'w' * 26}").acquire("lock-of-a-worker", ttl=600)
    return {"dead": id, "queue": queue, "schedule": schedule, "name": LONG, "key": "c" * 200}


def _waiting(jobs: Jobs, many: int) -> None:
    for number in range(6 * many):
        jobs.enqueue("export-orders", {"page": number})
    for number in range(4):
        jobs.enqueue("send-email", {"template": "reminder", "cart": 9921 + number}, delay=3600 * (number + 1))
    held = [jobs.enqueue("resize-image", {"src": f"catalog/{7734 + n}.tif", "sizes": [320, 640]}) for n in range(3)]
    for claim in jobs.claim("app-2:3380", queues=("media",), limit=2, lease=3600):
        jobs.extend(claim, 3600)
    jobs.admin.pause(held[2].id, actor="ops", reason="disk almost full")
    cancelled = jobs.enqueue("send-email", {"template": "reminder"}, delay=900)
    jobs.admin.cancel(cancelled.id, actor="api token", reason="superseded")
    jobs.admin.pause_queue("search", create=True, actor="ops", reason="index rebuild")
    jobs.locks("app-1:4127").acquire("catalog-import", ttl=60)


def _schedules(jobs: Jobs) -> None:
    jobs.recurring("nightly-rollup", "rollup-daily-metrics", {"day": "yesterday"}, cron="30 2 * * *",
                   timezone="Europe/Paris")  # fmt: skip
    jobs.recurring("reconcile-balances", "rollup-daily-metrics", {}, every=300)
    jobs.recurring("weekly-digest", "send-email", {"template": "digest", "token": SECRET}, cron="0 20 * * 5",
                   timezone="America/New_York", misfire="ignore")  # fmt: skip
    jobs.recurring("rebuild-thumbnails", "resize-image", {}, cron="0 4 * * 0", paused=True)
    jobs.admin.trigger_recurring("nightly-rollup", actor="ops", reason="the night run died, template fixed")
