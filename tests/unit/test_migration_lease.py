"""Migrations of databases where DDL ends the transaction: one process at a time, and what was begun is finished."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import select, update

from sloppyjobs import storage
from sloppyjobs.storage import SqlStore
from sloppyjobs.storage.driver import Conflict
from sloppyjobs.storage.schema import migration_lease
from sloppyjobs.storage.schema.migration_lease import MigrationLease
from sloppyjobs.storage.schema.version import VERSION

WAIT = 60.0


@pytest.fixture(params=["mariadb"])
def make_empty(empty_mariadb_url: str) -> Iterator[Callable[[], SqlStore]]:
    """Makes storages over a database without our tables, that migrate under a lease."""
    made: list[SqlStore] = []

    def make() -> SqlStore:
        made.append(storage.from_url(empty_mariadb_url))
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


class Killed(BaseException):
    """The process ends here."""


def test_a_migration_that_was_cut_off_after_any_step_is_finished_by_the_next(
    make_empty: Callable[[], SqlStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run is cut off one step later than the one before, until one of them comes to the end."""
    store, allowed, runs = make_empty(), 0, 0
    ensure_held = MigrationLease.ensure_held
    done = threading.local()

    def cut_off(lease: MigrationLease) -> None:
        ensure_held(lease)
        done.steps += 1
        if done.steps > allowed:
            raise Killed

    monkeypatch.setattr(MigrationLease, "ensure_held", cut_off)
    while store.schema_version() != VERSION:
        done.steps, runs = 0, runs + 1
        allowed += 1
        try:
            store.init()
        except Killed:
            continue
    assert runs > 10
