"""Enqueueing on the connection of a caller: queues and keys go with the caller's transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from sloppyjobs.domain.model import Job
from sloppyjobs.jobs import Jobs
from sloppyjobs.testing.conformance.records import count
from sloppyjobs.testing.conformance.sql_storage import sql_storage


def test_a_queue_whose_first_use_was_taken_back_is_remembered_at_the_next(jobs: Jobs) -> None:
    jobs.declare("greet")
    with jobs.storage.engine.connect() as connection:
        jobs.enqueue("greet", queue="mail", connection=connection)
        connection.rollback()
    assert count(jobs, "queues") == 0
    jobs.enqueue("greet", queue="mail")
    assert [queue.name for queue in jobs.storage.inspection.queues()] == ["mail"]


def test_callers_whose_queue_was_taken_back_write_its_row_again(jobs: Jobs) -> None:
    jobs.declare("greet")
    with jobs.storage.engine.connect() as connection:
        for _ in range(2):
            jobs.enqueue("greet", queue="mail", connection=connection)
            connection.rollback()
            assert count(jobs, "queues") == 0
        outer = connection.begin()
        with suppress(ZeroDivisionError), connection.begin_nested():
            jobs.enqueue("greet", queue="post", connection=connection)
            raise ZeroDivisionError
        jobs.enqueue("greet", queue="post", connection=connection)
        jobs.enqueue("greet", queue="mail", connection=connection)
        outer.commit()
    assert {queue.name for queue in jobs.storage.inspection.queues()} == {"mail", "post"}
    assert count(jobs) == 2


def test_a_queue_whose_row_is_gone_has_one_again_at_the_next_use(jobs: Jobs) -> None:
    jobs.declare("greet")
    table = sql_storage(jobs).tables.queues
    for _ in range(2):
        jobs.enqueue("greet", queue="mail")
        with jobs.storage.engine.begin() as connection:
            connection.execute(table.delete())
    with jobs.storage.engine.begin() as connection:
        jobs.enqueue("greet", queue="mail", connection=connection)
    assert [queue.name for queue in jobs.storage.inspection.queues()] == ["mail"]


def test_jobs_that_are_alike_go_with_the_transaction_of_the_caller(jobs: Jobs) -> None:
    jobs.declare("greet", queue="mail")
    with jobs.storage.engine.connect() as connection:
        assert len(jobs.enqueue_many([("greet", {"n": 1})] * 3, connection=connection)) == 3
        connection.rollback()
        assert count(jobs) == count(jobs, "queues") == 0
        jobs.enqueue_many([("greet", {"n": 1})] * 3, connection=connection)
        connection.commit()
    assert count(jobs) == 3


def test_a_connection_that_did_nothing_else_commits_its_jobs(live_jobs: Jobs) -> None:
    live_jobs.declare("greet")
    live_jobs.enqueue("greet")
    with live_jobs.storage.engine.connect() as connection:
        live_jobs.enqueue("greet", connection=connection)
        connection.commit()
        live_jobs.enqueue("greet", delay=5, connection=connection)
        connection.commit()
        live_jobs.enqueue("greet", connection=connection)
        connection.rollback()
        live_jobs.enqueue_many([("greet", {})] * 2, connection=connection)
        connection.commit()
    assert count(live_jobs) == 5


def test_a_key_that_was_rolled_back_is_free(jobs: Jobs) -> None:
    jobs.declare("charge")
    with jobs.storage.engine.connect() as connection:
        jobs.enqueue("charge", idempotency_key="order-1", connection=connection)
        connection.rollback()
    assert not jobs.enqueue("charge", idempotency_key="order-1").existing


def _while_held(jobs: Jobs, enqueue: Callable[[], Job], *, commit: bool) -> tuple[Job, Job]:
    """The job of a transaction that holds the key, and that of somebody who meanwhile wants it too."""
    arrived = threading.Event()

    def other() -> Job:
        arrived.set()
        return enqueue()

    with ThreadPoolExecutor(1) as pool, jobs.storage.engine.connect() as connection:
        held = jobs.enqueue("charge", idempotency_key="order-1", connection=connection)
        waiting = pool.submit(other)
        arrived.wait()
        (connection.commit if commit else connection.rollback)()
        return held, waiting.result(timeout=30)


def test_who_loses_the_race_gets_the_winners_job(jobs: Jobs) -> None:
    jobs.declare("charge")
    held, other = _while_held(jobs, lambda: jobs.enqueue("charge", idempotency_key="order-1"), commit=True)
    assert (other.id, other.existing) == (held.id, True)
    assert count(jobs) == 1


def test_who_waits_for_a_winner_that_rolls_back_wins(jobs: Jobs) -> None:
    jobs.declare("charge")
    held, other = _while_held(jobs, lambda: jobs.enqueue("charge", idempotency_key="order-1"), commit=False)
    assert (other.id != held.id, other.existing, count(jobs)) == (True, False, 1)


def test_many_wait_for_a_winner_as_one_does(jobs: Jobs) -> None:
    jobs.declare("charge")
    items = [("charge", None, {"idempotency_key": key}) for key in ("order-0", "order-1", "order-2")]
    held, other = _while_held(jobs, lambda: jobs.enqueue_many(items)[1], commit=True)
    assert (other.id, other.existing, count(jobs)) == (held.id, True, 3)
