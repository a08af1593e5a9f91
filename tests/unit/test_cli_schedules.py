"""``recurring create`` and ``recurring edit``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sloppyjobs import storage
from sloppyjobs.cli import main
from sloppyjobs.cli.target import Target
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock

NOON = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
SECRET = "canary-5e3b"

Run = Callable[..., Result]


@pytest.fixture
def jobs(ready_sqlite_url: str) -> Iterator[Jobs]:
    kept = storage.sqlite(ready_sqlite_url, clock=FakeClock(NOON))
    made = Jobs(kept)
    made.define("greet", lambda _ctx, _payload: "hello", queue="post", priority=2)
    yield made
    kept.close()


@pytest.fixture
def run(jobs: Jobs) -> Run:
    def invoke(*arguments: str, code: int = 0, input: str | None = None) -> Result:
        given = ("recurring", *arguments)
        result = CliRunner().invoke(main, given, prog_name="sloppyjobs", obj=Target(given=jobs), input=input)
        assert result.exit_code == code, result.output + repr(result.exception)
        return result

    return invoke


def test_a_schedule_is_made_of_every_kind(jobs: Jobs, run: Run, tmp_path: Path) -> None:
    said = run("create", "nightly", "greet", "--cron", "0 2 * * *", "--timezone", "Europe/Paris", "--actor", "ada")
    assert said.stdout == "schedule nightly is on; it fires next in 13h\n"
    (tmp_path / "p.json").write_text(json.dumps({"token": SECRET}))
    options = ("--queue", "slow", "--priority", "7", "--misfire", "catch-up-limited", "--catch-up-limit", "3")
    made = run("create", "often", "greet", "--every", "5m", "--payload", f"@{tmp_path}/p.json", *options, "--json")
    found: dict[str, Any] = json.loads(made.stdout)
    assert SECRET not in made.stdout
    assert SECRET in jobs.storage.schedules.get("often").payload
    assert (found["every"], found["queue"], found["priority"]) == (300, "slow", 7)
    assert (found["misfire"], found["catch_up_limit"]) == ("catch-up-limited", 3)
    run("create", "once", "greet", "--at", "2h", "--payload", "-", "--paused", input="[1]")
    once = jobs.storage.schedules.get("once")
    assert (once.at, once.payload, once.paused) == (NOON + timedelta(hours=2), "[1]", True)
    entry = jobs.admin.audit("nightly")[0]
    assert (entry.action, entry.actor) == ("create_recurring", "ada")


def test_what_is_not_given_stays_as_it_is(jobs: Jobs, run: Run) -> None:
    run("create", "s", "greet", "--every", "5m", "--payload", '{"a": 1}', "--queue", "slow", "--priority", "7")
    edited = json.loads(run("edit", "s", "--cron", "0 * * * *", "--reason", "calmer", "--json").stdout)
    assert (edited["cron"], edited["every"], edited["queue"]) == ("0 * * * *", None, "slow")
    assert jobs.storage.schedules.get("s").payload == '{"a":1}'
    assert (jobs.admin.audit("s")[0].action, jobs.admin.audit("s")[0].reason) == ("edit_recurring", "calmer")
    run("edit", "s", "--no-queue", "--no-priority", "--payload", "null")
    stored = jobs.storage.schedules.get("s")
    assert (stored.queue, stored.priority, stored.payload, stored.cron) == (None, None, "null", "0 * * * *")


def test_what_cannot_work_is_refused_in_a_line(jobs: Jobs, run: Run) -> None:
    run("create", "s", "greet", "--every", "5m")
    assert "already" in run("create", "s", "greet", "--every", "5m", code=1).stderr
    assert "no job is defined as 'nobody'" in run("create", "x", "nobody", "--every", "5m", code=1).stderr
    assert "RECURRING_INVALID_CRON" in run("create", "x", "greet", "--cron", "61 * * * *", code=1).stderr
    assert "exactly one of" in run("create", "x", "greet", code=1).stderr
    assert "is not JSON" in run("create", "x", "greet", "--every", "5m", "--payload", "{", code=2).stderr
    assert "say what changes" in run("edit", "s", code=2).stderr
    assert "exclude each other" in run("edit", "s", "--queue", "q", "--no-queue", code=2).stderr
    assert "no schedule is named 'x'" in run("edit", "x", "--every", "9", code=1).stderr
    jobs.declare_recurring("code", "greet", every=60)
    jobs.schedules.sync()
    assert "declared in code" in run("edit", "code", "--every", "9", code=1).stderr
    assert [one.name for one in jobs.admin.list_recurring()] == ["code", "s"]


def test_without_the_application_nothing_is_known_of_its_jobs(ready_sqlite_url: str) -> None:
    given = ["--database", ready_sqlite_url, "recurring", "create", "x", "greet", "--every", "5m"]
    result = CliRunner().invoke(main, given, prog_name="sloppyjobs")
    assert result.exit_code == 2
    assert "--app module:jobs" in result.stderr
