"""The parts of the conformance suite where storage code differs, over the statements that all databases share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from plain_stores import (
    FASTER,
    FORMS,
    NEEDED,
    NEEDED_FORMS,
    PostgresPlain,
    SqlitePlain,
    faster,
    opened,
    overridden,
    plain,
    plain_dialect,
    replaced_forms,
)

from sloppyjobs.storage import SqlStorage
from sloppyjobs.storage.dialect import Dialect
from sloppyjobs.storage.dialects.postgres.dialect import PostgresDialect
from sloppyjobs.storage.dialects.postgres.storage import PlainPostgresStorage
from sloppyjobs.storage.dialects.sqlite.dialect import SqliteDialect
from sloppyjobs.storage.dialects.sqlite.storage import SqliteStorage
from sloppyjobs.testing.conformance.admin_causes import *  # noqa: F403
from sloppyjobs.testing.conformance.admin_commands import *  # noqa: F403
from sloppyjobs.testing.conformance.admin_explains import *  # noqa: F403
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

KINDS: dict[str, type[SqlStorage]] = {
    "sqlite-plain": SqlitePlain,
    "postgres-plain": PostgresPlain,
}


@pytest.fixture(params=KINDS)
def make_storage(request: pytest.FixtureRequest) -> Iterator[Callable[..., SqlStorage]]:
    """Makes stores over the test's database."""
    with opened(KINDS[request.param], request) as make:
        yield make


@pytest.mark.parametrize("dialect", [SqliteStorage, PlainPostgresStorage])
def test_whatever_a_dialect_does_faster_is_taken_away(dialect: type[SqlStorage]) -> None:
    unknown = overridden(dialect) - NEEDED - FASTER
    assert unknown == set(), "say in plain_stores.py whether they are needed or only faster"
    made = plain(dialect)
    assert faster(dialect) != set()
    assert all(getattr(made, name) is getattr(SqlStorage, name) for name in faster(dialect))


@pytest.mark.parametrize("dialect", [SqliteDialect, PostgresDialect])
def test_whatever_a_dialect_says_in_its_own_way_is_said_in_the_common_one(dialect: type[Dialect]) -> None:
    unknown = replaced_forms(dialect) - FORMS - NEEDED_FORMS
    assert unknown == set(), "say in plain_stores.py whether the database can do with the common form"
    made = plain_dialect(dialect)
    assert {"beyond", "recursive_minimum", "style"} <= replaced_forms(dialect) & FORMS
    assert all(getattr(made, name) is getattr(Dialect, name) for name in replaced_forms(dialect) & FORMS)
