"""Rows that were changed behind the library's back: the invariant that each of them breaks is named, with the job."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from sloppyjobs import Jobs
from sloppyjobs.testing import drain
from sloppyjobs.testing.history import Client, Log, Violation, assert_sound, check, report

DAMAGE = [
    ("I2", "UPDATE sloppy_jobs SET status = 'queued', finished_at = NULL"),
    ("I3", "UPDATE sloppy_job_events SET attempt_number = 1 WHERE from_status = 'processing'"),
    ("I4", "UPDATE sloppy_jobs SET attempt_count = 3"),
    ("I4", "UPDATE sloppy_jobs SET max_attempts = 1"),
    ("I4", "DELETE FROM sloppy_job_attempts WHERE attempt_number = 1"),
    ("I5", "DELETE FROM sloppy_job_events WHERE event_type = 'created'"),
    ("I5", "UPDATE sloppy_job_events SET to_status = 'waiting' WHERE event_type = 'created'"),
    ("I5", "UPDATE sloppy_job_events SET from_status = 'queued', to_status = 'dead' WHERE event_type = 'succeeded'"),
    ("I6", "UPDATE sloppy_jobs SET status = 'dead'"),
    ("I6", "UPDATE sloppy_jobs SET locked_by = 'w1'"),
    ("I6", "UPDATE sloppy_jobs SET finished_at = NULL"),
    ("I6", "UPDATE sloppy_jobs SET updated_at = created_at"),
    ("I6", "UPDATE sloppy_job_attempts SET status = 'running' WHERE attempt_number = 1"),
    ("I6", "DELETE FROM sloppy_jobs"),
    ("I9", "UPDATE sloppy_job_attempts SET finished_at = NULL WHERE attempt_number = 1"),
    ("I10", "UPDATE sloppy_jobs SET run_at = '2100-01-01T00:00:00.000000Z'"),
]


@pytest.fixture
def database_url(ready_sqlite_url: str) -> str:
    return ready_sqlite_url


@pytest.fixture
def job_id(client: Client, jobs: Jobs, log: Log) -> str:
    """A job that failed once and then succeeded."""
    job = client.enqueue("flaky")
    drain(jobs)
    assert_sound(jobs, log, within=0)
    return job.id


@pytest.mark.parametrize(("number", "damage"), DAMAGE)
def test_damage_is_found_and_named(number: str, damage: str, job_id: str, jobs: Jobs, log: Log) -> None:
    with jobs.storage.engine.begin() as connection:
        connection.execute(text(damage))
    found = check(jobs, log, within=0)
    assert (number, job_id) in [(violation.invariant, violation.subject) for violation in found]


def test_two_jobs_with_one_key_are_found(client: Client, jobs: Jobs, log: Log) -> None:
    jobs.enqueue("greet", idempotency_key="once")
    jobs.enqueue("greet", idempotency_key="twice")
    with jobs.storage.engine.begin() as connection:
        for (name,) in connection.execute(
            text("SELECT name FROM sqlite_master WHERE type = 'index' AND sql LIKE '%UNIQUE%idempotency_key%'")
        ).all():
            connection.execute(text(f'DROP INDEX "{name}"'))
        connection.execute(text("UPDATE sloppy_jobs SET idempotency_key = 'once'"))
    (violation,) = check(jobs, log)
    assert (violation.invariant, violation.subject) == ("I8", "key 'once'")


def test_two_waiting_jobs_with_one_business_key_are_found(client: Client, jobs: Jobs, log: Log) -> None:
    started = client.enqueue("greet", business_key="account:42", unique="pending")
    jobs.claim("w1")
    waiting = client.enqueue("greet", business_key="account:42", unique="pending")
    other = client.enqueue("greet", business_key="account:43")
    assert started.id != waiting.id
    assert check(jobs, log) == []
    jobs.storage.inspection.set_job(other.id, business_key="account:42")
    (violation,) = check(jobs, log)
    assert (violation.invariant, violation.subject) == ("I8", "business key 'account:42'")


def test_a_failed_assertion_names_the_promise_the_jobs_and_the_faults(client: Client, jobs: Jobs, log: Log) -> None:
    with log.fault("primary killed"):
        job = client.enqueue("greet")
    with pytest.raises(AssertionError) as failed:
        assert_sound(jobs, log, within=0)
    assert str(failed.value) == (
        "I2: after faults heal, every job that is due reaches a terminal state. Broken once:\n"
        f"  {job.id}: still queued after attempt 0\n"
        "Faults in this run: primary killed"
    )


def test_of_many_violations_the_first_are_listed() -> None:
    lines = report([Violation("I1", f"job_{number}", "lost") for number in range(12)]).splitlines()
    assert len(lines) == 12
    assert lines[0].endswith("Broken 12 times:")
    assert lines[-1] == "  … and 2 more"
