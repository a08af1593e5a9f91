"""The parts of the conformance suite where storage code differs, over the statements that all databases share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from plain_stores import FASTER, PlainPostgres, PlainSqlite, opened

from sloppyjobs.storage import SqlStorage
from sloppyjobs.storage.dialect import Dialect
from sloppyjobs.storage.jobs.claim import Claims
from sloppyjobs.storage.jobs.insert import Insert
from sloppyjobs.testing.conformance.admin_commands import *  # noqa: F403
from sloppyjobs.testing.conformance.claim import *  # noqa: F403
from sloppyjobs.testing.conformance.enqueue import *  # noqa: F403
from sloppyjobs.testing.conformance.leases import *  # noqa: F403
from sloppyjobs.testing.conformance.locks import *  # noqa: F403
from sloppyjobs.testing.conformance.run import *  # noqa: F403
from sloppyjobs.testing.conformance.schedules import *  # noqa: F403
from sloppyjobs.testing.conformance.settle import *  # noqa: F403
from sloppyjobs.testing.conformance.sql_enqueueing import *  # noqa: F403

KINDS: dict[str, type[Dialect]] = {"sqlite-plain": PlainSqlite, "postgres-plain": PlainPostgres}


@pytest.fixture(params=KINDS)
def make_storage(request: pytest.FixtureRequest) -> Iterator[Callable[..., SqlStorage]]:
    """Makes stores over the test's database."""
    with opened(KINDS[request.param], request) as make:
        yield make


def test_whatever_a_dialect_does_faster_is_taken_away(make_storage: Callable[..., SqlStorage]) -> None:
    store = make_storage()
    assert (type(store.inserts), type(store.claims)) == (Insert, Claims)
    assert all(getattr(type(store.dialect), name) is getattr(Dialect, name) for name in FASTER)
