"""What a worker has begun to settle and to claim arrives, whatever happens to the connections on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from sloppyjobs import Jobs
from sloppyjobs.domain.model import Claim, Settlement
from sloppyjobs.domain.states import Failed, Failure, Outcome, Succeeded, decide
from sloppyjobs.storage.dialects.postgres import turns as postgres_turns
from sloppyjobs.storage.ports.claims import ClaimRequest, TransactionTurns

REQUEST = ClaimRequest("worker", limit=2)


@pytest.fixture
def jobs(database_url: str) -> Iterator[Jobs]:
    found = Jobs(database_url)
    found.declare("greet")
    found.enqueue_many([("greet", {"n": n}) for n in range(4)])
    yield found
    found.storage.close()


def _settlements(claims: Sequence[Claim], outcome: Outcome | None = None) -> list[Settlement]:
    decision = decide(1, 3, outcome or Succeeded())
    return [Settlement(claim.id, claim.attempt, "worker", decision, 0.0) for claim in claims]


def test_a_settlement_is_waited_for_a_turn_after_it_was_begun(jobs: Jobs) -> None:
    turns = jobs.storage.turns()
    turns.begin_claim(REQUEST)
    first = turns.claimed()
    turns.begin_settle(_settlements(first))
    turns.begin_claim(REQUEST)
    accepted = turns.settled()
    turns.begin_settle(_settlements(first))
    second = turns.claimed()
    assert accepted == {claim.id for claim in first}
    assert len(second) == 2 and accepted.isdisjoint(claim.id for claim in second)
    assert turns.settled() == set(), "they were settled before"
    turns.close()


def test_failures_among_successes_are_settled_too(jobs: Jobs) -> None:
    turns = jobs.storage.turns()
    turns.begin_claim(REQUEST)
    good, bad = turns.claimed()
    turns.begin_settle([*_settlements([good]), *_settlements([bad], Failed(Failure("E", "no"), 5.0))])
    assert turns.settled() == {good.id, bad.id}
    assert [jobs.get(job.id).status for job in (good, bad)] == ["succeeded", "retrying"]


def _retried(jobs: Jobs, **options: Any) -> str:
    """The id of a job that has failed once, and whose next try has become due."""
    sent = jobs.enqueue("greet", {}, queue="retried", **options)
    claims = jobs.storage.claim(ClaimRequest("worker", ("retried",)))
    jobs.storage.settle(_settlements(claims, Failed(Failure("E", "no"), 0.001)))
    _until(lambda: jobs.storage.sweep(limit=0).next_in == 0.0)
    assert jobs.get(sent.id).status == "retrying"
    return sent.id


def test_a_claim_that_is_asked_to_queues_first_what_has_become_due(jobs: Jobs) -> None:
    due, turns = _retried(jobs), jobs.storage.turns()
    assert turns.promotes
    request = ClaimRequest("worker", ("retried",), limit=5)
    turns.begin_claim(request)
    assert list(turns.claimed()) == [], "nobody has asked for it"
    turns.begin_claim(request._replace(promote=True))
    assert [(claim.id, claim.attempt) for claim in turns.claimed()] == [(due, 2)]
    turns.close()


def test_jobs_that_become_due_and_need_more_than_one_statement_are_left_to_sweeps(postgres_url: str) -> None:
    jobs = Jobs(postgres_url)
    jobs.declare("greet")
    due, turns = _retried(jobs, business_key="customer-1"), jobs.storage.turns()
    turns.begin_claim(ClaimRequest("worker", ("retried",), promote=True))
    assert list(turns.claimed()) == []
    assert not turns.promotes
    jobs.storage.sweep()
    turns.begin_claim(ClaimRequest("worker", ("retried",)))
    assert [claim.id for claim in turns.claimed()] == [due]
    turns.close()
    jobs.storage.close()


def test_when_more_is_due_than_one_claim_queues_the_next_goes_on(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_turns, "SWEEP_LIMIT", 1)
    jobs = Jobs(postgres_url)
    jobs.declare("greet")
    due, turns = {_retried(jobs), _retried(jobs)}, jobs.storage.turns()
    request = ClaimRequest("worker", ("retried",), limit=5)
    found = []
    for promote in (True, False, False):
        turns.begin_claim(request._replace(promote=promote))
        found.append([claim.id for claim in turns.claimed()])
    assert [len(ids) for ids in found] == [1, 1, 0] and {*found[0], *found[1]} == due
    turns.close()
    jobs.storage.close()


def test_what_was_sent_on_postgresql_is_committed_before_anybody_waits_for_it(postgres_url: str) -> None:
    """Otherwise its rows stay locked, and what this worker settles meanwhile may wait for them for ever."""
    jobs = Jobs(postgres_url)
    jobs.declare("greet")
    jobs.enqueue_many([("greet", {"n": n}) for n in range(4)])

    def in_status(status: str) -> int:
        with jobs.storage.engine.connect() as connection:
            query = text("SELECT count(*) FROM sloppy_jobs WHERE status = :status")
            number: int = connection.execute(query, {"status": status}).scalar_one()
        return number

    turns = jobs.storage.turns()
    turns.begin_claim(REQUEST)
    _until(lambda: in_status("processing") == 2)
    good, bad = turns.claimed()
    turns.begin_settle([*_settlements([good]), *_settlements([bad], Failed(Failure("E", "no"), 5.0))])
    _until(lambda: in_status("succeeded") == 1 and in_status("retrying") == 1)
    assert turns.settled() == {good.id, bad.id}
    turns.close()
    jobs.storage.close()


def test_a_turn_on_sqlite_takes_a_job_that_is_due_again_by_the_failure_it_settles(ready_sqlite_url: str) -> None:
    jobs = Jobs(ready_sqlite_url)
    jobs.declare("greet")
    job = jobs.enqueue("greet", {})
    [claim] = jobs.storage.claim(REQUEST)
    settled, [again] = jobs.storage.turn(_settlements([claim], Failed(Failure("E", "no"), 0.0)), REQUEST)
    assert settled == {job.id}
    assert (again.id, again.attempt) == (job.id, 2)
    walked = [event.to_status for event in jobs.admin.events(job.id)]
    assert sorted(walked) == sorted(["queued", "processing", "failed", "retrying", "queued", "processing"])
    assert [attempt.status for attempt in jobs.admin.attempts(job.id)] in (["failed", "running"], ["running", "failed"])
    assert jobs.storage.turn(_settlements([claim], Failed(Failure("E", "no"), 0.0)), None)[0] == set(), "it is late"
    jobs.storage.close()


def test_what_failed_is_done_again_when_it_is_asked_for_again() -> None:
    asked: list[Any] = []

    def turn(settlements: Sequence[Settlement], request: ClaimRequest | None) -> tuple[set[str], Sequence[Claim]]:
        asked.append((len(settlements), request))
        if len(asked) == 1:
            raise ConnectionError
        return {"job_1"}, []

    turns = TransactionTurns(turn)
    turns.begin_settle([Settlement("job_1", 1, "worker", decide(1, 3, Succeeded()))])
    turns.begin_claim(REQUEST)
    with pytest.raises(ConnectionError):
        turns.settled()
    assert turns.settled() == {"job_1"}
    assert turns.claimed() == []
    assert asked == [(1, REQUEST), (1, REQUEST)], "together, and not once more"


def test_a_settlement_whose_connection_breaks_is_sent_again(postgres_url: str) -> None:
    with _broken_off(postgres_url) as (turns, break_off):
        claims = turns.claimed()
        with break_off("sloppy_jobs"):
            turns.begin_settle(_settlements(claims))
        assert turns.settled() == {claim.id for claim in claims}


def test_a_claim_whose_connection_breaks_is_sent_again(postgres_url: str) -> None:
    with _broken_off(postgres_url) as (turns, break_off):
        taken = {claim.id for claim in turns.claimed()}
        with break_off("sloppy_job_attempts"):
            turns.begin_claim(REQUEST)
        again = turns.claimed()
        assert len(again) == 2 and taken.isdisjoint(claim.id for claim in again)


def test_successes_are_there_although_the_connection_broke_at_the_failures_beside_them(postgres_url: str) -> None:
    with _mixed_batch(postgres_url) as (jobs, bad, good, watcher), jobs.storage.engine.connect() as holder:
        turns = jobs.storage.turns()
        _lock_row(holder, bad.id)
        turns.begin_settle(_settlements([good]) + _settlements([bad], Failed(Failure("E", "no"), 5.0)))
        _end_who_waits(watcher)
        assert jobs.get(good.id).status == "succeeded"
        holder.rollback()
        assert turns.settled() == {good.id, bad.id}
        assert [event.to_status for event in jobs.admin.events(bad.id)].count("retrying") == 1
        assert [event.to_status for event in jobs.admin.events(good.id)].count("succeeded") == 1
        turns.close()


def test_a_settlement_that_waits_for_a_failed_job_keeps_nobody_from_the_others(postgres_url: str) -> None:
    """Who locks jobs in the order of their ids, as commands and heartbeats do, never waits for it in a ring."""
    with _mixed_batch(postgres_url) as (jobs, bad, good, watcher), jobs.storage.engine.connect() as holder:
        turns = jobs.storage.turns()
        _lock_row(holder, bad.id)
        turns.begin_settle(_settlements([good]) + _settlements([bad], Failed(Failure("E", "no"), 5.0)))
        _until(lambda: watcher.execute(text(f"SELECT count(*) {WAITING}")).scalar_one() == 1)
        _lock_row(holder, good.id)
        holder.rollback()
        assert turns.settled() == {good.id, bad.id}
        turns.close()


@contextmanager
def _mixed_batch(url: str) -> Iterator[Any]:
    """Two claimed jobs in the order of their ids, and a connection that sees who waits."""
    jobs = Jobs(url)
    jobs.storage.init()
    jobs.declare("greet")
    jobs.enqueue_many([("greet", {"n": n}) for n in range(2)])
    watcher = create_engine(jobs.storage.engine.url, isolation_level="AUTOCOMMIT")
    with watcher.connect() as connection:
        yield jobs, *sorted(jobs.storage.claim(REQUEST), key=lambda claim: claim.id), connection
    watcher.dispose()
    jobs.storage.close()


def _lock_row(connection: Any, job_id: str) -> None:
    connection.execute(text("SELECT 1 FROM sloppy_jobs WHERE id = :id FOR UPDATE NOWAIT"), {"id": job_id})


@contextmanager
def _broken_off(url: str) -> Iterator[Any]:
    """Turns with a claim under way, and what ends their connection while it waits for a table."""
    jobs = Jobs(url)
    jobs.storage.init()
    jobs.declare("greet")
    jobs.enqueue_many([("greet", {"n": n}) for n in range(4)])
    watcher = create_engine(jobs.storage.engine.url, isolation_level="AUTOCOMMIT")

    @contextmanager
    def break_off(table: str) -> Iterator[None]:
        with jobs.storage.engine.connect() as holder:
            holder.execute(text(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"))
            yield
            with watcher.connect() as connection:
                _end_who_waits(connection)
            holder.rollback()

    turns = jobs.storage.turns()
    turns.begin_claim(REQUEST)
    yield turns, break_off
    turns.close()
    watcher.dispose()
    jobs.storage.close()


WAITING = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def _end_who_waits(connection: Any) -> None:
    _until(lambda: connection.execute(text(f"SELECT pg_terminate_backend(pid) {WAITING}")).scalar())


def _until(found: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not found():
        assert time.monotonic() < deadline, "nobody waits"
        time.sleep(0.01)
