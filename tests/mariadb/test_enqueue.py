"""A plain job is enqueued in one round trip and a commit; whatever needs more takes the common way."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from sloppyjobs import Jobs


def test_a_plain_job_takes_one_block(jobs: Jobs, sent: list[str]) -> None:
    jobs.enqueue("greet")
    sent.clear()
    job = jobs.enqueue("greet", {"text": "50 % 'off' \\"}, metadata={"by": "me"})
    assert [sql.split()[:3] for sql in sent] == [["BEGIN", "NOT", "ATOMIC"]]
    assert jobs.get(job.id) == job
    assert job.created_at == job.run_at
    assert [(event.event_type, event.created_at) for event in jobs.admin.events(job.id)] == [
        ("created", job.created_at)
    ]
    [claim] = jobs.claim("w1", names=["greet"], limit=5)[1:]
    assert claim.payload == {"text": "50 % 'off' \\"}


def test_a_queue_is_written_with_its_first_job(jobs: Jobs) -> None:
    for _ in range(2):
        jobs.enqueue("greet", queue="fresh")
    with jobs.storage.engine.connect() as connection:
        names = connection.execute(text("SELECT name FROM sloppy_job_queues WHERE name = 'fresh'")).scalars().all()
    assert names == ["fresh"]


@pytest.mark.parametrize(
    "options",
    [{"delay": 60}, {"idempotency_key": "k"}, {"tags": ["a"]}, {"expires": 60}, {"business_key": "k"}],
    ids=str,
)
def test_a_job_that_needs_more_is_written_whole(jobs: Jobs, options: dict[str, Any], sent: list[str]) -> None:
    job = jobs.enqueue("greet", **options)
    assert not [sql for sql in sent if "BEGIN NOT ATOMIC" in sql]
    assert jobs.get(job.id) == job


def test_a_job_in_a_transaction_of_the_caller_is_written_by_statements_that_it_can_roll_back(jobs: Jobs) -> None:
    with jobs.storage.engine.connect() as connection:
        job = jobs.enqueue("greet", connection=connection)
        connection.rollback()
    assert job.id not in [one.id for one in jobs.admin.list_jobs().items]
