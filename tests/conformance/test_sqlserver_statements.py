"""Every statement that the conformance suite makes the common code ask of SQL Server's dialect is T-SQL.

And none is executed before the rows of the one before are read: SQL Server's connections carry one answer at a time.

The suite runs on SQLite, by statements that have both forms; no server is needed. Where one is at hand, the suite
itself runs on it: see ``SLOPPYJOBS_TEST_SQLSERVER_URL`` in ``tests/conftest.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import event, make_url
from sqlserver_twin import TwinDialect, faults_of, twin_store

from sloppyjobs import Jobs
from sloppyjobs.storage import SqlStore
from sloppyjobs.storage.clock import Clock, FakeClock
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


def test_the_tags_of_many_jobs_are_removed_by_one_statement(
    make_storage: Callable[..., SqlStore], clock: FakeClock
) -> None:
    jobs = Jobs(make_storage(clock))
    jobs.declare("work")
    for job in [jobs.enqueue("work", tags=("eu", "red", f"n{number}")) for number in range(4)]:
        jobs.admin.delete(job.id)
    clock.advance(2 * 86_400)
    executed: list[str] = []
    engine = jobs.storage.engine
    event.listen(engine, "checkout", lambda driver, *_: driver.set_trace_callback(executed.append))
    assert jobs.admin.purge().jobs == 4
    assert len([text for text in executed if text.startswith("DELETE FROM sloppy_job_tags")]) == 1
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM sloppy_job_tags").scalar_one() == 0
