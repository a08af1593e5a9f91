"""Processes that enqueue at once: a key lets one job in, and nothing that was acknowledged is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sqlalchemy import func, select, text

from sloppyjobs import Jobs

ROUNDS = 10


def with_the_same_keys(url: str, number: int, begin: Callable[[], object]) -> list[Any]:
    jobs = Jobs(url)
    jobs.declare("charge")
    begin()
    answers = []
    for round in range(ROUNDS):
        # Half of them alone, half of them among others, in opposite orders.
        if number % 2:
            answers.append(jobs.enqueue("charge", number, idempotency_key=f"order-{round}"))
        else:
            items = [
                ("charge", number, {"idempotency_key": key}) for key in (f"order-{round}", f"own-{number}-{round}")
            ]
            written = jobs.enqueue_many(items if number % 4 else reversed(items))
            answers += [job for job in written if job.idempotency_key == f"order-{round}"]
    return [(job.idempotency_key, job.id, job.existing) for job in answers]


def count(jobs: Jobs, table: Any) -> int:
    with jobs.storage.engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def test_eight_processes_with_the_same_keys_write_one_job_for_each(database_url: str, crowd: Any) -> None:
    answers = [answer for answers in crowd("with_the_same_keys", database_url) for answer in answers]
    assert len(answers) == 8 * ROUNDS
    for round in range(ROUNDS):
        ids = {job_id for key, job_id, _ in answers if key == f"order-{round}"}
        new = [job_id for key, job_id, existing in answers if key == f"order-{round}" and not existing]
        assert ids == set(new)
        assert len(new) == 1
    jobs = Jobs(database_url)
    tables = jobs.storage.tables
    assert count(jobs, tables.jobs) == count(jobs, tables.events) == ROUNDS + 4 * ROUNDS
    jobs.storage.close()


WAITING = """
SELECT wait_event, pg_blocking_pids(pid) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


def waiting(jobs: Jobs, number: int) -> list[Any]:
    """What so many others wait for, and whom, as soon as they do."""
    while True:
        with jobs.storage.engine.connect() as connection:
            found = connection.execute(text(WAITING)).all()
        if len(found) == number:
            return list(found)
        time.sleep(0.05)


def test_idempotency_keys_in_opposite_orders_are_taken_in_one_order_on_postgres(postgres_url: str) -> None:
    jobs = Jobs(postgres_url)
    jobs.declare("charge")
    jobs.enqueue("charge")  # whose queue is known from now on
    items = [("charge", 1, {"idempotency_key": key}) for key in ("a", "m", "z")]
    with ThreadPoolExecutor(2) as threads, jobs.storage.engine.connect() as first:
        jobs.enqueue(*items[1][:2], **items[1][2], connection=first)
        pid = first.execute(text("SELECT pg_backend_pid()")).scalar_one()
        both = [threads.submit(jobs.enqueue_many, given) for given in (items, items[::-1])]
        behind = [blockers for _, blockers in waiting(jobs, 2)]
        first.rollback()
    assert sum(pid in blockers for blockers in behind) == 1, "the other one waits for the one that waits"
    assert {job.id for job in both[0].result()} == {job.id for job in both[1].result()}
    jobs.storage.close()


def test_those_who_replace_several_jobs_take_turns_on_postgres(postgres_url: str) -> None:
    jobs = Jobs(postgres_url)
    jobs.declare("charge")
    items = [("charge", 1, {"business_key": key, "on_conflict": "replace"}) for key in ("a", "b")]
    jobs.enqueue_many(items)
    with ThreadPoolExecutor(1) as threads, jobs.storage.engine.connect() as first:
        jobs.enqueue_many(items, connection=first)
        second = threads.submit(jobs.enqueue_many, items[::-1])
        assert [event for event, _ in waiting(jobs, 1)] == ["advisory"]
        first.commit()
    live = jobs.admin.list_jobs(status="queued")
    assert {job.id for job in live} == {job.id for job in second.result()}
    jobs.storage.close()


if __name__ == "__main__":
    from crowd import main

    main(globals())
