"""With a fence dropped, an event skipped, two steps reversed …: the checker finds each of them in a real run.

What is broken here is the library itself, on SQLite.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import warm_start

from sloppyjobs import FakeClock, Jobs, ids
from sloppyjobs.domain.model import Claim, NewJob, Settlement
from sloppyjobs.domain.states import Succeeded
from sloppyjobs.schedules import occurrences
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialects.sqlite import statements
from sloppyjobs.storage.jobs import settle, settlement_sql
from sloppyjobs.storage.ports.claims import ClaimRequest, Sweep
from sloppyjobs.testing import drain
from sloppyjobs.testing.history import Client, Log, check
from sloppyjobs.worker import executor

KILLED_BETWEEN = Path(__file__).with_name("killed_between.py")


@pytest.fixture
def database_url(ready_sqlite_url: str) -> str:
    return ready_sqlite_url


def broken(jobs: Jobs, log: Log, **settings: Any) -> set[str]:
    """The numbers of the invariants that do not hold."""
    return {violation.invariant for violation in check(jobs, log, **settings)}


def changed(monkeypatch: pytest.MonkeyPatch, jobs: Jobs, change: Callable[[NewJob], NewJob]) -> None:
    """Every job is written as something else than was asked for."""
    real = jobs.storage.insert_jobs
    monkeypatch.setattr(
        jobs.storage, "insert_jobs", lambda new, caller=None: real([change(one) for one in new], caller)
    )


def other_terms(new: NewJob, **terms: Any) -> NewJob:
    return msgspec.structs.replace(new, terms=msgspec.structs.replace(new.terms, **terms))


# I1


def test_an_enqueue_that_is_acknowledged_and_not_committed(
    client: Client, jobs: Jobs, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = jobs.storage.insert_jobs

    def forget(new: Sequence[NewJob], _caller: Any = None) -> Any:
        with jobs.storage.engine.connect() as connection:
            written = real(new, connection)
            connection.rollback()
        return written

    client.enqueue("greet")
    monkeypatch.setattr(jobs.storage, "insert_jobs", forget)
    client.enqueue("greet")
    assert broken(jobs, log) == {"I1"}


def test_an_enqueue_that_is_written_again_because_its_answer_was_lost(
    client: Client, jobs: Jobs, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = jobs.storage.insert_jobs

    def twice(new: Sequence[NewJob], caller: Any = None) -> Any:
        real(new, caller)
        return real([msgspec.structs.replace(one, id=one.id + "2") for one in new], caller)

    monkeypatch.setattr(jobs.storage, "insert_jobs", twice)
    client.enqueue("greet")
    assert broken(jobs, log) == {"I1"}


def test_a_job_that_is_removed(client: Client, jobs: Jobs, log: Log) -> None:
    client.enqueue("greet")
    drain(jobs)
    tables = jobs.storage.tables
    with jobs.storage.engine.begin() as connection:
        for table in (tables.attempts, tables.events, tables.jobs):
            connection.execute(table.delete())
    assert broken(jobs, log) == {"I1"}


# I2


def test_an_expired_lease_that_nobody_looks_for(
    timed_client: Client, timed_jobs: Jobs, log: Log, jobs_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed_jobs.storage, "sweep", lambda limit=500: Sweep(0, 0, None))
    timed_client.enqueue("greet")
    assert timed_jobs.claim("a worker that dies")
    jobs_clock.advance(3600)
    drain(timed_jobs)
    assert broken(timed_jobs, log) == set()
    assert broken(timed_jobs, log, within=0) == {"I2"}


# I3


def test_a_fence_that_is_dropped(
    timed_client: Client, timed_jobs: Jobs, log: Log, jobs_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle, "_passes", lambda row, _settlement: row is not None)
    monkeypatch.setattr(statements, "_HELD", "status IS NOT NULL")
    timed_client.enqueue("greet")
    (zombie,) = timed_jobs.claim("w1", lease=30)
    jobs_clock.advance(31)
    (claim,) = timed_jobs.claim("w2")
    assert timed_client.complete(zombie)
    assert timed_client.complete(claim)
    assert "I3" in broken(timed_jobs, log)


def test_a_fence_without_the_attempt_number(
    timed_client: Client, timed_jobs: Jobs, log: Log, jobs_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that has claimed its own job again: by its owner alone, the old attempt passes for the new one."""
    timed_client.enqueue("greet")
    (zombie,) = timed_jobs.claim("w1", lease=30)
    jobs_clock.advance(31)
    (claim,) = timed_jobs.claim("w1")
    real = timed_jobs.storage.settle

    def by_owner(settlements: Sequence[Settlement]) -> set[str]:
        return real([msgspec.structs.replace(one, attempt=claim.attempt) for one in settlements])

    monkeypatch.setattr(timed_jobs.storage, "settle", by_owner)
    assert timed_client.complete(zombie)
    assert broken(timed_jobs, log) == {"I3"}


def test_a_success_that_no_handler_has_reported(
    client: Client, jobs: Jobs, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "interpret_exception", lambda *_: Succeeded(None))
    client.enqueue("broken")
    drain(jobs)
    assert broken(jobs, log) == {"I3"}


# I4


def test_an_attempt_that_gets_the_wrong_number(
    client: Client, jobs: Jobs, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = statements._OPEN_ATTEMPTS
    monkeypatch.setattr(statements, "_OPEN_ATTEMPTS", opened.replace(":attempt", ":attempt + 1"))
    client.enqueue("greet")
    jobs.claim("w1")
    assert "I4" in broken(jobs, log)


# I5 and I6


def _nothing(_cursor: Any, _values: Any) -> int:
    return 0


def test_an_event_in_the_middle_that_is_skipped(
    timed_client: Client, timed_jobs: Jobs, log: Log, jobs_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = settlement_sql.prepared

    def without_events(database: Database, build: Any) -> Any:
        return SimpleNamespace(run=_nothing) if build is settlement_sql.record_promotions else real(database, build)

    monkeypatch.setattr(settlement_sql, "prepared", without_events)
    timed_client.enqueue("greet", delay=10)
    jobs_clock.advance(10)
    assert drain(timed_jobs) == 1
    assert broken(timed_jobs, log) == {"I5"}


def test_an_event_at_the_end_that_is_skipped(
    client: Client, jobs: Jobs, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "INSERT INTO {events}" in statements._RECORD_SUCCESSES
    monkeypatch.setattr(statements, "_RECORD_SUCCESSES", "SELECT 1")
    client.enqueue("greet")
    drain(jobs)
    assert broken(jobs, log) == {"I6"}


@pytest.mark.parametrize(("skipped", "found"), [("_RECORD_FAILURES", {"I5"}), ("_RECORD_EDGES", {"I5", "I6"})])
def test_an_event_of_a_failure_that_is_skipped(
    client: Client, jobs: Jobs, log: Log, monkeypatch: pytest.MonkeyPatch, skipped: str, found: set[str]
) -> None:
    assert "INSERT INTO {events}" in getattr(statements, skipped)
    monkeypatch.setattr(statements, skipped, "SELECT 1")
    client.enqueue("broken")
    drain(jobs)
    assert broken(jobs, log) == found


# I7


def test_a_cursor_that_is_moved_before_the_job_is_inserted(
    client: Client, jobs: Jobs, log: Log, database_url: str
) -> None:
    client.recurring("often", "greet", every=1)
    killed = warm_start.run([sys.executable, str(KILLED_BETWEEN), database_url], timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert broken(jobs, log) == {"I7"}


def test_an_occurrence_that_every_scheduler_names_as_it_likes(
    timed_client: Client, timed_jobs: Jobs, log: Log, jobs_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter(range(100))
    monkeypatch.setattr(ids, "occurrence", lambda *_: f"job_{next(numbers)}")
    monkeypatch.setattr(occurrences, "occurrence_key", lambda *_: f"key {next(numbers)}")
    monkeypatch.setattr(timed_jobs.storage.firing, "advance", lambda *_: True)
    timed_client.recurring("often", "greet", every=10)
    jobs_clock.advance(10)
    timed_jobs.tick_recurring()
    timed_jobs.tick_recurring()
    assert broken(timed_jobs, log) == {"I7"}


def test_a_policy_that_fires_fewer_than_it_should(
    timed_client: Client, timed_jobs: Jobs, log: Log, jobs_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = occurrences.plan
    monkeypatch.setattr(
        occurrences, "plan", lambda *given: (found := real(*given)) and replace(found, fire=found.fire[1:])
    )
    timed_client.recurring("often", "greet", every=10, misfire="catch-up-limited", catch_up_limit=3)
    jobs_clock.advance(100)
    timed_jobs.tick_recurring()
    assert broken(timed_jobs, log) == {"I7"}


def test_a_schedule_that_is_gone_without_its_only_job(
    timed_client: Client, timed_jobs: Jobs, log: Log, jobs_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed_jobs.storage.firing, "insert_occurrences", lambda *_: [])
    timed_client.recurring("once", "greet", at=jobs_clock.now())
    timed_jobs.tick_recurring()
    assert broken(timed_jobs, log) == {"I7"}


# I8


def test_an_idempotency_key_that_is_ignored(
    client: Client, jobs: Jobs, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(monkeypatch, jobs, lambda new: other_terms(new, idempotency_key=None))
    client.enqueue("greet", idempotency_key="once")
    client.enqueue("greet", idempotency_key="once")
    assert broken(jobs, log) == {"I8"}


# I9


def test_an_attempt_that_two_workers_are_given(
    client: Client, jobs: Jobs, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, taken = jobs.storage.claim, list[Claim]()

    def generous(request: ClaimRequest) -> list[Claim]:
        found = real(request)
        if found:
            taken.extend(found)
            return found
        again, taken[:] = [msgspec.structs.replace(claim, worker_id=request.worker_id) for claim in taken], []
        return again

    monkeypatch.setattr(jobs.storage, "claim", generous)
    client.enqueue("greet")
    jobs.create_worker().run_once()
    jobs.create_worker().run_once()
    assert broken(jobs, log) == {"I9"}


def test_a_retry_that_does_not_wait_for_the_handler(client: Client, jobs: Jobs, log: Log) -> None:
    """An attempt is recorded as failed, and the next one begins, while the handler of the first still runs."""

    @jobs.define("hasty")
    def hasty(ctx: Any, _payload: Any) -> None:
        if ctx.attempt == 1:
            storage = jobs.storage.inspection
            claim = Claim(
                jobs.get(ctx.job_id), 1, storage.job(ctx.job_id).locked_by or "", jobs.storage.clock.now(), "{}"
            )
            jobs.fail(claim, "too soon", retry_after=0)
            drain(jobs)

    client.enqueue("hasty")
    drain(jobs)
    assert broken(jobs, log) == {"I9"}


# I10


def test_a_run_time_that_is_ignored(client: Client, jobs: Jobs, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, jobs, lambda new: other_terms(new, delay=None, run_at=None))
    client.enqueue("greet", delay=3600)
    assert drain(jobs) == 1
    assert broken(jobs, log) == {"I10"}


# I11


def test_a_lock_that_everybody_gets(client: Client, jobs: Jobs, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs.storage.locks, "acquire", lambda *_: True)
    assert client.locks("first").acquire("nightly")
    assert client.locks("second").acquire("nightly")
    assert broken(jobs, log) == {"I11"}


# I12


def test_a_job_that_is_not_written_in_the_transaction_of_the_caller(
    client: Client, jobs: Jobs, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = jobs.storage.insert_jobs
    monkeypatch.setattr(jobs.storage, "insert_jobs", lambda new, _caller=None: real(new, None))
    with jobs.storage.engine.connect() as connection:
        job = client.enqueue("greet", connection=connection)
        connection.rollback()
    log.rolled_back(job)
    drain(jobs)
    assert broken(jobs, log) == {"I12"}
