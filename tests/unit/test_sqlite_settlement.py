"""On SQLite jobs that failed alike are settled together and unread; what is written is the same either way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from sloppyjobs import After, Jobs, storage
from sloppyjobs.domain.model import Claim, Settlement
from sloppyjobs.domain.states import (
    Cancelled,
    Failed,
    Failure,
    Outcome,
    Released,
    Snoozed,
    Succeeded,
    Suspended,
    decide,
)
from sloppyjobs.storage.dialects.sqlite.settle import FEW_KINDS
from sloppyjobs.storage.ports.claims import ClaimRequest
from sloppyjobs.testing import FakeClock

STACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in run\nshop.Refused: '
WRITTEN = {
    "jobs": "status, run_at, updated_at, finished_at, locked_by, locked_until, attempt_count, max_attempts, result, "
    "error_code, error_type, error_frame, error_message",
    "job_attempts": "attempt_number, worker_id, status, finished_at, run_seconds, error_code, error_type, error_frame, "
    "error_message, traceback",
    "job_events": "event_type, from_status, to_status, attempt_number, worker_id, message, created_at",
}


def _failure(message: str, traceback: str | None, kind: str = "shop.Refused") -> Failure:
    return Failure("E", message, kind, "shop:ship", traceback)


def _refused(message: str) -> Failure:
    return _failure(message, f"{STACK}{message}\n")


OUTCOMES: dict[str, Sequence[Outcome]] = {
    "dead alike": [Failed(_refused(f'order {n} "was" refused\n€'), 0.0, retryable=False) for n in range(6)],
    "retried after the same time": [Failed(_refused(f"order {n}"), 5.0) for n in range(6)],
    "retried after times that differ": [Failed(_refused(f"order {n}"), 5.0 + n) for n in range(6)],
    "retried at once": [Failed(_refused(f"order {n}"), 0.0) for n in range(6)],
    "without a message": [Failed(_failure("", f"{STACK[:-2]}\n"), 0.0, retryable=False) for _ in range(6)],
    "with tracebacks of their own": [
        Failed(_failure("no", trace), 0.0) for trace in (f"{STACK}no\n", None, "", f"other: {STACK}no\n", "cut", "no\n")
    ],
    "timed out": [Failed(_refused("slow"), 5.0, timed_out=True) for _ in range(6)],
    "in many ways": [Failed(_failure("no", None, f"shop.Kind{n}"), 5.0) for n in range(6)],
    "in all ways": [
        Failed(_refused("no"), 5.0),
        Succeeded("[1]"),
        Cancelled("nobody wants it"),
        Cancelled("late", _refused("late")),
        Released(),
        Released(_refused("too new"), 7.0),
        Snoozed(3.0),
        Suspended(3.0, "sleeps"),
        Succeeded(),
    ],
}


def _claimed(store: Any, number: int) -> list[Claim]:
    jobs = Jobs(store)
    jobs.declare("greet")
    jobs.enqueue_many([("greet", {"n": n}) for n in range(number)])
    found: list[Claim] = store.claim(ClaimRequest("worker", limit=number))
    assert len(found) == number
    return found


def _settlement(claim: Claim, outcome: Outcome, *, known: bool = True) -> Settlement:
    decision = decide(claim.attempt, claim.job.max_attempts, outcome)
    lane = (claim.job.queue, claim.job.name) if known else None
    return Settlement(claim.id, claim.attempt, claim.worker_id, decision, 0.25, None, claim.followups, lane)


def _rows(store: Any, ids: Sequence[str]) -> list[Any]:
    """What was written of each of these jobs; events in the order of their numbers."""
    found = []
    with store.engine.connect() as connection:
        for job_id in ids:
            for table, columns in WRITTEN.items():
                key, order = ("id", "id") if table == "jobs" else ("job_id", "rowid")
                query = text(f"SELECT {columns} FROM sloppy_{table} WHERE {key} = :id ORDER BY {order}")
                found.append(connection.execute(query, {"id": job_id}).all())
        counted = "SELECT succeeded, failed, dead, cancelled, run_seconds FROM sloppy_job_stats ORDER BY shard"
        return [*found, connection.execute(text(counted)).all()]


@pytest.mark.parametrize("ways", OUTCOMES)
def test_what_is_written_is_the_same_whether_the_claims_told_of_the_jobs_or_their_rows_are_read(
    prepare_sqlite: Callable[[Path], str], tmp_path: Path, ways: str
) -> None:
    outcomes, written = OUTCOMES[ways], []
    for known in (True, False):
        store = storage.from_url(prepare_sqlite(tmp_path / f"{known}.db"), clock=FakeClock("2026-03-01T12:00:00Z"))
        claims = _claimed(store, len(outcomes))
        settlements = [_settlement(*pair, known=known) for pair in zip(claims, outcomes, strict=True)]
        assert store.settle(settlements) == {claim.id for claim in claims}
        written.append(_rows(store, [claim.id for claim in claims]))
        assert store.settle(settlements) == set(), "they are settled"
        store.close()
    assert written[0] == written[1]


def test_of_jobs_that_failed_alike_one_that_is_not_held_any_more_stays_as_it_is(ready_sqlite_url: str) -> None:
    store = storage.from_url(ready_sqlite_url)
    claims = _claimed(store, 5)
    failed = Failed(_refused("no"), 0.0, retryable=False)
    assert store.settle([_settlement(claims[2], Succeeded())]) == {claims[2].id}
    before = _rows(store, [claims[2].id])[:-1]
    accepted = store.settle([_settlement(claim, failed) for claim in claims])
    assert accepted == {claim.id for claim in claims} - {claims[2].id}
    assert _rows(store, [claims[2].id])[:-1] == before
    jobs = Jobs(store)
    assert [jobs.get(claim.id).status for claim in claims] == ["dead", "dead", "succeeded", "dead", "dead"]
    store.close()


def test_a_child_that_was_added_since_the_claim_starts_when_its_parent_has_failed_as_it_needs(
    ready_sqlite_url: str,
) -> None:
    store = storage.from_url(ready_sqlite_url)
    [claim] = _claimed(store, 1)
    jobs = Jobs(store)
    jobs.declare("greet")
    child = jobs.enqueue("greet", {}, depends_on=After(claim.id, on="failure"))
    assert child.status == "waiting"
    assert claim.followups is None, "the claim knows of no child"
    assert store.settle([_settlement(claim, Failed(_refused("no"), 0.0, retryable=False))]) == {claim.id}
    assert jobs.get(child.id).status == "queued"
    store.close()


def _sent(store: Any, settlements: Sequence[Settlement]) -> list[str]:
    sent: list[str] = []
    event.listen(store.engine, "checkout", lambda driver, *_: driver.set_trace_callback(sent.append))
    try:
        store.settle(settlements)
    finally:
        store.close()
    return [one for one in sent if one.strip().startswith(("UPDATE", "INSERT", "SELECT", "WITH"))]


@pytest.mark.parametrize("number", [2, 40])
def test_jobs_that_failed_alike_take_as_many_statements_as_one_and_their_rows_are_not_read(
    ready_sqlite_url: str, number: int
) -> None:
    store = storage.from_url(ready_sqlite_url)
    claims = _claimed(store, number)
    sent = _sent(store, [_settlement(one, Failed(_refused(one.id), 0.0, retryable=False)) for one in claims])
    assert not [one for one in sent if one.startswith(("WITH", "SELECT")) and "sloppy_jobs" in one]
    # The jobs, their attempts, two edges, and the counter.
    assert len([one for one in sent if not one.startswith(("WITH", "SELECT"))]) == 5


def test_jobs_that_failed_in_many_ways_take_no_statements_for_each_way(ready_sqlite_url: str) -> None:
    store = storage.from_url(ready_sqlite_url)
    claims = _claimed(store, 5 * FEW_KINDS)
    failures = [_failure("no", None, f"shop.Kind{n}") for n in range(len(claims))]
    ends = [Failed(failure, 0.0, retryable=False) for failure in failures]
    sent = _sent(store, [_settlement(*pair) for pair in zip(claims, ends, strict=True)])
    assert len([one for one in sent if not one.startswith(("WITH", "SELECT"))]) == 5
