"""Writers that meet on SQL Server: one of them wins, also on a server that heeds no lock hints."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Connection

from sloppyjobs import Jobs, storage
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.testing.conformance.records import check_every_history

WRITERS = 8
JOBS = 48
MOMENTS = ("locked_until", "updated_at")
LOCK = "UPDATE sloppy_job_queues SET created_at = created_at WHERE name = '{}'"


@pytest.fixture
def jobs(sqlserver_url: str) -> Iterator[Jobs]:
    """Jobs whose every history is checked in the end."""
    made = Jobs(storage.from_url(sqlserver_url))
    made.declare("work")
    yield made
    check_every_history(made)
    made.storage.close()


def at_once(work: Callable[[int], Any], number: int = WRITERS) -> list[Any]:
    """What that many threads answer, which begin together."""
    barrier = threading.Barrier(number)

    def run(place: int) -> Any:
        barrier.wait(60)
        return work(place)

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(run, range(number)))


def test_each_job_is_claimed_once(jobs: Jobs) -> None:
    written = jobs.enqueue_many([("work", n) for n in range(JOBS)])

    def claim_all(place: int) -> list[str]:
        taken: list[str] = []
        while claims := jobs.claim(f"worker_{place}", limit=3):
            taken += [claim.id for claim in claims]
        return taken

    taken = Counter(job_id for ids in at_once(claim_all) for job_id in ids)
    assert taken == Counter(job.id for job in written)
    assert {jobs.get(job.id).attempt_count for job in written} == {1}


def test_of_settlements_of_one_attempt_one_is_accepted(jobs: Jobs) -> None:
    jobs.enqueue_many([("work", n, {"max_attempts": 1}) for n in range(12)])
    for claim in jobs.claim("worker_1", limit=12):

        def settle(place: int, claim: Any = claim) -> bool:
            return jobs.complete(claim, place) if place % 2 else jobs.fail(claim, ValueError(str(place)))

        assert sum(map(bool, at_once(settle, 4))) == 1


def test_a_command_and_a_settlement_do_not_both_end_a_job(jobs: Jobs) -> None:
    jobs.enqueue_many([("work", n) for n in range(12)])
    for claim in jobs.claim("worker_1", limit=12):

        def end(place: int, claim: Any = claim) -> bool:
            if place:
                return jobs.complete(claim, "done")
            return jobs.admin.bulk("cancel", {"ids": [claim.id]}, actor="ada").done == 1

        cancelled, completed = at_once(end, 2)
        assert (cancelled, completed).count(True) == 1
        assert jobs.get(claim.id).status == ("cancelled" if cancelled else "succeeded")


def test_one_job_is_written_for_each_key(jobs: Jobs) -> None:
    keys = [f"order-{n}" for n in range(20)]
    rows = [("work", key, {"idempotency_key": key}) for key in keys]
    answers = at_once(lambda _place: {job.id for job in jobs.enqueue_many(rows)})
    assert all(answer == answers[0] for answer in answers)
    assert len(answers[0]) == len(keys)


def test_one_holder_has_a_lock(jobs: Jobs) -> None:
    assert sum(at_once(lambda place: jobs.locks(f"owner {place}").acquire("report"))) == 1


def test_settlements_of_many_workers_are_all_counted(jobs: Jobs) -> None:
    jobs.enqueue_many([("work", n) for n in range(JOBS)])
    shares = [jobs.claim("worker_1", limit=JOBS // WRITERS) for _ in range(WRITERS)]
    at_once(lambda place: [jobs.complete(claim) for claim in shares[place]])
    assert sum(counter.succeeded for counter in jobs.storage.inspection.counters()) == JOBS


def test_an_insert_says_whether_it_has_written_a_row(jobs: Jobs) -> None:
    database, dialect, locks = jobs.storage.database, jobs.storage.dialect, jobs.storage.tables.locks
    insert = database.prepared("insert", lambda: dialect.insert_if_absent(locks, ("name", "owner", *MOMENTS)))

    def write(connection: Connection) -> int:
        now = database.to_driver(database.now(connection))
        return insert.run(cursor_of(connection), {"name": "report", "owner": "ada", **dict.fromkeys(MOMENTS, now)})

    assert [database.write(write) for _ in range(2)] == [1, 0]


def test_a_deadlock_that_takes_the_savepoint_with_it_is_retried(jobs: Jobs) -> None:
    jobs.enqueue_many([("work", 1, {"queue": "a"}), ("work", 2, {"queue": "b"})])
    database, both, tries = jobs.storage.database, threading.Barrier(2), Counter[int]()

    def lock_both(place: int) -> None:
        mine, other = ("a", "b") if place else ("b", "a")

        def work(connection: Connection) -> None:
            tries[place] += 1
            connection.exec_driver_sql(LOCK.format(mine))
            if tries[place] == 1:
                both.wait(60)
            with connection.begin_nested():
                connection.exec_driver_sql(LOCK.format(other))

        database.retry(lambda: database.write_once(work))

    at_once(lock_both, 2)
    assert tries.total() > 2
