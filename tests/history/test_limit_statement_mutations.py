"""The statements of PostgreSQL that take permits and give them back, broken: the checker finds it in a real run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from side_by_side import run_side_by_side

from sloppyjobs import Jobs
from sloppyjobs.storage.dialects.postgres.settle_statements import Hanging
from sloppyjobs.storage.dialects.postgres.turns import PostgresClaims
from sloppyjobs.storage.jobs import permit_sweep
from sloppyjobs.testing.history import Log, check

Sql = Any


@pytest.fixture
def database_url(postgres_url: str) -> str:
    return postgres_url


def change_statements(jobs: Jobs, change: Callable[[Sql], Sql]) -> None:
    claims: Any = jobs.storage.claims
    assert isinstance(claims, PostgresClaims)
    claims._sql = change(claims._sql)
    # As if the worker had met jobs under limits before.
    claims._limited_claims = 1000


def test_statements_that_are_whole_are_sound(jobs: Jobs, log: Log) -> None:
    change_statements(jobs, lambda sql: sql)
    run_side_by_side(jobs, 100)
    assert check(jobs, log, within=0) == []
    assert jobs.admin.get_limit("api").held == 0


def test_a_settlement_that_keeps_the_permits_is_found(jobs: Jobs, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_deletion(sql: Sql) -> Sql:
        broken = [
            text.replace("ARRAY (SELECT id FROM settled)", "ARRAY[]::text[]") for text in sql.settle[Hanging.LIMIT][:2]
        ]
        assert list(sql.settle[Hanging.LIMIT][:2]) != broken
        return sql._replace(
            settle={
                **sql.settle,
                Hanging.LIMIT: sql.settle[Hanging.LIMIT]._replace(successes=broken[0], others=broken[1]),
            }
        )

    monkeypatch.setattr(permit_sweep.PermitSweep, "remove_orphans", lambda _: 0)
    change_statements(jobs, without_deletion)
    run_side_by_side(jobs, 100)
    assert "I15" in {one.invariant for one in check(jobs, log, within=0)}


def test_a_claim_that_takes_slots_beyond_the_limit_is_found(jobs: Jobs, log: Log) -> None:
    def without_bound(sql: Sql) -> Sql:
        broken = sql.claim_limited.replace(
            "of_limit.concurrency, of_limit.rate", "of_limit.concurrency + 100 AS concurrency, of_limit.rate"
        ).replace("least(of_limit.concurrency, wanted.width) AS width", "50 AS width")
        assert broken.count("100") and broken != sql.claim_limited
        return sql._replace(claim_limited=broken)

    change_statements(jobs, without_bound)
    run_side_by_side(jobs, 2)
    assert "I15" in {one.invariant for one in check(jobs, log)}
