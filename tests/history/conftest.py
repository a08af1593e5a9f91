"""A log, and jobs whose handlers write to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sloppyjobs import FakeClock, Jobs, Retry
from sloppyjobs.storage import SqlStore
from sloppyjobs.testing.history import Client, Log, record_handlers


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path / "history.log")
    yield made
    made.close()


def define(jobs: Jobs, log: Log) -> Jobs:
    """A handler that works, one that fails once, one that always fails, and a coroutine."""
    record_handlers(jobs, log)
    retry = Retry(max_attempts=3, backoff="none")
    jobs.define("greet", lambda _ctx, _payload: "hello", retry=retry)

    @jobs.define("flaky", retry=retry)
    def flaky(ctx: Any, _payload: Any) -> None:
        if ctx.attempt == 1:
            raise ConnectionError("not today")

    @jobs.define("broken", retry=retry)
    def broken(_ctx: Any, _payload: Any) -> None:
        raise ValueError("never")

    @jobs.define("greet-later")
    async def greet_later(_ctx: Any, _payload: Any) -> str:
        return "hello"

    return jobs


@pytest.fixture
def jobs(make_storage: Callable[..., SqlStore], log: Log) -> Jobs:
    """Under the database's own clock."""
    return define(Jobs(make_storage()), log)


@pytest.fixture
def timed_jobs(make_storage: Callable[..., SqlStore], log: Log, jobs_clock: FakeClock) -> Jobs:
    """Under a clock that the test moves."""
    return define(Jobs(make_storage(jobs_clock)), log)


@pytest.fixture
def client(jobs: Jobs, log: Log) -> Client:
    return Client(jobs, log)


@pytest.fixture
def timed_client(timed_jobs: Jobs, log: Log) -> Client:
    return Client(timed_jobs, log)
