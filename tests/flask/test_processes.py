"""Handlers in processes of their own have what handlers in threads have: context, middleware, logs, traces."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import warm_start
from flask import Flask

from sloppyjobs import Jobs
from sloppyjobs.flask import SloppyJobs
from sloppyjobs.flask.embedded import VARIABLE

pytestmark = pytest.mark.slow

APPLICATION = """
import logging, os, sys, threading
from flask import Flask, current_app, has_app_context
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import text
from sloppyjobs import Retry, Snooze
from sloppyjobs.flask import SloppyJobs

db, jobs = SQLAlchemy(), SloppyJobs()
log = logging.getLogger("shop.orders")
removed = []
once = Retry(max_attempts=1)

@jobs.middleware
def surround(ctx, payload, call_next):
    answer = call_next(ctx, {**payload, "seen": current_app.config["MARK"]})
    return {**answer, "around": ctx.name} if isinstance(answer, dict) else answer

@jobs.define("look", isolation="process")
def look(ctx, payload):
    found = db.session.execute(text("SELECT 1")).scalar_one()
    log.info("in passing of %s", payload["word"], extra={"order": 7})
    threading.Thread(target=log.warning, args=["from a thread"]).start()
    try:
        raise ValueError("oh")
    except ValueError:
        log.exception("caught")
    ctx.progress(50, "half")
    ctx.log("info", "said by the context", n=1)
    return {
        "found": found, "app": current_app.import_name, "mark": payload["seen"], "pid": os.getpid(),
        "parent": os.getppid(), "extended": ctx.extend_lease(60), "enqueued": ctx.enqueue("further", {}).id,
        "in_session": len(db.session.registry.registry), "workers": threading.active_count(),
    }

@jobs.define("fail", isolation="process", retry=once)
def fail(ctx, payload):
    raise LookupError("no such order", object)

@jobs.define("doze", isolation="process")
def doze(ctx, payload):
    return Snooze(3600)

@jobs.define("spin", isolation="process", timeout=1, retry=once)
def spin(ctx, payload):
    log.info("spinning")
    while True:
        log.debug("again")

@jobs.define("further")
def further(ctx, payload):
    pass

def create_app():
    app = Flask(__name__)
    app.config["SQLALCHEMY_DATABASE_URI"] = os.environ["URL"]
    app.config["MARK"] = "by the factory"
    if os.environ.get("OWN_LOGGING"):
        logging.basicConfig(level="INFO", format="own %(message)s %(job_id)s", force=True)
    db.init_app(app)
    jobs.init_app(app, db)
    if os.environ.get("EXPLICIT"):
        jobs.start_embedded_worker(app)
    return app
"""


@contextmanager
def working(folder: Path, database_url: str, *options: str, concurrency: int = 1, **environment: str) -> Iterator[Path]:
    """``flask jobs worker`` on the application, until the end; yields its log.

    It starts as many processes for handlers as it may run at once, and each imports everything.
    """
    (folder / "shop_app.py").write_text(APPLICATION)
    command = [sys.executable, "-m", "flask", "--app", "shop_app", "jobs", "worker", f"--concurrency={concurrency}"]
    log = folder / "log"
    url = database_url.replace("postgresql://", "postgresql+psycopg://")
    with log.open("w") as stderr:
        worker = warm_start.Popen(
            [*command, *options], cwd=folder, env={**os.environ, "URL": url, **environment}, stderr=stderr
        )
    try:
        yield log
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0


@pytest.fixture
def shop(make_storage: Callable[..., Any]) -> Jobs:
    jobs = Jobs(make_storage())
    for name in ("look", "fail", "doze", "spin", "further"):
        jobs.declare(name, **({"timeout": 1} if name == "spin" else {}))
    return jobs


def test_a_handler_in_a_process_has_context_session_middleware_and_reports(
    shop: Jobs, tmp_path: Path, database_url: str
) -> None:
    with working(tmp_path, database_url, EXPLICIT="1"):
        done = [shop.wait(shop.enqueue("look", {"word": n}, correlation_id="order-7").id, timeout=60) for n in (1, 2)]
        for job in done:
            found = job.result
            assert (found["found"], found["app"], found["mark"]) == (1, "shop_app", "by the factory")
            assert (found["around"], found["extended"], job.progress) == ("look", True, 50.0)
            assert found["in_session"] == 1, "the sessions of earlier jobs are removed"
            assert found["pid"] not in (os.getpid(), found["parent"])
            child = shop.wait(found["enqueued"], timeout=60)
            assert (child.status, child.correlation_id) == ("succeeded", "order-7")
        pids = {worker.pid for worker in shop.admin.list_workers()}
        assert pids == {done[0].result["parent"]}, "the processes of handlers have no workers of their own"


def test_what_a_handler_in_a_process_logs_is_written_and_captured_by_the_worker(
    shop: Jobs, tmp_path: Path, database_url: str
) -> None:
    options = ("--log-format", "json", "--capture-logs", "info")
    with working(tmp_path, database_url, *options) as log:
        job = shop.wait(shop.enqueue("look", {"word": "one"}, correlation_id="order-7").id, timeout=60)
    written = [json.loads(line) for line in log.read_text().splitlines()]
    said = {line["message"]: line for line in written if line["logger"] == "shop.orders"}
    assert said.keys() == {"in passing of one", "from a thread", "caught"}
    for line in said.values():
        assert (line["job_id"], line["job_name"], line["attempt"]) == (job.id, "look", 1)
        assert (line["queue"], line["correlation_id"]) == ("default", "order-7")
    assert said["in passing of one"]["order"] == 7
    assert "ValueError: oh" in said["caught"]["exception"]
    kept = {line.message.splitlines()[0]: line.message for line in shop.admin.logs(job.id)}
    assert kept.keys() == {"in passing of one", "from a thread", "caught", "said by the context"}
    assert "Traceback" in kept["caught"]


def test_an_application_that_configures_its_logging_writes_records_once(
    shop: Jobs, tmp_path: Path, database_url: str
) -> None:
    with working(tmp_path, database_url, "--capture-logs", "info", OWN_LOGGING="1") as log:
        job = shop.wait(shop.enqueue("look", {"word": "one"}).id, timeout=60)
    lines = [line for line in log.read_text().splitlines() if "in passing" in line]
    assert lines == [f"own in passing of one {job.id}"]
    assert "in passing of one" in {line.message for line in shop.admin.logs(job.id)}


def test_outcomes_come_back_whatever_they_hold(shop: Jobs, tmp_path: Path, database_url: str) -> None:
    with working(tmp_path, database_url):
        failed = shop.wait(shop.enqueue("fail", {}, max_attempts=1).id, timeout=60)
        assert (failed.error_type, failed.error_frame) == ("LookupError", "shop_app:fail")
        (attempt,) = shop.admin.attempts(failed.id)
        assert "in surround" in attempt.traceback
        dozing = shop.enqueue("doze", {})
        deadline = time.monotonic() + 60
        while shop.get(dozing.id).status != "retrying":
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_a_handler_that_is_killed_while_it_logs_silences_nobody(shop: Jobs, tmp_path: Path, database_url: str) -> None:
    with working(tmp_path, database_url, "--log-level", "debug", "--capture-logs", "info", concurrency=2):
        spinning = [shop.enqueue("spin", {}, max_attempts=1) for _ in range(3)]
        for job in spinning:
            assert shop.wait(job.id, timeout=60).error_code == "SLOPPY_E_JOBS_TIMEOUT"
            assert [line.message for line in shop.admin.logs(job.id)] == ["spinning"]
        assert shop.wait(shop.enqueue("look", {"word": 1}).id, timeout=60).result["mark"] == "by the factory"


def test_an_application_that_cannot_be_made_again_says_so(
    jobs: SloppyJobs, make_app: Callable[..., Flask], eventually: Callable[..., Any]
) -> None:
    jobs.define("say", say, isolation="process")
    make_app("nowhere_to_be_found")
    job = jobs.enqueue("say", max_attempts=1)
    worker = jobs.create_worker(poll_interval=0.1, recurring=False, maintenance=False, concurrency=1)
    worker.start()
    try:
        dead = jobs.wait(job.id, timeout=60)
    finally:
        worker.stop(timeout=0)
    assert dead.status == "dead"
    assert "cannot find the jobs again" in str(dead.error_message)
    assert "nowhere_to_be_found" in str(dead.error_message)


def say(ctx: Any, payload: Any) -> str:
    return "said"


def test_the_variable_of_the_embedded_worker_is_no_use_in_a_process_of_a_handler(
    shop: Jobs, tmp_path: Path, database_url: str
) -> None:
    with working(tmp_path, database_url, **{VARIABLE: "1"}):
        done = shop.wait(shop.enqueue("look", {"word": 1}).id, timeout=60)
        assert {worker.pid for worker in shop.admin.list_workers()} == {done.result["parent"]}
