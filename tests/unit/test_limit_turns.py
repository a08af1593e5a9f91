"""Jobs under a limit that are settled by the statements of PostgreSQL: what comes after the commit may fail."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from sloppyjobs import Jobs
from sloppyjobs.domain.model import Settlement
from sloppyjobs.domain.states import Succeeded, decide
from sloppyjobs.storage.jobs.permit_line import PermitLine
from sloppyjobs.storage.ports.claims import ClaimRequest


@pytest.fixture
def jobs(postgres_url: str) -> Iterator[Jobs]:
    found = Jobs(postgres_url)
    found.storage.init()
    found.declare("work")
    found.limit("api", concurrency=1)
    yield found
    found.storage.close()


def test_a_settlement_is_accepted_although_the_line_could_not_be_released(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = jobs.enqueue_many([("work", n, {"resource": "api"}) for n in range(2)])
    [claim] = jobs.storage.claim(ClaimRequest("worker", limit=10))
    assert (claim.id, jobs.admin.get_job(second.id).status) == (first.id, "waiting")

    def fail(*_given: Any) -> int:
        raise OperationalError("SELECT 1", {}, Exception("gone"))

    settlement = Settlement(claim.id, claim.attempt, "worker", decide(1, 3, Succeeded()), 0.0, None, claim.followups)
    turns = jobs.storage.turns()
    with monkeypatch.context() as broken, caplog.at_level(logging.WARNING, "sloppyjobs.limits"):
        broken.setattr(PermitLine, "release", fail)
        turns.begin_settle([settlement])
        assert turns.settled() == {first.id}
        turns.close()
    assert "could not be released" in caplog.text
    assert jobs.admin.get_job(second.id).status == "waiting"
    jobs.storage.sweep()
    [claim] = jobs.storage.claim(ClaimRequest("worker", limit=10))
    assert claim.id == second.id
