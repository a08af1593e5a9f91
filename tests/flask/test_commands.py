"""``flask jobs …`` mirrors the command line, on the jobs of the application."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm_start
from flask import Flask

from sloppyjobs import Jobs
from sloppyjobs.cli.root import COMMANDS
from sloppyjobs.flask import SloppyJobs
from sloppyjobs.flask.commands import AppTarget

Make = Callable[..., Flask]

APPLICATION = """
from flask import Flask, current_app
from flask_sqlalchemy import SQLAlchemy
from sloppyjobs.flask import SloppyJobs

db, jobs = SQLAlchemy(), SloppyJobs()

@jobs.define("say")
def say(ctx, payload):
    return f"{payload} from {current_app.import_name}"

def create_app():
    app = Flask("shop")
    app.config["SQLALCHEMY_DATABASE_URI"] = "sqlite:///FILE"
    db.init_app(app)
    jobs.init_app(app, db)
    return app
"""


def test_the_commands_work_on_the_database_of_the_application(jobs: SloppyJobs, make_app: Make) -> None:
    jobs.declare("say")
    app = make_app(init=False)
    runner = app.test_cli_runner()
    missing = runner.invoke(args=["jobs", "list"])
    assert missing.exit_code == 1
    assert "create it with `flask jobs init`" in missing.output
    assert runner.invoke(args=["jobs", "init"]).exit_code == 0
    with app.app_context():
        job = jobs.enqueue("say")
    listed = runner.invoke(args=["jobs", "list", "--json"])
    assert [item["id"] for item in json.loads(listed.output)["items"]] == [job.id]
    assert runner.invoke(args=["jobs", "cancel", job.id, "--actor", "ada"]).exit_code == 0
    assert jobs.get(job.id).status == "cancelled"
    refused = runner.invoke(args=["jobs", "show", "job_nowhere"])
    assert refused.exit_code == 1
    assert "SLOPPY_E_JOBS_UNKNOWN_JOB" in refused.output


def test_every_command_that_makes_sense_in_an_application_is_there(jobs: SloppyJobs, make_app: Make) -> None:
    runner = make_app().test_cli_runner()
    shown = runner.invoke(args=["jobs", "--help"]).output
    for name in COMMANDS:
        left_out = name in ("completion", "demo", "web")
        assert (f"\n  {name} " not in shown) == left_out, name
        assert (runner.invoke(args=["jobs", name, "--help"]).exit_code == 2) == left_out, name


def test_a_worker_without_handlers_is_refused(jobs: SloppyJobs, make_app: Make) -> None:
    jobs.declare("say")
    refused = make_app("shop").test_cli_runner().invoke(args=["jobs", "worker"])
    assert (refused.exit_code, "shop defines no job with a handler" in refused.output) == (2, True)


def test_a_command_of_that_name_in_the_application_stays(jobs: SloppyJobs) -> None:
    app = Flask("shop")
    app.cli.command("jobs")(lambda: None)
    jobs.init_app(app)
    assert app.cli.commands["jobs"].callback is not None
    assert type(app.cli.commands["jobs"]).__name__ == "Command"


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_a_worker_of_the_flask_command_runs_jobs_in_the_application(tmp_path: Path, processes: int) -> None:
    database = tmp_path / "shop.db"
    (tmp_path / "shop_web.py").write_text(APPLICATION.replace("FILE", str(database)))
    flask = [sys.executable, "-m", "flask", "--app", "shop_web", "jobs"]
    settings: dict[str, Any] = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(tmp_path)}}
    warm_start.run([*flask, "init"], check=True, capture_output=True, **settings)
    producer = Jobs(f"sqlite:///{database}")
    producer.declare("say")
    job = producer.enqueue("say", "hello")
    worker = warm_start.Popen([*flask, "worker", "--processes", str(processes)], **settings)
    try:
        assert producer.wait(job.id, timeout=60).result == "hello from shop"
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
        producer.storage.close()


def test_hints_name_the_command_that_was_typed(jobs: SloppyJobs, make_app: Make) -> None:
    jobs.declare("say")
    app = make_app()
    with app.app_context():
        jobs.enqueue("say")
    runner = app.test_cli_runner()
    told = runner.invoke(args=["jobs", "doctor"]).output
    assert "start `flask jobs worker` for these queues" in told
    assert "`sloppyjobs" not in told + json.dumps(runner.invoke(args=["jobs", "doctor", "--json"]).output)
    assert "start one with `flask jobs worker`" in runner.invoke(args=["jobs", "workers"]).output


def test_errors_name_the_command_that_was_typed() -> None:
    error = "upgrade it with `sloppyjobs --database sqlite:///shop.db init`, or see `sloppyjobs --app a:b doctor`"
    assert AppTarget().as_typed(error) == "upgrade it with `flask jobs init`, or see `flask jobs doctor`"
    error = "create them with `sloppyjobs --database sqlite:///shop.db init`, `flask jobs init` or jobs.init()"
    assert AppTarget().as_typed(error) == "create them with `flask jobs init` or jobs.init()"
    assert AppTarget().as_typed("the tables of sloppyjobs") == "the tables of sloppyjobs"
