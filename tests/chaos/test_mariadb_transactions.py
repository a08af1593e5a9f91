"""Transactions that MariaDB ends by itself, alone or in a cluster: they are run again, and callers see nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Connection, update
from sqlalchemy.exc import OperationalError

from sloppyjobs import Jobs
from sloppyjobs.storage.dialects.mariadb.dialect import MariaDbDialect
from sloppyjobs.storage.schema.tables import Tables


@pytest.fixture
def jobs(mariadb_url: str) -> Iterator[Jobs]:
    made = Jobs(mariadb_url)
    made.declare("greet")
    yield made
    made.storage.close()


def test_a_deadlock_inside_of_a_savepoint_is_retried(jobs: Jobs) -> None:
    """The server ends the whole transaction, so there is no savepoint left to go back to: error 1305 hides 1213."""
    ids = [job.id for job in jobs.enqueue_many([("greet", 1), ("greet", 2)])]
    both_hold_one = threading.Barrier(2)
    runs: list[int] = []

    def write(number: int) -> None:
        first, second = (ids[number], ids[1 - number])

        def work(connection: Connection) -> None:
            runs.append(number)
            _touch(connection, jobs, first)
            if runs.count(number) == 1:
                both_hold_one.wait(60)
            with connection.begin_nested():
                _touch(connection, jobs, second)

        jobs.storage.database.write(work)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(write, number) for number in range(2)]:
            done.result(60)
    assert len(runs) > 2, "one of them was the victim, and was run again"


def _touch(connection: Connection, jobs: Jobs, job_id: str) -> None:
    table = jobs.storage.tables.jobs
    connection.execute(update(table).where(table.c.id == job_id).values(priority=table.c.priority + 1))


def _error(code: int) -> Any:
    import pymysql

    return OperationalError("COMMIT", {}, pymysql.err.OperationalError(code, "from a node"))


def test_a_commit_of_a_node_that_lost_its_cluster_is_in_doubt() -> None:
    dialect = MariaDbDialect(Tables())
    lost, deadlock, not_ready = _error(1180), _error(1213), _error(1047)
    assert all(dialect.is_transient(error) for error in (lost, deadlock, not_ready))
    assert all(dialect.is_unavailable(error) for error in (lost, deadlock, not_ready))
    assert [dialect.is_lost(error) for error in (lost, deadlock, not_ready)] == [True, False, False]
