"""The parts of the conformance suite where storage code differs, over the statements that all databases share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from plain_stores import (
    FASTER,
    NEEDED,
    PostgresPlain,
    SqlitePlain,
    faster,
    opened,
    overridden,
    plain,
)

from sloppyjobs.storage import SqlStorage
from sloppyjobs.storage.dialects.postgres.storage import PlainPostgresStorage
from sloppyjobs.storage.dialects.sqlite.storage import SqliteStorage
from sloppyjobs.testing.conformance.admin_commands import *  # noqa: F403
from sloppyjobs.testing.conformance.claim import *  # noqa: F403
from sloppyjobs.testing.conformance.enqueue import *  # noqa: F403
from sloppyjobs.testing.conformance.leases import *  # noqa: F403
from sloppyjobs.testing.conformance.locks import *  # noqa: F403
from sloppyjobs.testing.conformance.run import *  # noqa: F403
from sloppyjobs.testing.conformance.schedules import *  # noqa: F403
from sloppyjobs.testing.conformance.settle import *  # noqa: F403
from sloppyjobs.testing.conformance.sql_enqueueing import *  # noqa: F403

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
