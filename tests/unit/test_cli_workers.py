"""``sloppyjobs workers``: which there are, what each runs, and what can be asked of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sloppyjobs.cli import main
from sloppyjobs.cli.target import Target
from sloppyjobs.ids import shortened
from sloppyjobs.jobs import Jobs
from sloppyjobs.testing.conformance import admin_scenes as scene

ID = "worker_01kmjmf2x8e0v5t7q3r9s1wc73"


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    made = Jobs(f"sqlite:///{tmp_path / 'jobs.db'}")
    made.init()
    scene.live_worker(made, ID, queues=("mails",), done=3, failed=1, memory=412_000_000)
    return made


def _run(jobs: Jobs, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["workers", *arguments], obj=Target(given=jobs))
    assert result.exit_code == code, result.output
    return result


def _ask(jobs: Jobs, *arguments: str) -> Any:
    return json.loads(_run(jobs, *arguments, "--json").stdout)


def test_without_a_command_workers_are_listed(jobs: Jobs) -> None:
    assert ID in _run(jobs).stdout
    assert [one["id"] for one in _ask(jobs)["items"]] == [ID]


def test_one_is_shown_by_its_id_and_as_it_is_printed(jobs: Jobs) -> None:
    running = scene.running(jobs, ID, queue="mails")
    told = _run(jobs, "show", ID).stdout
    for part in ("host:1: running", "queues: mails", "1 of 4 in use, 3 done, 1 failed attempts, 412 MB", running.id):
        assert part in told, told
    assert _ask(jobs, "show", shortened(ID))["jobs"][0]["id"] == running.id


def test_one_is_quieted_resumed_and_stopped(jobs: Jobs) -> None:
    assert f"{ID} takes no new jobs within 5 s" in _run(jobs, "quiet", shortened(ID), "--reason", "deploy").stdout
    assert "running, told to be quiet" in _run(jobs, "show", ID).stdout
    assert _ask(jobs, "resume", ID)["wanted"] is None
    assert _ask(jobs, "stop", ID, "--actor", "ada")["wanted"] == "stop"
    assert "is stopping [SLOPPY_E_JOBS_TRANSITION_INVALID]" in _run(jobs, "resume", ID, code=1).stderr
    entries = [(entry.action, entry.actor, entry.reason) for entry in jobs.admin.audit(ID)]
    assert (entries[0][:2], entries[2][::2]) == (("stop_worker", "ada"), ("quiet_worker", "deploy"))


def test_one_that_nobody_knows_is_refused(jobs: Jobs) -> None:
    said = _run(jobs, "quiet", "nobody", code=1).stderr
    assert "no worker has the id nobody [SLOPPY_E_JOBS_UNKNOWN_WORKER]" in said
