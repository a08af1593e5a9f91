"""A worker beside an application that has an engine of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event

from sloppyjobs import Jobs, storage


@pytest.fixture
def small(postgres_url: str) -> Iterator[Engine]:
    """An application's engine with a single connection."""
    engine = create_engine(storage.from_url(postgres_url).engine.url, pool_size=1, max_overflow=0, pool_timeout=1)
    yield engine
    engine.dispose()


def test_handlers_that_hold_every_connection_do_not_lose_their_leases(
    small: Engine, eventually: Callable[..., Any]
) -> None:
    jobs = Jobs(small)
    held, leave = threading.Event(), threading.Event()

    @jobs.define("hold")
    def hold(_ctx: Any, _payload: Any) -> str:
        with small.connect():
            held.set()
            assert leave.wait(60)
        return "held"

    job = jobs.enqueue("hold", {})
    onlooker = Jobs(storage.from_url(small.url))
    worker = jobs.create_worker(lease=1, heartbeat=0.3, poll_interval=0.2, recurring=False, maintenance=False)
    worker.start()
    try:
        assert held.wait(30)
        first = onlooker.get(job.id).locked_until
        assert first is not None
        # Two leases later it has been renewed, and nobody has taken it for lost.
        eventually(lambda: (onlooker.get(job.id).locked_until - first).total_seconds() > 2, 30)
    finally:
        leave.set()
        worker.stop(timeout=10)
    done = onlooker.wait(job.id, timeout=30)
    onlooker.storage.close()
    assert (done.status, done.attempt_count, done.result) == ("succeeded", 1, "held")


def test_the_connections_of_a_worker_are_made_as_the_application_makes_its_own(database_url: str) -> None:
    engine = create_engine(storage.from_url(database_url).engine.url, pool_size=1, max_overflow=0)
    made: list[object] = []
    event.listen(engine, "connect", lambda driver, _record: made.append(driver))
    jobs = Jobs(engine)
    jobs.define("noop", lambda _ctx, _payload: None)
    with engine.connect():
        made.clear()
        assert jobs.create_worker(recurring=False).run_once() == 0
    assert made, "the worker has connected by itself, and the application's listener was asked"
    assert engine.pool.status().startswith("Pool size: 1")
    engine.dispose()


def test_a_worker_of_jobs_that_have_a_url_shares_their_pool(database_url: str) -> None:
    jobs = Jobs(database_url)
    assert jobs.create_worker().storage is jobs.storage
    jobs.storage.close()
