"""Jobs of one call are claimed in the order in which they were given, however their rows lie."""

from __future__ import annotations

import pytest

from sloppyjobs import Jobs
from sloppyjobs.storage.ports.claims import ClaimRequest


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


def _claimed(jobs: Jobs) -> list[str]:
    # Few at a time, because a claim answers in the right order whatever it took.
    request = ClaimRequest("worker", ("*",), ("greet",), 20)
    found: list[str] = []
    while claims := jobs.storage.claim(request):
        found += [claim.id for claim in claims]
    return found


def test_the_order_is_kept_however_the_rows_lie(url: str) -> None:
    jobs = Jobs(url)
    jobs.storage.init()
    jobs.declare("greet")
    ids = [job.id for job in jobs.enqueue_many([("greet", {"n": n}) for n in range(300)])]
    table = jobs.storage.tables.jobs
    with jobs.storage.engine.begin() as connection:
        for id in reversed(ids):
            # On PostgreSQL this writes the row anew, behind all others.
            connection.execute(table.update().where(table.c.id == id).values(principal="ada"))
    assert _claimed(jobs) == ids
    jobs.storage.close()
