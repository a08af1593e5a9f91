"""Enqueueing in the caller's transaction: it commits and rolls back with everything else there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Column, Connection, Integer, MetaData, Table, func, insert, select
from sqlalchemy.orm import Session

from sloppyjobs import errors
from sloppyjobs.enqueue.option_types import Item
from sloppyjobs.jobs import Jobs
from sloppyjobs.testing.conformance.records import count

KEYS = pytest.mark.parametrize("key", [None, "order-1"], ids=["without a key", "with a key"])
HOLDERS = pytest.mark.parametrize("holder", ["connection", "session"])


@pytest.fixture
def orders(jobs: Jobs) -> Table:
    """A table of the application's own in the same database."""
    jobs.declare("charge")
    table = Table("orders", MetaData(), Column("number", Integer, primary_key=True))
    table.create(jobs.storage.engine)
    return table


def _begin(jobs: Jobs, holder: str) -> Iterator[Any]:
    if holder == "session":
        with Session(jobs.storage.engine) as session:
            yield session
    else:
        with jobs.storage.engine.connect() as connection:
            yield connection


@pytest.fixture
def transaction(jobs: Jobs, holder: str) -> Iterator[Any]:
    """A transaction of the caller, as a connection or as a session."""
    yield from _begin(jobs, holder)


def _number(jobs: Jobs, orders: Table) -> int:
    with jobs.storage.engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(orders)).scalar_one()


def _given(transaction: Any) -> dict[str, Any]:
    return {"connection" if isinstance(transaction, Connection) else "session": transaction}


@HOLDERS
@KEYS
def test_an_enqueue_is_rolled_back_with_the_callers_work(
    jobs: Jobs, orders: Table, transaction: Any, key: str | None
) -> None:
    transaction.execute(insert(orders).values(number=1))
    jobs.enqueue("charge", idempotency_key=key, **_given(transaction))
    transaction.rollback()
    assert (_number(jobs, orders), count(jobs), count(jobs, "events")) == (0, 0, 0)


@HOLDERS
@KEYS
def test_an_enqueue_that_comes_first_is_rolled_back_too(
    jobs: Jobs, orders: Table, transaction: Any, key: str | None
) -> None:
    jobs.enqueue("charge", idempotency_key=key, **_given(transaction))
    transaction.execute(insert(orders).values(number=1))
    transaction.rollback()
    assert (_number(jobs, orders), count(jobs), count(jobs, "events")) == (0, 0, 0)


@HOLDERS
@KEYS
def test_an_enqueue_becomes_visible_with_the_commit(
    jobs: Jobs, orders: Table, transaction: Any, key: str | None
) -> None:
    job = jobs.enqueue("charge", idempotency_key=key, **_given(transaction))
    transaction.execute(insert(orders).values(number=1))
    assert jobs.claim("w1") == []
    with pytest.raises(errors.UnknownJob):
        jobs.get(job.id)
    transaction.commit()
    assert jobs.get(job.id) == job
    assert [claim.id for claim in jobs.claim("w1")] == [job.id]


@HOLDERS
@KEYS
def test_many_are_rolled_back_with_the_callers_work(
    jobs: Jobs, orders: Table, transaction: Any, key: str | None
) -> None:
    items: list[Item] = [
        ("charge", {"n": number}, {"idempotency_key": key and f"{key}-{number}"}) for number in range(1_500)
    ]
    jobs.enqueue_many(items, **_given(transaction))
    transaction.rollback()
    assert (count(jobs), count(jobs, "events")) == (0, 0)


@HOLDERS
def test_a_refused_enqueue_leaves_the_callers_transaction_usable(jobs: Jobs, orders: Table, transaction: Any) -> None:
    transaction.execute(insert(orders).values(number=1))
    with pytest.raises(errors.InvalidPayload):
        jobs.enqueue("charge", float("nan"), **_given(transaction))
    transaction.commit()
    assert (_number(jobs, orders), count(jobs)) == (1, 0)


@HOLDERS
def test_a_key_that_is_taken_leaves_the_callers_transaction_usable(jobs: Jobs, orders: Table, transaction: Any) -> None:
    first = jobs.enqueue("charge", idempotency_key="order-1")
    again = jobs.enqueue("charge", idempotency_key="order-1", **_given(transaction))
    transaction.execute(insert(orders).values(number=1))
    transaction.commit()
    assert (again.id, again.existing, _number(jobs, orders), count(jobs)) == (first.id, True, 1, 1)


@HOLDERS
def test_a_transaction_sees_the_key_that_it_has_taken_itself(jobs: Jobs, orders: Table, transaction: Any) -> None:
    first = jobs.enqueue("charge", idempotency_key="order-1", **_given(transaction))
    again = jobs.enqueue("charge", idempotency_key="order-1", **_given(transaction))
    transaction.commit()
    assert (again.id, again.existing, count(jobs)) == (first.id, True, 1)


@HOLDERS
def test_a_business_key_is_taken_with_the_callers_transaction(jobs: Jobs, orders: Table, transaction: Any) -> None:
    given = _given(transaction)
    jobs.enqueue("charge", business_key="order:1", **given)
    transaction.rollback()
    first = jobs.enqueue("charge", business_key="order:1", **given)
    again = jobs.enqueue("charge", business_key="order:1", **given)
    transaction.commit()
    assert (first.existing, again.existing, again.id, count(jobs)) == (False, True, first.id, 1)
    assert jobs.enqueue("charge", business_key="order:1").id == first.id


@HOLDERS
def test_a_business_key_that_is_refused_leaves_nothing_behind(jobs: Jobs, orders: Table, transaction: Any) -> None:
    taken = jobs.enqueue("charge", business_key="order:2")
    transaction.execute(insert(orders).values(number=1))
    items: list[Item] = [
        ("charge", 1, {"business_key": "order:1"}),
        ("charge", 2, {"business_key": "order:2", "on_conflict": "reject"}),
    ]
    with pytest.raises(errors.KeyConflict, match=taken.id):
        jobs.enqueue_many(items, **_given(transaction))
    transaction.commit()
    assert (_number(jobs, orders), count(jobs)) == (1, 1)
    assert not jobs.enqueue("charge", business_key="order:1").existing


def test_a_nested_transaction_takes_back_only_its_own(jobs: Jobs, orders: Table) -> None:
    with Session(jobs.storage.engine) as session:
        session.execute(insert(orders).values(number=1))
        kept = jobs.enqueue("charge", session=session)
        with session.begin_nested() as nested:
            jobs.enqueue("charge", idempotency_key="order-1", session=session)
            nested.rollback()
        session.commit()
    assert (_number(jobs, orders), count(jobs), jobs.get(kept.id).status) == (1, 1, "queued")


def test_what_is_no_transaction_is_refused(jobs: Jobs, orders: Table) -> None:
    with jobs.storage.engine.connect() as connection, Session(jobs.storage.engine) as session:
        for given in (
            {"connection": connection, "session": session},
            {"connection": session},
            {"connection": "connection"},
            {"session": object()},
        ):
            with pytest.raises(errors.InvalidOption):
                jobs.enqueue("charge", **given)
    assert count(jobs) == 0


@HOLDERS
def test_a_job_is_replaced_in_the_transaction_that_wrote_it(jobs: Jobs, transaction: Any) -> None:
    jobs.declare("charge")
    given = _given(transaction)
    old = jobs.enqueue("charge", {"n": 1}, priority=3, delay=60, **given)
    new = jobs.replace(old, {"n": 2}, **given)
    transaction.commit()
    assert (new.priority, new.supersedes) == (3, old.id)
    assert (jobs.get(old.id).status, jobs.get(old.id).superseded_by) == ("cancelled", new.id)
    assert jobs.get(new.id).status == "scheduled"
