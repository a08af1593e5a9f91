"""Rows that somebody has damaged by hand: each is one failed job, never a failed worker, sweep or page."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from sloppyjobs import errors
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.storage.ports.inspection import RowRefused
from sloppyjobs.testing.conformance.fixtures import MakeStorage
from sloppyjobs.testing.conformance.records import ends, transitions, unless_refused
from sloppyjobs.testing.conformance.sql_storage import sql_storage

UNREADABLE = "SLOPPY_E_JOBS_ROW_UNREADABLE"

ANYWHERE = {
    "metadata, a number": "metadata = '5'",
    "metadata, a list": "metadata = '[1]'",
    "metadata, no JSON": "metadata = '{'",
}
ON_SQLITE = {
    "created_at, no instant": "created_at = 'soon'",
    "created_at, empty": "created_at = ''",
    "created_at, bytes": "created_at = x'00ff'",
    "occurrence_at, no instant": "occurrence_at = 'never'",
    "max_attempts, no number": "max_attempts = 'many'",
    "timeout, no number": "timeout_seconds = 'long'",
    "metadata, bytes": "metadata = x'00ff'",
    "payload, bytes": "payload = x'00ff'",
    "correlation_id, no UTF-8": "correlation_id = CAST(x'ff' AS TEXT)",
}
ON_POSTGRES = {
    "created_at, infinity": "created_at = 'infinity'",
    "created_at, minus infinity": "created_at = '-infinity'",
    "run_at, minus infinity": "run_at = '-infinity'",
    "occurrence_at, infinity": "occurrence_at = 'infinity'",
    "created_at, far in the future": "created_at = '20000-01-01'",
    "timeout, not a number": "timeout_seconds = 'NaN'",
}
ON_MARIADB = {
    "created_at, no day": "created_at = '0000-00-00'",
    "run_at, no day": "run_at = '0000-00-00'",
    "occurrence_at, no day": "occurrence_at = '0000-00-00 00:00:00'",
}
NEVER = {
    "sqlite": ("''", "'soon'"),
    "postgresql": ("'-infinity'", "'infinity'"),
    "mssql": ("'0001-01-01'", "'9999-12-31T23:59:59'"),
    "mysql": ("'1000-01-01'", "'9999-12-31 23:59:59.999999'"),
}
"""Instants long ago and never, that nobody would write."""


@pytest.fixture
def damaged_jobs(make_storage: MakeStorage, clock: FakeClock) -> Jobs:
    """As ``jobs``, but nobody checks every history in the end: what is damaged here would fail that check too."""
    return Jobs(make_storage(clock))


def kinds_of(jobs: Jobs) -> dict[str, str]:
    """The kinds of damage that this database lets somebody do."""
    more = {"sqlite": ON_SQLITE, "postgresql": ON_POSTGRES, "mysql": ON_MARIADB}
    kind = sql_storage(jobs)
    # MySQL refuses a day that does not exist, unless its mode was changed.
    refused = kind.dialect.name == "mysql" and not getattr(kind.engine.dialect, "is_mariadb", False)
    return ANYWHERE | ({} if refused else more.get(kind.dialect.name, {}))


def never(jobs: Jobs) -> tuple[str, str]:
    """Instants long ago and never."""
    return NEVER.get(sql_storage(jobs).dialect.name, ("'-infinity'", "'infinity'"))


def harm(jobs: Jobs, job_id: str, change: str) -> None:
    """Write what the library never would."""
    table = sql_storage(jobs).tables.jobs.fullname
    with unless_refused(), jobs.storage.engine.begin() as connection:
        try:
            connection.execute(text(f"UPDATE {table} SET {change} WHERE id = :id"), {"id": job_id})
        except IntegrityError as error:
            raise RowRefused(change) from error


def test_a_job_whose_row_cannot_be_read_is_dead_at_once_and_its_neighbours_run(damaged_jobs: Jobs) -> None:
    damaged_jobs.define("note", lambda ctx, payload: payload["n"])
    kinds = kinds_of(damaged_jobs)
    enqueued = damaged_jobs.enqueue_many([("note", {"n": n}) for n in range(2 * len(kinds))])
    damaged = dict(zip(kinds, enqueued[::2], strict=True))
    for kind, job in damaged.items():
        harm(damaged_jobs, job.id, kinds[kind])
    assert damaged_jobs.create_worker(recurring=False).run_once() == len(enqueued)
    for kind, job in damaged.items():
        dead = damaged_jobs.get(job.id)
        assert (kind, dead.status, dead.error_code) == (kind, "dead", UNREADABLE)
        assert kinds[kind].split()[0] in str(dead.error_message), kind
        assert (kind, ends(damaged_jobs, job.id)) == (kind, [(1, "failed")])
        assert transitions(damaged_jobs, job.id)[1:] == ["claimed:processing", "failed:failed", "dead:dead"]
    for n, job in enumerate(enqueued):
        if job not in damaged.values():
            done = damaged_jobs.get(job.id)
            assert (done.status, done.result) == ("succeeded", n)


def test_a_claim_leaves_damaged_rows_out_and_settles_them(damaged_jobs: Jobs) -> None:
    damaged_jobs.declare("note")
    enqueued = damaged_jobs.enqueue_many([("note", None)] * 3)
    harm(damaged_jobs, enqueued[0].id, "metadata = '5'")
    [claim] = damaged_jobs.claim("w1", limit=1)
    assert claim.id == enqueued[1].id
    assert damaged_jobs.get(enqueued[0].id).error_code == UNREADABLE
    harm(damaged_jobs, enqueued[2].id, "metadata = '5'")
    assert damaged_jobs.claim("w1", limit=5) == []
    assert damaged_jobs.get(enqueued[2].id).error_code == UNREADABLE


def test_a_repaired_job_runs_when_it_is_retried(damaged_jobs: Jobs) -> None:
    damaged_jobs.define("note", lambda ctx, payload: dict(ctx.metadata))
    job = damaged_jobs.enqueue("note", metadata={"team": "growth"})
    harm(damaged_jobs, job.id, "metadata = '5'")
    damaged_jobs.create_worker(recurring=False).run_once()
    harm(damaged_jobs, job.id, """metadata = '{"team": "core"}'""")
    damaged_jobs.admin.retry(job.id)
    damaged_jobs.create_worker(recurring=False).run_once()
    assert damaged_jobs.get(job.id).result == {"team": "core"}


@pytest.mark.parametrize("change", ["payload = '{'", "retry_policy = '5'"])
def test_a_damaged_payload_or_policy_concerns_its_job_alone(damaged_jobs: Jobs, change: str) -> None:
    damaged_jobs.define("note", lambda ctx, payload: "ran")
    enqueued = damaged_jobs.enqueue_many([("note", None)] * 3)
    harm(damaged_jobs, enqueued[1].id, change)
    assert damaged_jobs.create_worker(recurring=False).run_once() == 3
    assert [damaged_jobs.get(job.id).result for job in enqueued[::2]] == ["ran", "ran"]
    assert damaged_jobs.get(enqueued[1].id).error_code in (None, errors.InvalidPayload.code)


def test_a_damaged_row_does_not_keep_the_leases_of_others_from_expiring(damaged_jobs: Jobs, clock: FakeClock) -> None:
    damaged_jobs.declare("note")
    kinds = kinds_of(damaged_jobs)
    enqueued = damaged_jobs.enqueue_many([("note", None)] * (len(kinds) + 2))
    assert len(damaged_jobs.claim("w1", limit=100, lease=30)) == len(enqueued)
    for job, change in zip(enqueued[1:-1], kinds.values(), strict=True):
        harm(damaged_jobs, job.id, change)
    harm(damaged_jobs, enqueued[1].id, "locked_by = NULL")
    clock.advance(31)
    assert damaged_jobs.storage.sweep().expired == len(enqueued)
    assert {damaged_jobs.get(job.id).status for job in enqueued} <= {"queued", "dead"}
    assert damaged_jobs.get(enqueued[0].id).status == "queued"


def test_a_due_time_that_cannot_be_read_stops_no_sweep(damaged_jobs: Jobs, clock: FakeClock) -> None:
    damaged_jobs.declare("note")
    early, late, other = (damaged_jobs.enqueue("note", delay=60) for _ in range(3))
    for job, instant in zip((early, late), never(damaged_jobs), strict=True):
        harm(damaged_jobs, job.id, f"run_at = {instant}")
    assert damaged_jobs.storage.sweep().promoted == 1
    clock.advance(61)
    assert damaged_jobs.storage.sweep().promoted == 1
    assert [damaged_jobs.get(job.id).status for job in (early, late, other)] == ["queued", "scheduled", "queued"]
    # What never becomes due is all that is left.
    assert damaged_jobs.storage.sweep().promoted == 0


def test_a_lease_end_that_cannot_be_read_stops_no_sweep(damaged_jobs: Jobs, clock: FakeClock) -> None:
    damaged_jobs.declare("note")
    held, other = damaged_jobs.enqueue_many([("note", None)] * 2)
    assert len(damaged_jobs.claim("w1", limit=2, lease=30)) == 2
    harm(damaged_jobs, held.id, f"locked_until = {never(damaged_jobs)[1]}")
    clock.advance(31)
    assert damaged_jobs.storage.sweep().expired == 1
    assert [damaged_jobs.get(job.id).status for job in (held, other)] == ["processing", "queued"]
    assert damaged_jobs.storage.sweep().expired == 0


def test_the_admin_shows_what_can_be_shown_of_damaged_rows(damaged_jobs: Jobs) -> None:
    damaged_jobs.declare("note")
    kinds = kinds_of(damaged_jobs) | {"status, unknown": "status = 'zombie'", "result, no JSON": "result = '{'"}
    enqueued = damaged_jobs.enqueue_many([("note", {"n": 1}, {"correlation_id": "one"})] * (len(kinds) + 1))
    damaged = dict(zip(kinds, enqueued, strict=False))
    for kind, job in damaged.items():
        harm(damaged_jobs, job.id, kinds[kind])
    in_list = {job.id for job in damaged_jobs.admin.list_jobs(page_size=100)}
    assert {job.id for kind, job in damaged.items() if "unknown" not in kind} <= in_list
    for order in ("created_at", "-created_at"):
        assert len(_everything(damaged_jobs, order)) == len(in_list)
    for kind, job in damaged.items():
        shown = damaged_jobs.admin.get_job(job.id)
        assert (shown.id, shown.name, shown.queue) == (job.id, "note", "default")
        assert damaged_jobs.admin.events(job.id).items
        assert damaged_jobs.admin.explain(job.id).verdict
        column = kinds[kind].split()[0]
        assert shown.damage is None or column in shown.damage, kind
        assert damaged_jobs.get(job.id).name == "note"
    assert damaged_jobs.admin.get_job(damaged["metadata, a number"].id).damage == "metadata is not a JSON object"
    assert "zombie" in str(damaged_jobs.admin.get_job(damaged["status, unknown"].id).damage)
    assert damaged_jobs.admin.get_job(enqueued[-1].id).damage is None
    assert damaged_jobs.admin.overview().count("queued")
    assert damaged_jobs.admin.list_queues().items


def _everything(jobs: Jobs, order: str) -> list[str]:
    """All jobs, a few at a time; a cursor that stands on a damaged row must not lead back to it."""
    found: list[str] = []
    cursor: Any = None
    for _ in range(100):
        page = jobs.admin.list_jobs(order=order, page_size=4, cursor=cursor)
        found += [job.id for job in page]
        cursor = page.next_cursor
        if cursor is None:
            return found
    raise AssertionError("the list has no end")


def test_a_damaged_job_can_be_cancelled_and_deleted(damaged_jobs: Jobs) -> None:
    damaged_jobs.declare("note")
    for kind, change in kinds_of(damaged_jobs).items():
        job = damaged_jobs.enqueue("note")
        harm(damaged_jobs, job.id, change)
        damaged_jobs.admin.cancel(job.id)
        damaged_jobs.admin.delete(job.id)
        assert (kind, damaged_jobs.admin.get_job(job.id).status) == (kind, "deleted")


def test_a_command_on_a_status_that_is_none_is_refused_and_says_so(damaged_jobs: Jobs) -> None:
    damaged_jobs.declare("note")
    job = damaged_jobs.enqueue("note", delay=60)
    harm(damaged_jobs, job.id, "status = 'zombie'")
    with pytest.raises(errors.InvalidTransition, match="'zombie', which is none: somebody has changed its row"):
        damaged_jobs.admin.cancel(job.id)
    with pytest.raises(errors.InvalidTransition, match="'zombie', which is none"):
        damaged_jobs.enqueue("note", depends_on=job)
    other = damaged_jobs.enqueue("note")
    damaged_jobs.admin.pause(other.id)
    harm(damaged_jobs, other.id, "paused_from = 'zombie'")
    assert damaged_jobs.admin.resume(other.id).status == "queued"


@pytest.mark.parametrize("change", ["max_attempts = -3", "timeout_seconds = 0", "timeout_seconds = -1"])
def test_a_number_that_makes_no_sense_is_of_one_job_alone(damaged_jobs: Jobs, change: str) -> None:
    damaged_jobs.define("note", lambda ctx, payload: payload)
    damaged, other = damaged_jobs.enqueue_many([("note", 1), ("note", 2)])
    harm(damaged_jobs, damaged.id, change)
    damaged_jobs.create_worker().run_once()
    ended = damaged_jobs.get(damaged.id)
    assert (ended.status, ended.error_code) == ("dead", UNREADABLE)
    assert damaged_jobs.get(other.id).result == 2


def test_a_limit_that_was_written_by_hand_breaks_no_claim(damaged_jobs: Jobs) -> None:
    damaged_jobs.declare("note")
    table = sql_storage(damaged_jobs).tables.limits.fullname
    for number, change in enumerate(
        ("concurrency = 0", "concurrency = -1", "rate = 0", "rate = -1", "per_seconds = 0")
    ):
        damaged_jobs.limit(f"api-{number}", concurrency=1, rate=5, per=60)
        with damaged_jobs.storage.engine.begin() as connection:
            connection.execute(text(f"UPDATE {table} SET {change} WHERE name = 'api-{number}'"))
        limited = [damaged_jobs.enqueue("note", resource=f"api-{number}") for _ in range(2)]
        other = damaged_jobs.enqueue("note")
        assert [claim.id for claim in damaged_jobs.claim("w", limit=10)] == [other.id], change
        damaged_jobs.storage.sweep()
        assert "set it anew" in damaged_jobs.admin.explain(limited[0].id).reasons[0].text
        damaged_jobs.admin.set_limit(f"api-{number}", concurrency=2, rate=None)
        assert {claim.id for claim in damaged_jobs.claim("w", limit=10)} == {job.id for job in limited}


def test_a_key_that_a_damaged_job_holds_is_found(damaged_jobs: Jobs) -> None:
    damaged_jobs.declare("note")
    for kind, change in kinds_of(damaged_jobs).items():
        job = damaged_jobs.enqueue("note", idempotency_key=kind)
        harm(damaged_jobs, job.id, change)
        again = damaged_jobs.enqueue("note", idempotency_key=kind)
        assert (kind, again.id, again.existing) == (kind, job.id, True)
