"""The claims of a worker's turn are read when they are looked at, and by then the next claim is under way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sloppyjobs import Jobs
from sloppyjobs.storage import SqlStore
from sloppyjobs.storage.dialects.mariadb.lanes import MANY_HEADS
from sloppyjobs.storage.dialects.mariadb.operations import MariaDbClaims
from sloppyjobs.storage.ports.claims import ClaimRequest, Turns
from sloppyjobs.testing.conformance.sql_damage import harm

MANY = ClaimRequest("w1", limit=MANY_HEADS)


@pytest.fixture
def begun(jobs: Jobs, store: SqlStore) -> Iterator[Turns]:
    """Turns of a worker that knows its lane, and for which there is enough."""
    jobs.enqueue_many([("greet", n) for n in range(2 * MANY.limit)])
    made = store.turns()
    made.begin_claim(MANY)
    assert len(made.claimed()) == MANY.limit
    yield made
    made.close()


def test_claimed_rows_are_read_when_they_are_looked_at(begun: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    read, seen = [], MariaDbClaims.claims_seen

    def noted(claims: MariaDbClaims, *given: Any) -> Any:
        read.append(len(given[0]))
        return seen(claims, *given)

    monkeypatch.setattr(MariaDbClaims, "claims_seen", noted)
    begun.begin_claim(MANY)
    claims = begun.claimed()
    assert (len(claims), read) == (MANY.limit, [])
    assert [claims[0].payload, claims[-1].payload] == [MANY.limit, 2 * MANY.limit - 1]
    assert {claim.attempt for claim in claims} == {1}
    assert read == [MANY.limit]


def test_a_damaged_row_among_them_is_told_and_harms_no_other(begun: Turns, jobs: Jobs) -> None:
    harmed = jobs.enqueue("greet", "harmed", priority=1)
    harm(jobs, harmed.id, "metadata = '5'")
    begun.begin_claim(MANY)
    first, *others = begun.claimed()
    assert first.id == harmed.id and "metadata" in str(first.job.damage)
    assert len(others) == MANY.limit - 1
    assert {claim.job.damage for claim in others} == {None}
