"""Migrations of databases where DDL ends the transaction: one process at a time, and what was begun is finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import select, update

from sloppyjobs import storage
from sloppyjobs.storage import SqlStore
from sloppyjobs.storage.conflicts import Conflict
from sloppyjobs.storage.schema import migration_lease
from sloppyjobs.storage.schema.migration_lease import MigrationLease
from sloppyjobs.storage.schema.version import VERSION

WAIT = 60.0


@pytest.fixture(params=["postgres"])
def make_empty(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], SqlStore]]:
    """Makes storages over a database without our tables, that migrate under a lease."""
    url = request.getfixturevalue(f"empty_{request.param}_url")
    made: list[SqlStore] = []

    def make() -> SqlStore:
        made.append(storage.from_url(url))
        monkeypatch.setattr(type(made[-1].dialect), "transactional_ddl", False)
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def empty(make_empty: Callable[[], SqlStore]) -> SqlStore:
    return make_empty()


def _lock(store: SqlStore) -> Any:
    with store.engine.connect() as connection:
        return connection.execute(select(store.tables.locks)).one_or_none()


def test_the_lease_is_given_back(empty: SqlStore) -> None:
    assert empty.init() == VERSION
    assert _lock(empty) is None


def test_a_second_process_waits_for_the_first(make_empty: Callable[[], SqlStore]) -> None:
    first, second = make_empty(), make_empty()
    lease = MigrationLease(first.database)
    with ThreadPoolExecutor(1) as pool:
        with lease.held():
            waiting = pool.submit(second.init)
            with pytest.raises(TimeoutError):
                waiting.result(0.3)
            assert second.schema_version() is None
        assert waiting.result(WAIT) == VERSION


def test_the_lease_of_a_process_that_died_is_taken_over(make_empty: Callable[[], SqlStore], eventually: Any) -> None:
    first, second = make_empty(), make_empty()
    dead = MigrationLease(first.database)
    first.database.write_once(dead._make_table)
    assert first.database.write_once(dead._take)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(second.init)
        with pytest.raises(TimeoutError):
            waiting.result(0.3)
        with first.engine.begin() as connection:
            connection.execute(update(first.tables.locks).values(locked_until=dead._now(connection)))
        assert waiting.result(WAIT) == VERSION


def test_the_lease_is_renewed(empty: SqlStore, monkeypatch: pytest.MonkeyPatch, eventually: Any) -> None:
    monkeypatch.setattr(migration_lease, "SECONDS", 3.0)
    lease = MigrationLease(empty.database)
    with lease.held():
        until = _lock(empty).locked_until
        eventually(lambda: _lock(empty).locked_until > until)
        lease.ensure_held()


def test_who_has_lost_the_lease_takes_no_further_step(
    make_empty: Callable[[], SqlStore], monkeypatch: pytest.MonkeyPatch, eventually: Any
) -> None:
    monkeypatch.setattr(migration_lease, "SECONDS", 0.3)
    first, second = make_empty(), make_empty()
    lease = MigrationLease(first.database)
    with lease.held():
        with first.engine.begin() as connection:
            connection.execute(update(first.tables.locks).values(owner="another"))
        eventually(lambda: not lease._ours_until)
        with pytest.raises(Conflict):
            lease.ensure_held()
    assert _lock(second).owner == "another"
