"""The parts of the conformance suite where storage code differs, over the statements that all databases share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from plain_stores import COMMON, FASTER, NEEDED, PlainPostgres, PlainSqlite, opened, plain, replaced

from sloppyjobs.storage import SqlStore
from sloppyjobs.storage.dialect import Dialect
from sloppyjobs.storage.dialects.postgres.dialect import PostgresDialect
from sloppyjobs.storage.dialects.sqlite.dialect import SqliteDialect
from sloppyjobs.storage.jobs.claim import Claims
from sloppyjobs.storage.jobs.insert import Insert
from sloppyjobs.testing.conformance.admin_causes import *  # noqa: F403
from sloppyjobs.testing.conformance.admin_commands import *  # noqa: F403
from sloppyjobs.testing.conformance.admin_explains import *  # noqa: F403
from sloppyjobs.testing.conformance.admin_job_types import *  # noqa: F403
from sloppyjobs.testing.conformance.admin_lists import *  # noqa: F403
from sloppyjobs.testing.conformance.admin_summaries import *  # noqa: F403
from sloppyjobs.testing.conformance.claim import *  # noqa: F403
from sloppyjobs.testing.conformance.enqueue import *  # noqa: F403
from sloppyjobs.testing.conformance.leases import *  # noqa: F403
from sloppyjobs.testing.conformance.locks import *  # noqa: F403
from sloppyjobs.testing.conformance.retention import *  # noqa: F403
from sloppyjobs.testing.conformance.run import *  # noqa: F403
from sloppyjobs.testing.conformance.schedules import *  # noqa: F403
from sloppyjobs.testing.conformance.settle import *  # noqa: F403
from sloppyjobs.testing.conformance.sql_bounds import *  # noqa: F403
from sloppyjobs.testing.conformance.sql_enqueueing import *  # noqa: F403
from sloppyjobs.testing.conformance.sql_retention import *  # noqa: F403
from sloppyjobs.testing.conformance.sql_statements import *  # noqa: F403
from sloppyjobs.testing.conformance.stepping import *  # noqa: F403
from sloppyjobs.testing.conformance.suspended_commands import *  # noqa: F403
from sloppyjobs.testing.conformance.suspending import *  # noqa: F403

KINDS: dict[str, type[Dialect]] = {"sqlite-plain": PlainSqlite, "postgres-plain": PlainPostgres}


@pytest.fixture(params=KINDS)
def make_storage(request: pytest.FixtureRequest) -> Iterator[Callable[..., SqlStore]]:
    """Makes stores over the test's database."""
    with opened(KINDS[request.param], request) as make:
        yield make


def test_whatever_a_dialect_does_faster_is_taken_away(make_storage: Callable[..., SqlStore]) -> None:
    store = make_storage()
    assert (type(store.inserts), type(store.claims)) == (Insert, Claims)
    assert all(getattr(type(store.dialect), name) is getattr(Dialect, name) for name in FASTER)


@pytest.mark.parametrize("dialect", [SqliteDialect, PostgresDialect])
def test_whatever_a_dialect_says_in_its_own_way_is_said_in_the_common_one(dialect: type[Dialect]) -> None:
    unknown = replaced(dialect) - FASTER - COMMON - NEEDED
    assert unknown == set(), "say in plain_stores.py whether the database can do with the common form"
    made = plain(dialect)
    assert {"beyond", "recursive_minimum", "style", *FASTER} <= replaced(dialect)
    assert all(getattr(made, name) is getattr(Dialect, name) for name in replaced(dialect) & (FASTER | COMMON))
