"""Every statement that the conformance suite makes the common code ask of SQL Server's dialect is T-SQL.

And none is executed before the rows of the one before are read: SQL Server's connections carry one answer at a time.

The suite runs on SQLite, by statements that have both forms; no server is needed. Where one is at hand, the suite
itself runs on it: see ``SLOPPYJOBS_TEST_SQLSERVER_URL`` in ``tests/conftest.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import make_url
from sqlserver_twin import TwinDialect, faults_of, twin_store

from sloppyjobs.storage import SqlStore
from sloppyjobs.storage.clock import Clock
from sloppyjobs.testing.conformance import *  # noqa: F403

pytestmark = pytest.mark.slow


@pytest.fixture
def make_storage(ready_sqlite_url: str) -> Iterator[Callable[..., SqlStore]]:
    """Makes stores over the test's database; what they have written is parsed when the test ends."""
    made: list[SqlStore] = []

    def make(clock: Clock | None = None) -> SqlStore:
        made.append(twin_store(make_url(ready_sqlite_url), clock))
        return made[-1]

    yield make
    for one in made:
        one.close()
    assert [fault for one in made for text in sorted(written(one)) for fault in faults_of(text)] == []
    assert [text for one in made for text in sorted(interrupted(one))] == []


def written(store: SqlStore) -> set[str]:
    """The texts for SQL Server."""
    assert isinstance(store.dialect, TwinDialect)
    return store.dialect.written


def interrupted(store: SqlStore) -> set[str]:
    """What was executed too early."""
    assert isinstance(store.dialect, TwinDialect)
    return store.dialect.interrupted
