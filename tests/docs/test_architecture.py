"""The page on how it is built is true: the picture is of today's imports, and a job takes the way that is described."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from sloppyjobs import Jobs
from webui import AllowAll, create_blueprint

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "architecture.md").read_text()


def test_the_picture_of_the_layers_is_of_these_imports() -> None:
    layers = generator("layers")
    command = "python docs/generators/layers.py > docs/explanation/layers.svg"
    assert layers.svg() == (ROOT / "docs" / "explanation" / "layers.svg").read_text(), f"run {command}"


def way(heading: str) -> list[str]:
    """The files that the page lists under a heading."""
    section = PAGE.split(f"### {heading}\n")[1].split("\n#")[0]
    return re.findall(r"^\d+\. `([^`]+)`:", section, re.MULTILINE)


def generator(name: str) -> Any:
    """A module of ``docs/generators``."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "generators" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


entered = generator("way").entered


@pytest.fixture
def jobs(ready_sqlite_url: str) -> Iterator[Jobs]:
    found = Jobs(ready_sqlite_url)
    found.define("greet", lambda ctx, payload: None)
    # What happens at the first time only does not count.
    found.enqueue("greet", {"to": "ann"})
    yield found
    found.storage.close()


def in_order(wanted: list[str], files: list[str]) -> list[str]:
    """The wanted files as they were entered."""
    return [file for file in files if file in wanted]


def test_an_enqueue_takes_the_way_that_is_described(jobs: Jobs) -> None:
    with entered() as files:
        jobs.enqueue("greet", {"to": "ann"})
    assert in_order(way("Enqueue"), files) == way("Enqueue")


def test_a_worker_takes_the_way_that_is_described(jobs: Jobs) -> None:
    worker = jobs.create_worker(concurrency=1, poll_interval=0.05)
    with entered() as files:
        thread = threading.Thread(target=worker.run)
        thread.start()
        _until(lambda: jobs.admin.list_jobs(status="succeeded").items)
        worker.stop()
        thread.join(60)
    # Its threads do several things at once: which comes first is not the point.
    assert sorted(in_order(way("Claim, run, settle"), files)) == sorted(way("Claim, run, settle"))


def test_a_page_takes_the_way_that_is_described(jobs: Jobs) -> None:
    app = Flask(__name__)
    app.secret_key = "for sessions"
    app.register_blueprint(create_blueprint(jobs, AllowAll()), url_prefix="/jobs")
    [job] = jobs.admin.list_jobs().items
    client = app.test_client()
    with entered() as files:
        assert client.get(f"/jobs/jobs/{job.id}").status_code == 200
    assert in_order(way("Its page"), files) == way("Its page")


def test_the_command_that_counts_files_finds_the_ones_that_are_listed(sqlite_url: str) -> None:
    found = generator("way").ways(sqlite_url)
    assert set(way("Enqueue")) <= set(found["enqueue"])
    assert {file for file in way("Its page") if file.endswith(".py")} <= set(found["its page"])
    assert "sloppyjobs/worker/executor.py" in found["claim, run, settle"]


def test_the_way_is_no_longer_than_the_table_says(postgres_url: str) -> None:
    counts = re.findall(r"^\| [^|]+ \| (\d+) \| (?:\d+|not counted) \|$", PAGE, re.MULTILINE)
    # In a process of its own: what other tests have opened in this one is counted too.
    command = [sys.executable, ROOT / "docs" / "generators" / "way.py", postgres_url]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    found = re.findall(r"^([^:]+): (\d+) files$", printed, re.MULTILINE)
    longer = [step for (step, count), most in zip(found, counts, strict=True) if int(count) > int(most)]
    assert longer == [], printed


def _until(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
