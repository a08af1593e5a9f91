"""The version of a Flask application."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from sloppyjobs import InvalidOption
from sloppyjobs.flask import SloppyJobs


def _app(jobs: SloppyJobs, path: Path, **config: Any) -> Flask:
    app = Flask("shop")
    app.config.update(SLOPPYJOBS_DATABASE_URL=f"sqlite:///{path}", **config)
    jobs.init_app(app)
    return app


@pytest.mark.parametrize(
    ("given", "configured", "found"),
    [(None, "119", "119"), ("118", "119", "118"), (None, None, None), (None, "", None)],
)
def test_workers_know_the_version_of_the_application(
    tmp_path: Path, given: str | None, configured: str | None, found: str | None
) -> None:
    jobs = SloppyJobs(app_version=given)
    app = _app(jobs, tmp_path / "jobs.db", SLOPPYJOBS_APP_VERSION=configured)
    with app.app_context():
        assert jobs.create_worker().info().app_version == found


@pytest.mark.parametrize("version", ["v" * 129, "a\nb", 119])
def test_a_version_that_cannot_be_shown_is_refused_when_the_application_is_made(tmp_path: Path, version: Any) -> None:
    with pytest.raises(InvalidOption, match="SLOPPYJOBS_APP_VERSION"):
        _app(SloppyJobs(), tmp_path / "jobs.db", SLOPPYJOBS_APP_VERSION=version)


def test_a_deploy_is_marked_by_flask_jobs(tmp_path: Path) -> None:
    jobs = SloppyJobs()
    app = _app(jobs, tmp_path / "jobs.db")
    with app.app_context():
        jobs.init()
    assert app.test_cli_runner().invoke(args=["jobs", "mark-deploy", "119"]).output == "marked the deploy of 119\n"
    assert "119" in app.test_cli_runner().invoke(args=["jobs", "deploys"]).output
