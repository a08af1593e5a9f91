"""Schedules and locks while answers are lost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from proxy import FaultyProxy

from sloppyjobs import Jobs, storage
from sloppyjobs.domain.model import Job
from sloppyjobs.internals import internals

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def jobs(proxied_url: str) -> Iterator[Jobs]:
    """Through the proxy."""
    found = Jobs(storage.postgres(proxied_url))
    found.declare("sync")
    yield found
    found.storage.close()


@pytest.mark.parametrize("moves", ["UPDATE sloppy_recurring_jobs", "DELETE FROM sloppy_recurring_jobs"])
def test_a_tick_reports_what_it_fired_once(proxy: FaultyProxy, jobs: Jobs, moves: str) -> None:
    told: list[Job] = []
    internals(jobs).observers.append(lambda _new, job, _committed: told.append(job))
    now = jobs.storage.clock.now()
    if moves.startswith("DELETE"):
        jobs.recurring("s", "sync", at=now)
    else:
        jobs.recurring("s", "sync", every=1)
    proxy.drop_answer_to(moves)
    while not (fired := jobs.tick_recurring()):
        assert jobs.storage.clock.now() < now + timedelta(seconds=30)
    assert proxy.answers_dropped == 1
    assert [job.existing for job in fired] == [False]
    assert [job.id for job in told] == [job.id for job in fired]
    assert jobs.get(fired[0].id) == fired[0]


def test_a_lock_that_was_released_unheard_was_released(proxy: FaultyProxy, jobs: Jobs) -> None:
    locks = jobs.locks("me")
    assert locks.acquire("nightly")
    proxy.drop_answer_to("DELETE FROM sloppy_job_locks")
    assert locks.release("nightly") is True
    assert proxy.answers_dropped == 1
    assert locks.release("nightly") is False


def test_a_lock_is_acquired_and_extended_although_the_answer_is_lost(proxy: FaultyProxy, jobs: Jobs) -> None:
    locks = jobs.locks("me")
    proxy.drop_answer_to("INSERT INTO sloppy_job_locks")
    assert locks.acquire("nightly")
    proxy.drop_answer_to("UPDATE sloppy_job_locks")
    assert locks.extend("nightly", 60)
    assert proxy.answers_dropped == 2
    assert not jobs.locks("you").acquire("nightly")
