"""What a row of a list carries: the start of its payload and its last attempt, read with the row."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from sqlalchemy import event, text, update

from sloppyjobs import Jobs
from sloppyjobs.admin.filters import job_query
from sloppyjobs.domain.payload_summary import START
from sloppyjobs.storage import FakeClock, SqlStore

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SECRET = "hunter2-canary-9f31"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def jobs(make_storage: Callable[..., SqlStore], clock: FakeClock) -> Jobs:
    made = Jobs(make_storage(clock))
    made.declare("greet", redact=("voucher",))
    return made


def shown(jobs: Jobs) -> str:
    (row,) = jobs.admin.list_jobs()
    assert row.payload_preview is not None
    return row.payload_preview.text


def statements(jobs: Jobs, read: Callable[[], Any]) -> list[str]:
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        seen.append(statement)

    event.listen(jobs.storage.engine, "before_cursor_execute", note)
    try:
        read()
    finally:
        event.remove(jobs.storage.engine, "before_cursor_execute", note)
    return [statement for statement in seen if "sloppy_jobs" in statement]


def test_a_row_shows_the_first_fields_of_its_payload_without_secrets(jobs: Jobs) -> None:
    jobs.enqueue("greet", {"order": 48213, "voucher": SECRET, "password": SECRET, "more": 1})
    assert shown(jobs) == '{"order": 48213, "voucher": [redacted], "password": [redacted], …}'


def test_of_a_large_payload_no_more_than_the_start_is_read(jobs: Jobs) -> None:
    jobs.enqueue("greet", {"order": 48213, "body": f"{SECRET} żółć " * 30_000})
    found = jobs.storage.lists.find(job_query({}), "-created_at", None, backward=False, limit=1, details=True)
    (details,) = found.details.values()
    assert len(details.payload_start) == START + 1
    assert shown(jobs) == '{"order": 48213, …}'


def test_payloads_and_attempts_cost_no_statement_of_their_own(jobs: Jobs) -> None:
    for number in range(30):
        jobs.enqueue("greet", {"n": number})
    jobs.claim("w1", limit=10)
    # One walk along the indexes, one read of the rows that it found.
    assert len(statements(jobs, jobs.admin.list_jobs)) == 2


def test_a_bulk_command_does_not_read_payloads(jobs: Jobs) -> None:
    jobs.enqueue("greet", {"n": 1})
    read = statements(jobs, lambda: jobs.admin.bulk("cancel", {"status": "queued"}, dry_run=True))
    assert not [statement for statement in read if re.search(r"\bpayload\b", statement)]


def test_a_row_says_since_when_it_runs_and_how_long_the_last_attempt_took(jobs: Jobs, clock: FakeClock) -> None:
    jobs.enqueue("greet")
    assert _times(jobs) == (None, None)
    clock.advance(60)
    (claim,) = jobs.claim("w1")
    started = clock.now()
    clock.advance(30)
    assert _times(jobs) == (started, None)
    jobs.fail(claim, "no", retry_after=0)
    assert _times(jobs) == (started, 30.0)
    clock.advance(60)
    (claim,) = jobs.claim("w1")
    again = clock.now()
    clock.advance(5)
    jobs.complete(claim)
    assert _times(jobs) == (again, 5.0)
    view = jobs.admin.get_job(claim.id)
    assert (view.started_at, view.duration) == (again, 5.0)


def _times(jobs: Jobs) -> tuple[datetime | None, float | None]:
    (row,) = jobs.admin.list_jobs()
    return row.started_at, row.duration


def test_a_payload_that_is_no_json_leaves_the_row_readable(jobs: Jobs) -> None:
    jobs.enqueue("greet", {"n": 1})
    with jobs.storage.engine.begin() as connection:
        connection.execute(update(jobs.storage.tables.jobs).values(payload=f"{SECRET} is no JSON"))
    assert shown(jobs) == "unavailable"


def test_a_payload_that_is_no_text_leaves_its_neighbours_readable(sqlite_url: str) -> None:
    jobs = Jobs(sqlite_url)
    jobs.storage.init()
    jobs.declare("greet")
    damaged = jobs.enqueue("greet", {"n": 1}).id
    jobs.enqueue("greet", {"n": 2})
    with jobs.storage.engine.begin() as connection:
        connection.execute(text("UPDATE sloppy_jobs SET payload = x'ff00fe' WHERE id = :id"), {"id": damaged})
    fine, broken = jobs.admin.list_jobs()
    assert fine.payload_preview is not None and fine.payload_preview.text == '{"n": 2}'
    assert broken.payload_preview is not None and not broken.payload_preview.available
    assert broken.damage == "payload is not text"
    jobs.storage.close()


@pytest.mark.parametrize("measured", ["'soon'", "9e999", "x'ff'"])
def test_a_run_time_that_is_no_number_is_not_shown(sqlite_url: str, measured: str) -> None:
    jobs = Jobs(sqlite_url)
    jobs.storage.init()
    jobs.declare("greet")
    jobs.enqueue("greet", {"n": 1})
    jobs.claim("w1")
    with jobs.storage.engine.begin() as connection:
        connection.execute(text(f"UPDATE sloppy_job_attempts SET run_seconds = {measured}"))
    (row,) = jobs.admin.list_jobs()
    assert (row.duration, jobs.admin.get_job(row.id).duration) == (None, None)
    jobs.storage.close()


def test_names_are_known_from_definitions_and_from_what_was_settled_within_the_scope(jobs: Jobs) -> None:
    other = Jobs(jobs.storage)
    other.declare("send-sms", queue="texts")
    other.enqueue("send-sms")
    (claim,) = other.claim("w1", queues=("texts",))
    other.complete(claim)
    assert jobs.admin.known_names() == (("greet", "send-sms"), ("default", "texts"))
    assert jobs.admin.known_names(("texts",)) == (("send-sms",), ("texts",))
    assert jobs.admin.known_names(()) == ((), ())


def test_a_row_is_json_with_its_preview(jobs: Jobs) -> None:
    jobs.enqueue("greet", {"voucher": SECRET})
    made = json.loads(msgspec.json.encode(jobs.admin.list_jobs()))["items"][0]
    assert made["payload_preview"]["text"] == '{"voucher": [redacted]}'
    assert (made["started_at"], made["duration"]) == (None, None)
