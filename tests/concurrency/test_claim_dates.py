"""An attempt begins after the one before it was over, also when that one expires while others claim."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import make_url

from sloppyjobs import Jobs
from sloppyjobs.storage.ports.claims import ClaimRequest

DATABASES = {"psycopg2": "postgres_url", "mariadb": "mariadb_url", "sqlserver": "sqlserver_url"}
"""Where a claim is several statements, and others may write between them."""


@pytest.fixture(params=DATABASES)
def jobs(request: pytest.FixtureRequest) -> Iterator[Jobs]:
    """Jobs in each of them."""
    url = make_url(request.getfixturevalue(DATABASES[request.param]))
    if request.param == "psycopg2":
        url = url.set(drivername="postgresql+psycopg2")
    made = Jobs(url.render_as_string(hide_password=False))
    made.declare("work")
    yield made
    made.storage.close()


def test_a_claim_begins_after_an_attempt_that_expires_while_it_looks_for_jobs(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = jobs.enqueue("work", max_attempts=3)
    jobs.claim("gone", lease=0.000001)
    jobs.enqueue("work", priority=-1)
    lanes = jobs.storage.claims.lanes
    # On MariaDB a block of statements looks for them.
    name = "of_only" if hasattr(lanes, "of_only") else "heads_of"
    find = getattr(lanes, name)

    def after_the_clock_was_read(*arguments: Any) -> Any:
        # On a connection of its own, as another process would.
        while jobs.get(job.id).status != "queued":
            jobs.storage.sweep()
        return find(*arguments)

    monkeypatch.setattr(lanes, name, after_the_clock_was_read)
    # Not by ``jobs.claim``, which would see to the lease before it begins.
    claims = {claim.id: claim for claim in jobs.storage.claim(ClaimRequest("w1", limit=2))}
    assert claims[job.id].attempt == 2
    first, second = sorted(jobs.admin.attempts(job.id), key=lambda one: one.attempt_number)
    assert first.finished_at is not None
    assert second.started_at >= first.finished_at
