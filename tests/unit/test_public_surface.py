"""What an application sees of ``Jobs``: a new public name is added here on purpose."""

from __future__ import annotations

from flask import Flask

from sloppyjobs import Jobs
from sloppyjobs.flask import SloppyJobs

JOBS = {
    *("admin", "app_version", "definitions", "init", "retention", "schedules", "storage"),
    *("declare", "define", "middleware", "on_dead", "on_retry", "upcast"),
    *("chain", "enqueue", "enqueue_at", "enqueue_delayed", "enqueue_many", "get", "replace", "wait", "workflow"),
    *("batch", "get_batch", "open_batch", "open_batch_async"),
    *("enqueue_async", "enqueue_many_async", "wait_async"),
    *("alerts", "declare_alert"),
    *("declare_limit", "declared_limits", "limit"),
    *("declare_queue", "declared_queues"),
    *("signal", "signal_async"),
    *("declare_recurring", "fires", "recurring", "tick_recurring"),
    *("claim", "complete", "create_worker", "extend", "fail", "heartbeat", "lock", "locks"),
}
FLASK = {"bound", "init_app", "start_embedded_worker"}
APPLICATION = {"binding", "embedded", "location", "origin"}


def _public(jobs: Jobs) -> set[str]:
    return {name for name in dir(jobs) if not name.startswith("_")}


def test_jobs_have_no_public_names_but_these() -> None:
    assert _public(Jobs("sqlite://")) == JOBS


def test_jobs_of_flask_have_a_few_more() -> None:
    jobs = SloppyJobs()
    assert _public(jobs) == JOBS | FLASK
    app = Flask("shop")
    app.config["SLOPPYJOBS_DATABASE_URL"] = "sqlite://"
    jobs.init_app(app)
    # The others are the origin's, found when they are asked for.
    assert _public(jobs.bound()) <= JOBS | APPLICATION


def test_the_schema_is_made_once_and_its_version_is_told(tmp_path: object) -> None:
    jobs = Jobs(f"sqlite:///{tmp_path}/app.db")
    assert jobs.init() == jobs.init() == jobs.storage.init() >= 1
    jobs.storage.close()
