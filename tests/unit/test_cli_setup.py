"""The command line from nothing: databases and applications that are there or not, and workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
import warm_start
from click.testing import CliRunner, Result

from sloppyjobs.cli import main
from sloppyjobs.cli.root import COMMANDS

SECRET = "canary-5e3b"


def _plain(*arguments: str, env: dict[str, str] | None = None, code: int = 0) -> Result:
    result = CliRunner().invoke(main, arguments, prog_name="sloppyjobs", env=env)
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


def test_init_makes_the_tables_and_can_be_repeated(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    for _ in range(2):
        assert "schema version" in _plain("--database", url, "init").stdout
    assert json.loads(_plain("status", "--json", env={"SLOPPYJOBS_DATABASE_URL": url}).stdout)["live_workers"] == 0


def test_a_missing_database_is_named_and_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "create it with `sloppyjobs init`" in _plain("list", code=1).stderr
    said = _plain("--database", "sqlite:///other.db", "status", code=1).stderr
    assert "create it with `sloppyjobs --database sqlite:///other.db init`" in said
    assert "Traceback" not in said and list(tmp_path.iterdir()) == []


def test_a_database_without_tables_says_how_to_make_them(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    said = _plain("--database", f"sqlite:///{tmp_path}/empty.db", "list", code=1).stderr
    assert "init`" in said and "SCHEMA_VERSION_MISMATCH" in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "text", "code"),
    [
        (["--database", "nonsense"], "is not a database URL", 2),
        (["--database", "oracle://x/y"], "is not supported", 2),
        (
            ["--database", "postgresql://u:hunter2@127.0.0.1:1/x"],
            "cannot use postgresql+psycopg://u:***@127.0.0.1:1/x",
            1,
        ),
        (["--app", "nowhere:jobs"], "there is no module 'nowhere'", 2),
        (["--app", "nowhere"], "has no colon", 2),
        (["--app", "json:missing"], "json has no 'missing'", 2),
        (["--app", "json:__doc__"], "is a str and not a Jobs", 2),
        (["--app", "json:loads"], "cannot be called without arguments", 2),
        (["--app", "json:x", "--database", "sqlite://"], "exclude each other", 2),
    ],
)
def test_a_target_that_is_not_there_is_explained(options: list[str], text: str, code: int) -> None:
    said = _plain(*options, "list", code=code).stderr
    assert text in " ".join(said.split())
    assert "Traceback" not in said and "hunter2" not in said


def test_completion_knows_commands_and_statuses() -> None:
    env = {
        **os.environ,
        "_SLOPPYJOBS_COMPLETE": "bash_complete",
        "COMP_WORDS": "sloppyjobs list --status d",
        "COMP_CWORD": "3",
    }
    script = [sys.executable, "-c", "from sloppyjobs.cli import main; main(prog_name='sloppyjobs')"]
    printed = subprocess.run(script, check=False, env=env, capture_output=True, text=True).stdout
    assert "dead" in printed and "deleted" in printed


def test_a_missing_driver_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    said = _plain("--database", "postgresql+psycopg2://127.0.0.1/x", "list", code=1).stderr
    assert "the driver psycopg2, which is not installed" in said and "sloppyjobs[postgres]" in said


def test_the_pages_are_not_served_to_everybody(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USERNAME", "PASSWORD", "INSECURE"):
        monkeypatch.delenv(f"SLOPPYJOBS_WEBUI_{name}", raising=False)
    _plain("--database", sqlite_url, "init")
    assert "SLOPPYJOBS_WEBUI_PASSWORD" in _plain("--database", sqlite_url, "web", code=1).stderr


def test_an_installation_without_pages_says_so(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sloppyjobs.cli.web.find_spec", lambda _name: None)
    assert "has no admin pages" in _plain("--database", sqlite_url, "web", code=1).stderr


# Applications and workers


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A module of an application in the current directory."""
    (tmp_path / "shop_app.py").write_text(
        "from sloppyjobs import Jobs\n"
        "jobs = Jobs('sqlite:///shop.db')\n"
        "empty = Jobs('sqlite:///shop.db')\n"
        "@jobs.define('greet', redact=('iban',))\n"
        "def greet(ctx, payload): return payload['iban']\n"
        "def make_jobs(): return jobs\n"
        "class App: extensions = {'sloppyjobs': jobs}\n"
        "def create_app(): return App()\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield "shop_app"
    sys.modules.pop("shop_app", None)


@pytest.mark.parametrize("attribute", ["jobs", "make_jobs", "create_app", "App"])
def test_an_application_is_found_in_the_current_directory(application: str, attribute: str) -> None:
    assert "schema version" in _plain("--app", f"{application}:{attribute}", "init").stdout


def test_hints_name_the_application_that_was_typed(application: str) -> None:
    _plain("--app", f"{application}:jobs", "init")
    told = " ".join(_plain("--app", f"{application}:jobs", "workers").output.split())
    assert "start one with `sloppyjobs --app shop_app:jobs worker`" in told


def test_an_application_hides_its_own_secret_keys(application: str) -> None:
    _plain("--app", "shop_app:jobs", "init")
    job = sys.modules["shop_app"].jobs.enqueue("greet", {"iban": SECRET})
    assert SECRET not in _plain("show", job.id, env={"SLOPPYJOBS_APP": "shop_app:jobs"}).stdout


def test_a_worker_without_an_application_is_refused(tmp_path: Path, application: str) -> None:
    assert "a worker needs the application" in " ".join(_plain("worker", code=2).stderr.split())
    _plain("--app", "shop_app:jobs", "init")
    assert "defines no job with a handler" in _plain("--app", "shop_app:empty", "worker", code=2).stderr


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_worker_runs_jobs_until_it_is_told_to_stop(application: str, processes: str, tmp_path: Path) -> None:
    _plain("--app", "shop_app:jobs", "init")
    jobs = sys.modules["shop_app"].jobs
    made = [jobs.enqueue("greet", {"iban": "x"}).id for _ in range(3)]
    command = [sys.executable, "-m", "sloppyjobs.cli", "--app", "shop_app:jobs", "worker", "--processes", processes]
    with warm_start.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as worker:
        try:
            assert {jobs.wait(id, 30).status for id in made} == {"succeeded"}
        finally:
            worker.terminate()
            said = worker.communicate(timeout=60)[1]
    assert worker.returncode == 0, said
    assert "has stopped" in said
    assert {worker.liveness for worker in jobs.admin.list_workers()} == {"stopped"}


def test_a_worker_until_idle_runs_what_is_due_and_stops(application: str) -> None:
    _plain("--app", "shop_app:jobs", "init")
    jobs = sys.modules["shop_app"].jobs
    due, later = jobs.enqueue("greet", {"iban": "x"}), jobs.enqueue("greet", {"iban": "x"}, delay=3600)
    said = _plain("--app", "shop_app:jobs", "worker", "--until-idle").stdout
    assert said == "attempts made: 1 (1 succeeded, 0 retrying, 0 dead); nothing else is due\n"
    assert (jobs.get(due.id).status, jobs.get(later.id).status) == ("succeeded", "scheduled")
    assert "one process is enough" in _plain(
        "--app", "shop_app:jobs", "worker", "--until-idle", "--processes", "2", code=2
    ).stderr.replace("\n", " ")


def test_a_worker_until_idle_sums_up_how_the_attempts_ended(tmp_path: Path) -> None:
    (tmp_path / "sums_app.py").write_text(
        "from sloppyjobs import Jobs, Retry, Snooze\n"
        f"jobs = Jobs('sqlite:///{tmp_path}/sums.db')\n"
        "jobs.storage.init()\n"
        "once, again = Retry(max_attempts=1), Retry(max_attempts=2, initial=60)\n"
        "jobs.define('well', lambda ctx, payload: payload and ctx.enqueue('well', payload - 1) and None)\n"
        "jobs.define('later', lambda ctx, payload: Snooze(60))\n"
        "jobs.define('dies', lambda ctx, payload: 1 / 0, retry=once)\n"
        "jobs.define('fails', lambda ctx, payload: 1 / 0, retry=again)\n"
        "jobs.enqueue_many([('well', 2), ('later', None), ('dies', None), ('fails', None)])\n"
    )
    command = [sys.executable, "-m", "sloppyjobs.cli", "--app", "sums_app:jobs", "worker", "--until-idle"]
    ran = warm_start.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == "attempts made: 6 (3 succeeded, 1 retrying, 1 dead, 1 snoozed); nothing else is due\n"
    assert "WARNING sloppyjobs.attempts: job job_" in ran.stderr
    assert "(fails) failed in attempt 1 of 2, next try in" in ran.stderr
    assert "(dies) is dead: it failed in attempt 1 of 1: ZeroDivisionError: division by zero\n  Traceback" in ran.stderr


def test_a_lease_shorter_than_two_heartbeats_is_refused(application: str) -> None:
    _plain("--app", "shop_app:jobs", "init")
    options = ["worker", "--lease", "4", "--heartbeat", "3"]
    assert "heartbeat=3.0" in _plain("--app", "shop_app:jobs", *options, code=1).stderr


# Documentation


def test_the_documentation_lists_every_command_and_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None and f"## {name}\n" in page
        below = command.commands.values() if isinstance(command, click.Group) else ()
        for one in (command, *below):
            for option in one.params:
                if isinstance(option, click.Option):
                    assert option.opts[0] in page, f"{name} {option.opts[0]}: run python -m sloppyjobs.cli.document"


def test_init_makes_no_folder_for_a_mistyped_path(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/mistyped/jobs.db"
    for command in (["init"], ["list"], ["status"]):
        result = CliRunner().invoke(main, ["--database", url, *command])
        assert result.exit_code != 0
        assert "Traceback" not in result.output
        assert str(tmp_path / "mistyped") in result.output.replace("\n", "").replace("│", "").replace(" ", "")
    assert list(tmp_path.iterdir()) == []
