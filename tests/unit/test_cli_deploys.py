"""``sloppyjobs mark-deploy``, ``deploys`` and ``worker --app-version``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sloppyjobs.cli import main
from sloppyjobs.cli.target import Target
from sloppyjobs.errors import InvalidOption
from sloppyjobs.jobs import Jobs
from sloppyjobs.testing.conformance import admin_scenes as scene

WORKER = "worker_01kmjmf2x8e0v5t7q3r9s1wc73"


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    made = Jobs(f"sqlite:///{tmp_path / 'jobs.db'}")
    made.init()
    made.define("greet", lambda ctx, payload: None)
    return made


def _run(jobs: Jobs, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, arguments, obj=Target(given=jobs))
    assert result.exit_code == code, result.output
    return result


def test_a_deploy_is_marked_once(jobs: Jobs) -> None:
    said = _run(jobs, "mark-deploy", "119", "--note", "new fonts", "--actor", "ada", "--reason", "release").stdout
    assert said == "marked the deploy of 119\n"
    assert "119 is already marked" in _run(jobs, "mark-deploy", "119").stdout
    [made] = jobs.admin.list_deploys()
    assert (made.version, made.note, made.actor) == ("119", "new fonts", "ada")
    assert json.loads(_run(jobs, "mark-deploy", "119", "--json").stdout)["existing"] is True


def test_deploys_are_listed(jobs: Jobs) -> None:
    assert "no deploys" in _run(jobs, "deploys").stdout.lower()
    jobs.admin.mark_deploy("118", "new fonts", actor="ada")
    scene.live_worker(jobs, WORKER, app_version="119")
    shown = _run(jobs, "deploys").stdout
    for told in ("118", "119", "ada", WORKER, "new fonts"):
        assert told in shown
    assert f"worker {WORKER}" not in shown
    listed = json.loads(_run(jobs, "deploys", "--json").stdout)["items"]
    assert [(one["version"], one["worker_id"]) for one in listed] == [("119", WORKER), ("118", None)]


@pytest.mark.parametrize("version", ["", " ", "v" * 129, "a\nb", "a\x1b[2Jb", "a\udcffb"], ids=repr)
def test_a_version_that_cannot_be_shown_is_refused(jobs: Jobs, version: str) -> None:
    said = _run(jobs, "mark-deploy", version, code=1).output
    assert "version" in said
    assert "1 to 128 characters" in said
    assert "\x1b" not in said
    assert list(jobs.admin.list_deploys()) == []


def test_a_worker_shows_the_version_of_its_application(jobs: Jobs) -> None:
    scene.live_worker(jobs, WORKER, app_version="shop 119")
    assert "application: shop 119" in _run(jobs, "workers", "show", WORKER).stdout


# Where a worker's version comes from


def test_a_worker_is_told_its_version_or_finds_it(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    assert jobs.create_worker().info().app_version is None
    monkeypatch.setenv("SLOPPYJOBS_APP_VERSION", "from the environment")
    assert jobs.create_worker().info().app_version == "from the environment"
    named = Jobs(jobs.storage, app_version="from the code", application="shop")
    assert named.create_worker().info().app_version == "from the code"
    assert named.create_worker().info().application == "shop"
    assert named.create_worker(app_version="from the command").info().app_version == "from the command"
    monkeypatch.setenv("SLOPPYJOBS_APP_VERSION", "")
    assert jobs.create_worker().info().app_version is None


def test_a_version_that_cannot_be_shown_is_refused_wherever_it_comes_from(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidOption, match=r"app_version=.*1 to 128"):
        Jobs(jobs.storage, app_version="")
    with pytest.raises(InvalidOption, match=r"app_version=.*1 to 128"):
        jobs.create_worker(app_version="a\nb")
    monkeypatch.setenv("SLOPPYJOBS_APP_VERSION", "v" * 129)
    with pytest.raises(InvalidOption, match=r"SLOPPYJOBS_APP_VERSION=.*1 to 128"):
        jobs.create_worker()
    assert "app_version" in _run(jobs, "worker", "--app-version", "a\tb", code=1).output


def test_a_worker_that_runs_marks_its_version(jobs: Jobs) -> None:
    for version in ("119", "119", "120"):
        worker = jobs.create_worker(app_version=version)
        worker.start()
        worker.stop()
    assert [one.version for one in jobs.admin.list_deploys()] == ["120", "119"]
