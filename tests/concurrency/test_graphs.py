"""Processes that settle the parents of the same jobs at once never leave one of these waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from sqlalchemy import func, select

from sloppyjobs import Jobs
from sloppyjobs.domain.model import Settlement
from sloppyjobs.domain.states import Succeeded, decide
from sloppyjobs.storage.ports.claims import ClaimRequest

GRAPHS, PARENTS = 25, 8
DATABASES = {"sqlite": "ready_sqlite_url", "postgres": "postgres_url", "mariadb": "new_mariadb_url"}


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of an initialised database; the test runs once on each kind that is supported."""
    url: str = request.getfixturevalue(DATABASES[request.param])
    return url


def drain_by_turns(url: str, number: int, begin: Callable[[], object]) -> list[str]:
    jobs = Jobs(url)
    worker = f"w{number}"
    turns = jobs.storage.turns()
    begin()
    done: list[str] = []
    # Whoever finds nothing to do while another one still works may find something when that one has settled.
    while statuses(jobs).keys() & {"queued", "processing"}:
        turns.begin_claim(ClaimRequest(worker, ("*",), None, limit=3))
        if claims := list(turns.claimed()):
            turns.begin_settle(
                [
                    Settlement(one.id, one.attempt, worker, decide(1, 3, Succeeded()), 0.0, None, one.followups)
                    for one in claims
                ]
            )
            done += turns.settled()
    turns.close()
    return done


def statuses(jobs: Jobs) -> dict[str, int]:
    c = jobs.storage.tables.jobs.c
    with jobs.storage.engine.connect() as connection:
        query = select(c.status, func.count()).group_by(c.status)
        return {status: number for status, number in connection.execute(query)}  # noqa: C416


def test_a_job_starts_once_however_many_processes_settle_its_parents_at_once(
    database_url: str, crowd: Callable[..., list[list[str]]]
) -> None:
    jobs = Jobs(database_url)
    jobs.declare("work")
    for _ in range(GRAPHS):
        with jobs.workflow("fan in") as flow:
            parents = [flow.add("work") for _ in range(PARENTS)]
            middle = [flow.add("work", after=parents) for _ in range(2)]
            flow.add("work", after=middle)
    shares = crowd("drain_by_turns", database_url, 6)
    settled = Counter(job_id for share in shares for job_id in share)
    assert statuses(jobs) == {"succeeded": GRAPHS * (PARENTS + 3)}
    assert set(settled.values()) == {1} and settled.total() == GRAPHS * (PARENTS + 3)
    c = jobs.storage.tables.events.c
    with jobs.storage.engine.connect() as connection:
        unblocked = select(func.count()).where(c.event_type == "unblocked")
        assert connection.execute(unblocked).scalar_one() == GRAPHS * 3
    jobs.storage.close()


if __name__ == "__main__":
    from crowd import main

    main(globals())
