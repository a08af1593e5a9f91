"""What a handler reports of itself: progress with fields, and captured log records with their extras."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import warm_start

from sloppyjobs import Jobs, Worker
from sloppyjobs.logs import FIELDS_LIMIT
from sloppyjobs.testing import drain
from sloppyjobs.worker.reports import WorkerReports

Start = Callable[..., Worker]

log = logging.getLogger("shop.exports")
CANARY = "c4n4ry-51"


@pytest.fixture
def database_url(ready_sqlite_url: str) -> str:
    return ready_sqlite_url


@dataclass
class Order:
    number: int


def export(ctx: Any, payload: Any) -> None:
    """At the top of a module, so that another process finds it."""
    extra = {"rows": 12, "rate": 0.5, "level": "high", "order": {"lines": [1, 2]}, "password": CANARY}
    logging.getLogger("shop.exports").warning("half done", extra=extra)
    ctx.log("info", "said", rows=12, nested={"a": [1]}, odd={1, 2})
    ctx.progress(50, "half", rows=12, files=["a.csv"], token=CANARY)


@pytest.mark.parametrize("isolation", ["thread", pytest.param("process", marks=pytest.mark.slow)])
def test_extras_and_fields_are_kept_as_they_are_and_shown_without_secrets(
    jobs: Jobs, start: Start, isolation: Any
) -> None:
    jobs.define("export", export, isolation=isolation, capture_logs=True)
    job = jobs.enqueue("export")
    start(concurrency=1)
    done = jobs.wait(job.id, timeout=60)
    assert (done.status, done.progress, done.progress_message) == ("succeeded", 50, "half")
    assert done.progress_fields == {"rows": 12, "files": ["a.csv"], "token": CANARY}, "the application sees its own"
    shown = jobs.admin.get_job(job.id)
    assert shown.progress_fields == {"rows": 12, "files": ["a.csv"], "token": "[redacted]"}
    captured, said = jobs.admin.logs(job.id)
    assert captured.fields == {
        "logger": "shop.exports",
        "rows": 12,
        "rate": 0.5,
        "level": "high",
        "order": {"lines": [1, 2]},
        "password": "[redacted]",
    }
    assert said.fields == {"rows": 12, "nested": {"a": [1]}, "odd": "{1, 2}"}


def test_extras_that_are_not_json_are_kept_as_text_beside_the_others(jobs: Jobs) -> None:
    class Rude:
        def __str__(self) -> str:
            raise RuntimeError

    @jobs.define("say", capture_logs=True)
    def say(ctx: Any, payload: Any) -> None:
        extra = {"order": Order(7), "odd": object, "nan": float("nan"), "rude": Rude(), "rows": 3, "nul": "a\0b"}
        log.warning("said", extra=extra)

    job = jobs.enqueue("say")
    drain(jobs)
    (line,) = jobs.admin.logs(job.id)
    assert line.fields == {
        "logger": "shop.exports",
        "order": {"number": 7},
        "odd": "<class 'object'>",
        "nan": "nan",
        "rude": "<Rude whose text cannot be shown>",
        "rows": 3,
        "nul": "ab",
    }


def test_extras_are_bounded(jobs: Jobs) -> None:
    @jobs.define("say", capture_logs=True)
    def say(ctx: Any, payload: Any) -> None:
        log.warning("large", extra={"rows": 3, "blob": "x" * 1_000_000})
        log.warning("many", extra={f"field{number}": "y" * 100 for number in range(1_000)})

    job = jobs.enqueue("say")
    drain(jobs)
    with jobs.storage.engine.connect() as connection:
        query = "SELECT fields FROM sloppy_job_logs ORDER BY id"
        large, many = (json.loads(row[0]) for row in connection.exec_driver_sql(query))
    assert large["rows"] == 3
    assert "1000000 characters in all" in large["blob"]
    assert len(json.dumps(many)) <= FIELDS_LIMIT
    assert many["field0"] == "y" * 100
    assert many["…"].endswith(" more")
    assert len(jobs.admin.logs(job.id)) == 2


def test_extras_named_as_the_jobs_own_fields_are_kept_where_they_say_something_else(jobs: Jobs) -> None:
    jobs.define("say", lambda ctx, payload: log.warning("said", extra={"queue": "at the till"}), capture_logs=True)
    job = jobs.enqueue("say")
    drain(jobs)
    (line,) = jobs.admin.logs(job.id)
    assert line.fields == {"logger": "shop.exports", "queue": "at the till"}


def test_the_command_line_shows_progress_and_extras(jobs: Jobs, database_url: str, tmp_path: Path) -> None:
    jobs.define("export", export, capture_logs=True)
    job = jobs.enqueue("export")
    drain(jobs)
    command = [sys.executable, "-m", "sloppyjobs.cli", "--database", database_url, "show", job.id]
    shown = warm_start.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, timeout=60).stdout
    assert '50 % half rows=12 files=["a.csv"] token=[redacted]' in shown
    assert 'half done logger=shop.exports rows=12 rate=0.5 level=high order={"lines":[1,2]}' in shown
    assert CANARY not in shown
    document = json.loads(warm_start.run([*command, "--json"], capture_output=True, check=True, timeout=60).stdout)
    assert document["progress_fields"] == {"rows": 12, "files": ["a.csv"], "token": "[redacted]"}


def test_progress_that_another_thread_is_writing_is_waited_for(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settlement that follows would end the attempt's right to report it."""
    jobs.declare("export")
    jobs.enqueue("export")
    [claim] = jobs.claim("worker_1")
    reports = WorkerReports(jobs.storage, "worker_1", 30, jobs.enqueue)
    begun, go_on, waited = threading.Event(), threading.Event(), threading.Event()
    write = jobs.storage.set_progress

    def slowly(*arguments: Any) -> None:
        begun.set()
        assert go_on.wait(60)
        write(*arguments)

    def second() -> None:
        reports.flush()
        assert go_on.is_set()
        waited.set()

    monkeypatch.setattr(jobs.storage, "set_progress", slowly)
    reports.progress(claim, 50, "half", '{"rows":1}')
    writing = threading.Thread(target=reports.flush)
    writing.start()
    assert begun.wait(60)
    waiting = threading.Thread(target=second)
    waiting.start()
    assert not waited.wait(0.2)
    go_on.set()
    assert waited.wait(60)
    writing.join()
    waiting.join()
    assert jobs.complete(claim)
    assert jobs.get(claim.id).progress_fields == {"rows": 1}
