"""Every read of the admin service follows an index, however stale the statistics are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, event, insert

from sloppyjobs.domain.states import Status
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage import SqlStore
from sloppyjobs.storage.reads.keyset import SCAN_LIMIT

ROWS = 50_000
START = datetime(2030, 1, 1, tzinfo=UTC)
STATUSES = [status.value for status in Status if status is not Status.PROCESSING]


def _row(place: int) -> dict[str, Any]:
    # Four in five have succeeded; the others share what is left.
    status = "succeeded" if place % 5 else STATUSES[place // 5 % len(STATUSES)]
    moment = START + timedelta(seconds=place // 10)
    died = status == "dead"
    return {
        "id": f"job_{place:026d}",
        "name": f"name{place % 7}",
        "queue": f"queue{place % 3}",
        "status": status,
        "priority": 0,
        "run_at": moment,
        "created_at": moment,
        "updated_at": moment,
        "attempt_count": 1,
        "max_attempts": 3,
        "payload": "{}",
        "correlation_id": f"correlation{place % 20}",
        "idempotency_key": f"key{place}",
        "schedule_id": "recurring_1" if place % 4 == 0 else None,
        "occurrence_at": moment if place % 4 == 0 else None,
        "batch_id": "batch_1" if place % 2 == 0 else None,
        "workflow_id": "flow_1" if place % 5 == 0 else None,
        "error_type": f"Error{place % 3}" if died and place % 7 else None,
        "error_frame": f"frame{place % 2}" if died and place % 11 else None,
        "finished_at": moment if status in ("succeeded", "dead", "cancelled", "deleted") else None,
    }


def _archived(place: int) -> dict[str, Any]:
    return {"archived_at": START + timedelta(seconds=place), "history": "{}", "business_key": f"order{place}"}


def _members() -> list[dict[str, Any]]:
    jobs = [row for row in map(_row, range(0, ROWS, 2)) if row["status"] == "dead" or row["finished_at"] is None]
    return [{"batch_id": "batch_1", "state": int(row["status"] == "dead"), "job_id": row["id"]} for row in jobs]


def _attempt(place: int) -> dict[str, Any]:
    return {
        "job_id": f"job_{place:026d}",
        "attempt_number": 1,
        "worker_id": "worker_1",
        "status": "succeeded",
        "started_at": START,
    }


@pytest.fixture
def filled(make_storage: Callable[..., SqlStore]) -> Jobs:
    """Fifty thousand jobs of which the planner knows nothing."""
    storage = make_storage()
    tables = storage.tables
    with storage.database.writing() as connection:
        if storage.dialect.name == "postgresql":
            for table in ("jobs", "job_archive"):
                connection.exec_driver_sql(f"ALTER TABLE sloppy_{table} SET (autovacuum_enabled = off)")
        for start in range(0, ROWS, 5_000):
            connection.execute(insert(tables.jobs), [_row(place) for place in range(start, start + 5_000)])
            archived = [_row(place) | _archived(place) for place in range(start, start + 5_000)]
            connection.execute(insert(tables.archive), archived)
            connection.execute(insert(tables.attempts), [_attempt(place) for place in range(start, start + 5_000)])
        connection.execute(insert(tables.batch_members), _members())
        connection.execute(
            insert(tables.queues), [{"name": f"queue{place}", "created_at": START} for place in range(3)]
        )
    return Jobs(storage)


def _analyse(storage: SqlStore) -> None:
    """Let the planner know everything."""
    with storage.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("ANALYZE")


def _reads(jobs: Jobs) -> Iterator[tuple[str, Callable[[], Any]]]:
    admin = jobs.admin
    waits = admin.list_jobs("queued").items[0].id
    second = admin.list_jobs().next_cursor
    yield "first page", admin.list_jobs
    yield "second page", lambda: admin.list_jobs(cursor=second)
    for status in Status:
        yield status.value, lambda status=status: admin.list_jobs(status)
    yield "oldest first", lambda: admin.list_jobs("dead", order="created_at")
    yield "queue", lambda: admin.list_jobs(queue="queue1")
    yield "a name that no job has", lambda: admin.list_jobs("succeeded", name="nobody")
    yield "error code", lambda: admin.list_jobs(error_code="none")
    yield "worker", lambda: admin.list_jobs(worker="worker_1")
    yield "correlation", lambda: admin.list_jobs(correlation_id="correlation5")
    yield "correlation and status", lambda: admin.list_jobs("dead", correlation_id="correlation5")
    yield "key", lambda: admin.list_jobs(idempotency_key="key77")
    yield "schedule", lambda: admin.list_jobs(schedule="recurring_1")
    yield "batch", lambda: admin.list_jobs(batch="batch_1")
    yield "batch and status", lambda: admin.list_jobs("succeeded", batch="batch_1", order="created_at")
    yield "dead of a batch", lambda: admin.list_jobs("dead", batch="batch_1")
    yield "outstanding of a batch", lambda: admin.list_jobs(["queued", "scheduled"], batch="batch_1")
    yield "workflow", lambda: admin.list_jobs(workflow="flow_1")
    yield "workflow and status", lambda: admin.list_jobs(["dead", "queued"], workflow="flow_1", order="created_at")
    yield "workflow and batch", lambda: admin.list_jobs("dead", workflow="flow_1", batch="batch_1")
    yield "by run time", lambda: admin.list_jobs("scheduled", order="run_at")
    yield "by run time backward", lambda: admin.list_jobs(["scheduled", "retrying"], order="-run_at")
    yield "created", lambda: admin.list_jobs("succeeded", created_from=START, created_to=START + timedelta(seconds=99))
    yield "run", lambda: admin.list_jobs("scheduled", run_from=START + timedelta(seconds=99), order="run_at")
    yield "bulk by id", lambda: admin.bulk("retry", {"ids": [_row(place)["id"] for place in range(300)]}, dry_run=True)
    yield "bulk by cause", lambda: admin.bulk("retry", {"error_type": "Error1", "error_frame": None}, dry_run=True)
    named = {"error_type": "Error1", "error_frame": "frame1", "name": "name1"}
    yield "bulk by cause of a name", lambda: admin.bulk("retry", named, dry_run=True)
    yield "bulk without cause", lambda: admin.bulk("retry", {"error_type": None, "error_frame": None}, dry_run=True)
    yield "job", lambda: (admin.get_job(waits), admin.attempts(waits), admin.events(waits), admin.logs(waits))
    yield "archive", admin.search_archive
    yield "archive by id", lambda: admin.search_archive(_row(7)["id"])
    yield "archive by key", lambda: admin.search_archive(key="key77")
    yield "archive by name", lambda: admin.search_archive(name="name1", created_from=START + timedelta(seconds=99))
    yield "archive by queue", lambda: admin.search_archive(queue="queue1", created_to=START + timedelta(seconds=99))
    yield "archived job", lambda: admin.get_archived(_row(7)["id"])
    yield "explain", lambda: admin.explain(waits)
    yield "dead groups", admin.dead_groups
    yield "overview", admin.overview
    yield "queues", admin.list_queues
    yield "workers, locks, audit", lambda: (admin.list_workers(), admin.list_locks(), admin.audit(actor="ada"))
    yield "audit by action and time", lambda: admin.audit(action="retry", created_from=START)
    storage = jobs.storage
    yield (
        "what workers run",
        lambda: storage.recent_runs.running_jobs(["worker_1"], ("queue1",), 3),
    )
    yield (
        "last runs",
        lambda: storage.recent_runs.last_runs(["recurring_1", "r"], 12),
    )
    yield "stats", lambda: admin.stats(2_000)
    yield "names", admin.known_names
    yield "job type", lambda: admin.get_job_type("name1")
    yield "job type of some queues", lambda: admin.get_job_type("name1", minutes=2_000, scope=["queue1"])


def _statements(storage: SqlStore, read: Callable[[], Any]) -> list[tuple[str, Any]]:
    seen: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, values: Any, *_rest: Any) -> None:
        seen.append((statement, values))

    event.listen(storage.engine, "before_cursor_execute", note)
    try:
        read()
    finally:
        event.remove(storage.engine, "before_cursor_execute", note)
    return [(statement, values) for statement, values in seen if "FROM" in statement]


def _sqlite_plan(connection: Connection, statement: str, values: Any) -> list[str]:
    rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
    return [row[3] for row in rows if re.fullmatch(r"SCAN sloppy_job(s|_attempts)( AS \w+)?", row[3])]


def _postgres_plan(connection: Connection, statement: str, values: Any) -> list[str]:
    rows = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {statement}", values)
    return [line for (line,) in rows if re.search(r"Seq Scan|Bitmap", line) or _too_many(line)]


def _too_many(line: str) -> bool:
    numbers = re.findall(r"(?:actual rows=|Rows Removed by Filter: )(\d+)", line)
    return any(int(number) > SCAN_LIMIT + 1 for number in numbers)


@pytest.mark.slow
def test_no_read_scans_a_table_or_looks_at_more_than_it_may(filled: Jobs) -> None:
    without_statistics = _wrong_plans(filled)
    _analyse(filled.storage)
    assert (without_statistics, _wrong_plans(filled)) == ({}, {})


def _wrong_plans(jobs: Jobs) -> dict[str, list[str]]:
    """The reads that scan a table or look at more than they may, and the lines of their plans that say so."""
    storage = jobs.storage
    wrong: dict[str, list[str]] = {}
    for name, read in _reads(jobs):
        for statement, values in _statements(storage, read):
            with storage.engine.connect() as connection:
                storage.database.bounded(connection)
                plan = _sqlite_plan if storage.dialect.name == "sqlite" else _postgres_plan
                wrong.setdefault(name, []).extend(plan(connection, statement, values))
    return {name: lines for name, lines in wrong.items() if lines}
