"""The check that ends every test of the conformance suite: it must find what it is there to find."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import event, text

from sloppyjobs import Jobs
from sloppyjobs.testing.conformance.records import check_every_history


@pytest.fixture
def jobs(ready_sqlite_url: str) -> Iterator[Jobs]:
    made = Jobs(ready_sqlite_url)
    made.declare("greet")
    yield made
    made.storage.close()


@pytest.fixture
def succeeded(jobs: Jobs) -> str:
    """A job that failed once and then succeeded."""
    job = jobs.enqueue("greet")
    jobs.fail(jobs.claim("w1")[0], "no", retry_after=0)
    jobs.complete(jobs.claim("w1")[0])
    check_every_history(jobs)
    return job.id


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE sloppy_jobs SET status = 'dead'",
        "UPDATE sloppy_jobs SET attempt_count = 3, max_attempts = 3",
        "UPDATE sloppy_jobs SET max_attempts = 1",
        "UPDATE sloppy_jobs SET locked_by = 'w1'",
        "UPDATE sloppy_jobs SET finished_at = NULL",
        "UPDATE sloppy_jobs SET updated_at = '2020-01-01T00:00:00.000000Z'",
        "DELETE FROM sloppy_job_events WHERE event_type = 'created'",
        "DELETE FROM sloppy_job_events WHERE event_type = 'due'",
        "DELETE FROM sloppy_job_events WHERE event_type = 'succeeded'",
        "UPDATE sloppy_job_events SET to_status = 'waiting' WHERE event_type = 'created'",
        "UPDATE sloppy_job_events SET from_status = 'queued', to_status = 'succeeded' WHERE event_type = 'succeeded'",
        "DELETE FROM sloppy_job_attempts WHERE attempt_number = 1",
        "UPDATE sloppy_job_attempts SET attempt_number = 3 WHERE attempt_number = 2",
        "UPDATE sloppy_job_attempts SET status = 'running' WHERE attempt_number = 1",
        "INSERT INTO sloppy_job_events (job_id, event_type, from_status, to_status, created_at) "
        "SELECT id, 'succeeded', 'processing', 'succeeded', updated_at FROM sloppy_jobs",
    ],
)
def test_a_history_that_does_not_fit_its_row_is_found(jobs: Jobs, succeeded: str, damage: str) -> None:
    with jobs.storage.engine.begin() as connection:
        connection.execute(text(damage))
    with pytest.raises(AssertionError):
        check_every_history(jobs)


def test_a_running_job_is_as_it_should_be(jobs: Jobs) -> None:
    jobs.enqueue("greet")
    jobs.claim("w1")
    check_every_history(jobs)


@pytest.mark.parametrize("column", ["locked_by", "locked_until"])
def test_a_running_job_without_an_owner_or_a_lease_is_found(jobs: Jobs, column: str) -> None:
    jobs.enqueue("greet")
    jobs.claim("w1")
    with jobs.storage.engine.begin() as connection:
        connection.execute(text(f"UPDATE sloppy_jobs SET {column} = NULL"))
    with pytest.raises(AssertionError):
        check_every_history(jobs)


def test_a_row_that_a_test_wrote_by_hand_is_passed_over(jobs: Jobs, succeeded: str) -> None:
    with jobs.storage.engine.begin() as connection:
        connection.execute(text("DELETE FROM sloppy_job_events"))
    check_every_history(jobs)


def test_it_reads_nothing_that_it_does_not_compare(jobs: Jobs, succeeded: str) -> None:
    executed: list[str] = []
    event.listen(jobs.storage.engine, "before_cursor_execute", lambda *given: executed.append(given[2]))
    check_every_history(jobs)
    read = [statement.partition("FROM ")[2].split()[0] for statement in executed]
    assert read == ["sloppy_jobs", "sloppy_job_attempts", "sloppy_job_events", "sloppy_job_batches"]
