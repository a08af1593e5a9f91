"""A running worker, the pages and the command line, when somebody has damaged a row."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import text

from sloppyjobs import Jobs, Worker
from sloppyjobs.cli import main
from sloppyjobs.cli.target import Target
from sloppyjobs.testing.conformance.sql_damage import UNREADABLE, harm, kinds_of

sys.path.insert(0, str(Path(__file__).parents[1] / "web"))
from hosts import Client, make_app

Start = Callable[..., Worker]
Eventually = Callable[..., Any]


def test_one_damaged_row_among_twenty_fails_alone_and_the_worker_goes_on(jobs: Jobs, start: Start) -> None:
    jobs.define("note", lambda ctx, payload: payload["n"])
    enqueued = jobs.enqueue_many([("note", {"n": n}) for n in range(20)])
    harm(jobs, enqueued[7].id, "metadata = '5'")
    start(concurrency=4)
    ended = [jobs.wait(job.id, timeout=60) for job in enqueued]
    assert (ended[7].status, ended[7].error_code) == ("dead", UNREADABLE)
    assert [job.result for job in ended if job is not ended[7]] == [n for n in range(20) if n != 7]
    assert {job.attempt_count for job in ended} == {1}
    assert jobs.wait(jobs.enqueue("note", {"n": 99}).id, timeout=60).result == 99


def test_a_worker_survives_every_kind_of_damage_at_once(jobs: Jobs, start: Start) -> None:
    jobs.define("note", lambda ctx, payload: payload["n"], timeout=30)
    kinds = kinds_of(jobs)
    enqueued = jobs.enqueue_many([("note", {"n": n}) for n in range(3 * len(kinds))])
    for job, change in zip(enqueued[::3], kinds.values(), strict=True):
        harm(jobs, job.id, change)
    start(concurrency=2)
    ended = [jobs.wait(job.id, timeout=60) for job in enqueued]
    assert {job.error_code for job in ended[::3]} == {UNREADABLE}
    assert [job.result for n, job in enumerate(ended) if n % 3] == [n for n in range(len(ended)) if n % 3]


@pytest.mark.parametrize("column", ["payload", "cron", "timezone", "job_defaults", "priority", "missed"])
def test_a_schedule_whose_row_holds_no_text_stops_no_other(jobs: Jobs, column: str) -> None:
    if jobs.storage.dialect.name != "sqlite":
        pytest.skip("every other database takes nothing but text")
    jobs.define("sync", lambda ctx, payload: None)
    for name in ("broken", "fine"):
        jobs.recurring(name, "sync", cron="* * * * *")
    with jobs.storage.engine.begin() as connection:
        connection.execute(text("UPDATE sloppy_recurring_jobs SET next_run_at = '2020-01-01T00:00:00.000000Z'"))
        change = f"UPDATE sloppy_recurring_jobs SET {column} = CAST(x'ff' AS TEXT) WHERE name = 'broken'"
        connection.execute(text(change))
    assert len(jobs.tick_recurring()) == 1
    with jobs.storage.engine.connect() as connection:
        found = connection.execute(text("SELECT last_error FROM sloppy_recurring_jobs ORDER BY name")).scalars().all()
    assert "Could not decode" in found[0]
    assert found[1] is None


@pytest.mark.parametrize("instant", ["infinity", "-infinity"])
def test_a_schedule_with_an_infinite_cursor_stops_no_other(jobs: Jobs, start: Start, instant: str) -> None:
    if jobs.storage.dialect.name == "sqlite":
        instant = {"infinity": "soon", "-infinity": ""}[instant]
    jobs.define("sync", lambda ctx, payload: None)
    for name in ("broken", "fine"):
        jobs.recurring(name, "sync", every=3600)
    table = jobs.storage.tables.recurring.fullname
    with jobs.storage.engine.begin() as connection:
        connection.execute(text(f"UPDATE {table} SET next_run_at = :at WHERE name = 'broken'"), {"at": instant})
        past = "2020-01-01T00:00:00.000000Z"
        connection.execute(text(f"UPDATE {table} SET next_run_at = :at WHERE name = 'fine'"), {"at": past})
    [fired] = jobs.tick_recurring()
    assert fired.schedule_id == jobs.schedules.get("fine").id
    assert {one.name for one in jobs.admin.list_recurring()} == {"broken", "fine"}
    assert (jobs.storage.firing.next_in() or 1) > 0


def test_the_pages_and_commands_show_what_can_be_shown_of_a_damaged_row(jobs: Jobs) -> None:
    jobs.define("note", lambda ctx, payload: None)
    kinds = kinds_of(jobs) | {"status, unknown": "status = 'zombie'"}
    for kind, change in kinds.items():
        job = jobs.enqueue("note", {"n": 1}, correlation_id="one")
        harm(jobs, job.id, change)
        shown = CliRunner().invoke(main, ["show", job.id], obj=Target(given=jobs))
        assert (kind, shown.exit_code) == (kind, 0), shown.output
        page = _client(jobs).get(f"/jobs/{job.id}")
        assert (kind, page.status_code) == (kind, 200)
    damaged = jobs.enqueue("note")
    harm(jobs, damaged.id, "metadata = '5'")
    assert "row is damaged" in _client(jobs).get(f"/jobs/{damaged.id}").text
    assert "metadata is not a JSON object" in _client(jobs).get(f"/jobs/{damaged.id}").text
    shown = CliRunner().invoke(main, ["show", damaged.id], obj=Target(given=jobs))
    assert "metadata is not a JSON object" in shown.output
    for path in ("/jobs", "/jobs?status=queued", "/", "/queues", "/queues/default", "/dead", "/workers"):
        assert (path, _client(jobs).get(path).status_code) == (path, 200)
    listed = CliRunner().invoke(main, ["list", "--json"], obj=Target(given=jobs))
    assert len(json.loads(listed.stdout)["items"]) >= len(kinds)
    jobs.create_worker(recurring=False).run_once()
    assert _client(jobs).get("/dead").status_code == 200
    assert _client(jobs).get("/jobs?status=dead").status_code == 200


def _client(jobs: Jobs) -> Client:
    return Client(make_app(jobs).test_client())
