"""Processes that claim at once never hold the same attempt, and settle each of them once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import func, select

from sloppyjobs import Jobs

JOBS = 400
DATABASES = {"sqlite": "ready_sqlite_url", "postgres": "postgres_url", "mariadb": "new_mariadb_url"}


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of an initialised database; the test runs once on each kind that is supported."""
    url: str = request.getfixturevalue(DATABASES[request.param])
    return url


def claim_and_complete(url: str, number: int, begin: Callable[[], object]) -> list[tuple[str, int, bool]]:
    jobs = Jobs(url)
    begin()
    done = []
    while claims := jobs.claim(f"w{number}", queues=["*"], limit=7):
        done += [(claim.id, claim.attempt, jobs.complete(claim, number)) for claim in claims]
    return done


def claim_with_leases_that_run_out(url: str, number: int, begin: Callable[[], object]) -> list[tuple[str, int, bool]]:
    jobs = Jobs(url)
    begin()
    done = []
    # Leases of a microsecond: everybody takes everything from everybody, until the attempts are used up.
    for _ in range(60):
        claims = jobs.claim(f"w{number}", queues=["*"], limit=3, lease=0.000001)
        done += [(claim.id, claim.attempt, jobs.complete(claim, number)) for claim in claims]
    return done


def fill(url: str, how_many: int, **options: Any) -> Jobs:
    jobs = Jobs(url)
    jobs.declare("a")
    jobs.declare("b")
    kinds = [(name, queue, priority) for name in "ab" for queue in "xyz" for priority in (0, 5)]
    jobs.enqueue_many(
        (name, position, {"queue": queue, "priority": priority, **options})
        for position, (name, queue, priority) in zip(range(how_many), kinds * how_many, strict=False)
    )
    return jobs


def statuses(jobs: Jobs) -> dict[str, int]:
    c = jobs.storage.tables.jobs.c
    with jobs.storage.engine.connect() as connection:
        query = select(c.status, func.count()).group_by(c.status)
        return {status: number for status, number in connection.execute(query)}  # noqa: C416


def test_eight_processes_share_the_jobs_and_complete_each_once(database_url: str, crowd: Any) -> None:
    jobs = fill(database_url, JOBS)
    shares = crowd("claim_and_complete", database_url, 8)
    done = [tuple(one) for share in shares for one in share]
    assert Counter(accepted for _, _, accepted in done) == {True: JOBS}
    assert Counter(attempt for _, attempt, _ in done) == {1: JOBS}
    assert len({job_id for job_id, _, _ in done}) == JOBS
    assert statuses(jobs) == {"succeeded": JOBS}
    jobs.storage.close()


def test_an_attempt_is_claimed_by_one_process_even_when_leases_run_out_at_once(database_url: str, crowd: Any) -> None:
    jobs = fill(database_url, 60, max_attempts=1_000)
    shares = crowd("claim_with_leases_that_run_out", database_url, 8)
    done = [tuple(one) for share in shares for one in share]
    claimed = Counter((job_id, attempt) for job_id, attempt, _ in done)
    accepted = Counter(job_id for job_id, _, accepted in done if accepted)
    assert set(claimed.values()) <= {1}
    assert set(accepted.values()) <= {1}
    assert statuses(jobs).get("succeeded", 0) == len(accepted)
    jobs.storage.close()


if __name__ == "__main__":
    from crowd import main

    main(globals())


def test_where_another_transaction_has_the_first_job_of_a_lane_the_next_ones_are_claimed(postgres_url: str) -> None:
    jobs = Jobs(postgres_url)
    for name in ("a", "b", "c"):
        jobs.declare(name)
    written = jobs.enqueue_many([(name, None) for _ in range(3) for name in ("a", "b", "c")])
    table = jobs.storage.tables.jobs
    with jobs.storage.engine.begin() as connection:
        connection.execute(select(table.c.id).where(table.c.id == written[0].id).with_for_update())
        claimed = jobs.claim("w1", limit=5)
        # Of each lane as many as are among the first five.
        assert [claim.id for claim in claimed] == [written[place].id for place in (1, 2, 3, 4, 6)]
    assert [claim.id for claim in jobs.claim("w1", limit=9)] == [written[place].id for place in (0, 5, 7, 8)]
