"""A run in which every promise was kept has no violation."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sloppyjobs import FakeClock, InvalidPayload, Jobs
from sloppyjobs.storage.inspection import SqlInspection
from sloppyjobs.storage.ports.records import AttemptRecord
from sloppyjobs.testing import drain
from sloppyjobs.testing.history import Client, Log, assert_sound, check

DATABASES = {"sqlite": "ready_sqlite_url", "postgres": "postgres_url", "mariadb": "mariadb_url"}


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(DATABASES[request.param])
    return url


def test_jobs_of_every_kind(client: Client, jobs: Jobs, log: Log) -> None:
    client.enqueue("greet", {"to": "ada"}, metadata={"team": "growth"})
    first = client.enqueue("greet", idempotency_key="once")
    assert client.enqueue("greet", idempotency_key="once").id == first.id
    client.enqueue_many([("flaky", {}), ("broken", {}, {"priority": 5}), ("greet-later", {})])
    client.enqueue("greet", delay=0.01)
    client.enqueue("greet", delay=3600)
    with pytest.raises(InvalidPayload):
        client.enqueue("greet", float("nan"))
    worker = jobs.create_worker(poll_interval=0.05, maintenance=False)
    worker.start()
    assert_sound(jobs, log, within=60)
    assert worker.stop(60)
    assert_sound(jobs, log)


def test_transactions_that_commit_and_that_do_not(client: Client, jobs: Jobs, log: Log) -> None:
    with jobs.storage.engine.connect() as connection:
        kept = client.enqueue("greet", connection=connection)
        connection.commit()
        log.committed(kept)
        dropped = client.enqueue_many([("greet", {}), ("greet", {})], connection=connection)
        connection.rollback()
        for job in dropped:
            log.rolled_back(job)
    drain(jobs)
    assert_sound(jobs, log, within=0)


def test_an_existing_job_that_is_found_in_a_transaction_which_is_rolled_back(
    client: Client, jobs: Jobs, log: Log
) -> None:
    client.enqueue("greet", idempotency_key="once")
    with jobs.storage.engine.connect() as connection:
        found = client.enqueue("greet", idempotency_key="once", connection=connection)
        connection.rollback()
        log.rolled_back(found)
    drain(jobs)
    assert_sound(jobs, log, within=0)


def test_what_operators_do(client: Client, jobs: Jobs, log: Log) -> None:
    dead, later, paused = client.enqueue("broken"), client.enqueue("greet", delay=3600), client.enqueue("greet")
    client.enqueue("greet", delay=3600)
    jobs.admin.pause(paused.id)
    jobs.admin.run_now(later.id)
    jobs.admin.cancel(client.enqueue("greet").id)
    drain(jobs)
    jobs.admin.retry(dead.id)
    drain(jobs)
    assert jobs.get(dead.id).attempt_count == 6
    jobs.admin.delete(dead.id)
    client.enqueue("greet", queue="held")
    jobs.admin.pause_queue("held")
    assert_sound(jobs, log, within=0)


def test_what_operators_change(client: Client, jobs: Jobs, log: Log) -> None:
    patched = client.enqueue("greet", {"to": "ada"}, delay=3600)
    jobs.admin.patch_payload(patched.id, {"to": "bob"})
    replaced = jobs.replace(client.enqueue("greet", delay=3600).id, delay=0)
    jobs.replace(jobs.replace(client.enqueue("greet", delay=3600).id).id)
    drain(jobs)
    jobs.admin.delete(replaced.id)
    jobs.admin.purge(older_than=0, archive=True)
    jobs.admin.restore(replaced.id)
    drain(jobs)
    assert_sound(jobs, log, within=0)


def test_the_claim_protocol_with_a_lost_lease(
    timed_client: Client, timed_jobs: Jobs, log: Log, jobs_clock: FakeClock
) -> None:
    timed_client.enqueue("greet")
    (zombie,) = timed_jobs.claim("w1", lease=30)
    jobs_clock.advance(31)
    (claim,) = timed_jobs.claim("w2")
    assert not timed_client.complete(zombie)
    assert timed_client.complete(claim)
    timed_client.enqueue("broken", max_attempts=1)
    assert timed_client.fail(timed_jobs.claim("w2")[0], "no")
    assert_sound(timed_jobs, log, within=0)


@pytest.mark.parametrize("misfire", ["run-once", "catch-up-limited", "ignore"])
def test_schedules_by_every_policy(
    misfire: str, timed_client: Client, timed_jobs: Jobs, log: Log, jobs_clock: FakeClock
) -> None:
    timed_client.recurring("often", "greet", every=10, misfire=misfire, catch_up_limit=3)
    timed_client.recurring("hourly", "greet", cron="5 * * * *", misfire=misfire, catch_up_limit=3)
    timed_client.recurring("once", "greet", at=jobs_clock.now() + timedelta(seconds=30))
    for seconds in (10, 10, 3600, 5, 200_000, 10):
        jobs_clock.advance(seconds)
        drain(timed_jobs)
    timed_jobs.admin.trigger_recurring("hourly")
    timed_jobs.admin.pause_recurring("hourly")
    jobs_clock.advance(20_000)
    timed_jobs.admin.resume_recurring("hourly")
    jobs_clock.advance(3600)
    drain(timed_jobs)
    assert_sound(timed_jobs, log, within=0)


def test_schedules_that_are_changed_and_deleted(
    timed_client: Client, timed_jobs: Jobs, log: Log, jobs_clock: FakeClock
) -> None:
    timed_client.recurring("often", "greet", every=10)
    timed_client.recurring("seldom", "greet", every=600)
    timed_client.recurring("gone", "greet", every=600)
    for every, policy in ((10, "run-once"), (7, "run-once"), (7, "catch-up-limited"), (60, "ignore")):
        timed_client.recurring("often", "greet", every=every, misfire=policy)
        jobs_clock.advance(every * 3)
        drain(timed_jobs)
    timed_jobs.recurring("seldom", "greet", cron="* * * * *")  # by somebody who writes no log
    timed_jobs.schedules.delete("gone")
    jobs_clock.advance(600)
    drain(timed_jobs)
    assert_sound(timed_jobs, log, within=0)


def test_locks_that_are_released_extended_and_left(client: Client, jobs: Jobs, log: Log) -> None:
    first, second = client.locks("first"), client.locks("second")
    assert first.acquire("nightly", ttl=30)
    assert not second.acquire("nightly")
    assert first.extend("nightly", ttl=60)
    assert first.release("nightly")
    assert second.acquire("nightly", ttl=0.05)
    while not first.acquire("nightly"):
        pass
    assert_sound(jobs, log)


def test_a_write_between_two_reads_is_no_violation(
    client: Client, jobs: Jobs, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may still carry out what a worker sent before it was killed."""
    client.enqueue("greet")
    real, late = SqlInspection.attempts, [lambda: drain(jobs)]

    def attempts(self: SqlInspection, job_id: str | None = None) -> list[AttemptRecord]:
        while late:
            late.pop()()
        return real(self, job_id)

    monkeypatch.setattr(SqlInspection, "attempts", attempts)
    assert check(jobs, log) == []
    assert not late


def test_archived_jobs_are_not_lost(timed_client: Client, timed_jobs: Jobs, log: Log, jobs_clock: FakeClock) -> None:
    timed_client.enqueue("greet", idempotency_key="once")
    drain(timed_jobs)
    jobs_clock.advance(timedelta(days=400))
    timed_jobs.admin.cleanup()
    jobs_clock.advance(timedelta(days=400))
    timed_jobs.admin.purge(archive=True)
    assert not timed_jobs.storage.inspection.jobs()
    assert check(timed_jobs, log) == []


def test_archived_members_are_counted_as_they_ended(client: Client, jobs: Jobs, log: Log) -> None:
    with jobs.batch("archived") as batch:
        batch.enqueue("greet")
        batch.enqueue("flaky", max_attempts=1)
        batch.enqueue("greet", queue="held")
    jobs.admin.pause_queue("held")
    drain(jobs)
    for job in jobs.admin.list_jobs(batch=batch.id):
        jobs.admin.delete(job.id)
    jobs.admin.purge(older_than=0, archive=True)
    assert len(jobs.storage.inspection.archive()) == 3
    assert_sound(jobs, log, within=0)


def test_a_parent_that_was_enough_may_be_archived(client: Client, jobs: Jobs, log: Log) -> None:
    enough = client.enqueue("greet")
    drain(jobs)
    client.enqueue("greet", depends_on=[enough, client.enqueue("greet", delay=3600)], depends_on_any=True)
    drain(jobs)
    jobs.admin.delete(enough.id)
    jobs.admin.purge(older_than=0, archive=True)
    assert len(jobs.storage.inspection.archive()) == 1
    assert_sound(jobs, log, within=0)


def test_a_callback_that_is_replaced_and_restored_was_called_once(jobs: Jobs, log: Log) -> None:
    with jobs.batch("one", on_complete=("greet", {"to": "ada"}, {"delay": 3600})) as batch:
        pass
    [callback] = [one.job_id for one in jobs.admin.get_batch(batch.id).callbacks if one.kind == "complete"]
    new = jobs.replace(callback, {"to": "ada"}, delay=0)
    drain(jobs)
    jobs.admin.delete(new.id)
    jobs.admin.purge(older_than=0, archive=True)
    jobs.admin.restore(new.id)
    drain(jobs)
    assert_sound(jobs, log, within=0)
