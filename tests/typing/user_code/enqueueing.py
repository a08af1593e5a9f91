"""What a checker knows of jobs that are enqueued by their name."""

from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from sloppyjobs import Context, EnqueueOptions, FakeClock, Job, Jobs, Retry, storage
from sloppyjobs.flask import SloppyJobs

jobs = Jobs("sqlite:///shop.db")
assert_type(jobs.init(), int)
frozen = Jobs(storage.sqlite("sqlite:///shop.db", clock=FakeClock(datetime.now(UTC))))
for make in (storage.postgres, storage.mariadb, storage.sqlserver, storage.from_url):
    Jobs(make("postgresql://shop"))


def by_name(session: Session, connection: Connection, db: SQLAlchemy, ctx: Context) -> None:
    job = jobs.enqueue(
        "send-email",
        {"to": "ada@example.org"},
        queue="emails",
        priority=3,
        delay=timedelta(minutes=1),
        idempotency_key="k",
        max_attempts=3,
        retry=Retry(max_attempts=5),
        timeout=30,
        correlation_id="c",
        metadata={"team": "growth"},
        principal="ada",
        session=session,
    )
    assert_type(job, Job)
    assert_type(job.result, Any)
    assert_type(jobs.wait(job.id), Job)
    assert_type(jobs.wait(job), Job)
    jobs.wait(job_id=job.id, timeout=3)
    jobs.enqueue("send-email", connection=connection)
    jobs.enqueue("send-email", session=db.session)
    jobs.enqueue_delayed("send-email", {}, 60, queue="emails")
    jobs.enqueue_at("send-email", {}, datetime.now(UTC), priority=3)
    ctx.enqueue("send-email", {}, priority=3)
    SloppyJobs().enqueue("send-email", {}, priority=3)

    jobs.enqueue("send-email", {}, prioriti=3)  # expect: call-arg | reportCallIssue
    jobs.enqueue("send-email", {}, priority="3")  # expect: arg-type | reportArgumentType
    jobs.enqueue("send-email", {}, retry=5)  # expect: arg-type | reportArgumentType
    jobs.enqueue("send-email", {}, session="s")  # expect: arg-type | reportArgumentType
    jobs.enqueue_delayed("send-email", {}, 60, queue=3)  # expect: arg-type | reportArgumentType
    jobs.enqueue_at("send-email", {}, 60)  # expect: arg-type | reportArgumentType
    ctx.enqueue("send-email", {}, colour="red")  # expect: call-arg | reportCallIssue
    SloppyJobs().enqueue("send-email", {}, priority="3")  # expect: arg-type | reportArgumentType
    jobs.wait(3)  # expect: call-overload | reportCallIssue reportArgumentType


def many() -> None:
    options: EnqueueOptions = {"priority": 5, "delay": 60}
    written = jobs.enqueue_many([("send-email", {"to": "a"}), ("send-email", {"to": "b"}, options), ("tick",)])
    assert_type(written, list[Job])
    jobs.enqueue_many(("send-email", {"n": n}, {"priority": n}) for n in range(3))

    built = [("send-email", {"n": n}, {"idempotency_key": f"order-{n}"}) for n in range(3)]
    jobs.enqueue_many(built)
    jobs.enqueue_many([("send-email", {}, 5)])  # expect: list-item | reportArgumentType
    jobs.enqueue_many(["send-email"])  # expect: list-item | reportArgumentType
    options["queue"] = 3  # expect: typeddict-item | reportGeneralTypeIssues


async def from_coroutines(session: AsyncSession, connection: AsyncConnection, job: Job[int | None]) -> None:
    assert_type(await jobs.enqueue_async("send-email", {}, session=session, priority=3), Job)
    await jobs.enqueue_async("send-email", {}, connection=connection)
    assert_type(await jobs.enqueue_many_async([("send-email", {})], session=session), list[Job])
    assert_type((await jobs.wait_async(job)).result, int | None)
    assert_type(await jobs.wait_async(job.id), Job)

    await jobs.enqueue_async("send-email", {}, prioriti=3)  # expect: call-arg | reportCallIssue
    await jobs.enqueue_async("send-email", {}, priority="3")  # expect: arg-type | reportArgumentType
    await jobs.enqueue_many_async([("a", 1, 5)])  # expect: list-item | reportArgumentType
