"""Retries of a cause by many at once: each job is retried once, and the rate holds."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select

from sloppyjobs import NO_RETRY, Jobs, errors
from sloppyjobs.storage import FakeClock, SqlStore

MakeStorage = Callable[..., SqlStore]
CROWD = 4


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(datetime(2030, 1, 1, 12, tzinfo=UTC))


@pytest.fixture
def many(make_storage: MakeStorage, clock: FakeClock) -> list[Jobs]:
    """Processes, as far as the database can tell: each with a storage of its own."""
    made = [Jobs(make_storage(clock)) for _ in range(CROWD)]
    for jobs in made:
        jobs.define("fail", lambda ctx, payload: 1 / 0, retry=NO_RETRY)
    made[0].enqueue_many([("fail", {})] * 20)
    made[0].create_worker(recurring=False).run_once()
    clock.advance(1)
    return made


def together(many: list[Jobs], work: Callable[[Jobs], Any]) -> list[Any]:
    """What each of them answered, all having begun at once."""
    ready = threading.Barrier(len(many))

    def begin(jobs: Jobs) -> Any:
        ready.wait(60)
        return work(jobs)

    with ThreadPoolExecutor(len(many)) as pool:
        return list(pool.map(begin, many))


def retries(jobs: Jobs) -> Counter[str]:
    """How often each job was retried."""
    c = jobs.storage.tables.events.c
    query = select(c.job_id).where(c.event_type == "retried")
    return Counter(jobs.storage.database.read(lambda connection: connection.execute(query).scalars().all()))


def test_many_who_advance_a_run_do_one_step(many: list[Jobs], clock: FakeClock) -> None:
    [group] = many[0].admin.dead_groups()
    many[0].admin.retry_rest(group.cause, 60)
    for step in range(1, 6):
        assert sum(together(many, lambda jobs: jobs.admin.advance_retry_runs())) == 1
        assert len(retries(many[0])) == step
        for claim in many[0].claim("w", limit=50):
            many[0].complete(claim, None)
        clock.advance(1)
    assert set(retries(many[0]).values()) == {1}


def test_canaries_at_the_same_time_retry_different_jobs(many: list[Jobs]) -> None:
    [group] = many[0].admin.dead_groups()
    runs = together(many, lambda jobs: jobs.admin.retry_canary(group.cause, 3))
    assert sum(run.retried for run in runs) == sum(retries(many[0]).values())
    assert set(retries(many[0]).values()) == {1}
    view = many[0].admin.get_cause(group.cause)
    assert (view.dead.value, view.deaths) == (20 - len(retries(many[0])), 20)


def test_of_many_who_begin_the_rest_one_does(many: list[Jobs]) -> None:
    [group] = many[0].admin.dead_groups()

    def begin(jobs: Jobs) -> bool:
        try:
            jobs.admin.retry_rest(group.cause, 60)
        except errors.InvalidTransition:
            return False
        return True

    assert sum(together(many, begin)) == 1


def test_a_stop_among_steps_is_the_end(many: list[Jobs], clock: FakeClock) -> None:
    [group] = many[0].admin.dead_groups()
    run = many[0].admin.retry_rest(group.cause, 6_000)

    def work(jobs: Jobs) -> Any:
        if jobs is many[0]:
            return jobs.admin.stop_retry_run(run.id).state
        return jobs.admin.advance_retry_runs()

    answers = together(many, work)
    assert answers[0] == "stopped"
    done = many[0].admin.get_cause(group.cause).rest
    assert done is not None
    assert done.retried == sum(answers[1:]) == len(retries(many[0]))
    clock.advance(60)
    assert many[0].admin.advance_retry_runs() == 0
