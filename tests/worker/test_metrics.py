"""What a worker serves over HTTP: metrics and its health."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm_start
from free_ports import free_port, free_ports
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from sloppyjobs import InvalidOption, Jobs, JobsError, Retry, Snooze, Worker
from sloppyjobs.worker.observe import metrics as worker_metrics
from sloppyjobs.worker.observe import observation

Start = Callable[..., Worker]
Eventually = Callable[..., Any]


@pytest.fixture
def database_url(ready_sqlite_url: str) -> str:
    return ready_sqlite_url


@pytest.fixture(autouse=True)
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every scrape reads the queues."""
    monkeypatch.setattr(worker_metrics, "CACHE_SECONDS", 0.0)


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def scrape(worker: Worker | str) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels, buckets left out."""
    base = worker if isinstance(worker, str) else worker.metrics_url
    status, text = get(f"{base}/metrics")
    assert status == 200
    return {
        (sample.name, *(sample.labels[key] for key in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }


def test_outcomes_and_durations_are_counted_by_name(jobs: Jobs, start: Start, eventually: Eventually) -> None:
    jobs.define("say", lambda ctx, payload: None)
    jobs.define("doze", lambda ctx, payload: Snooze(60))

    @jobs.define("fail", retry=Retry(max_attempts=2, backoff="none"))
    def fail(ctx: Any, payload: Any) -> None:
        raise ValueError

    for name in ("say", "say", "doze", "fail"):
        jobs.enqueue(name)
    worker = start(metrics_port=0)
    settled = "sloppyjobs_attempts_settled_total"
    eventually(lambda: scrape(worker).get((settled, "fail", "dead")))
    eventually(lambda: scrape(worker).get((settled, "doze", "snoozed")))
    seen = scrape(worker)
    outcomes = {key[1:]: value for key, value in seen.items() if key[0] == settled}
    assert outcomes == {
        ("say", "succeeded"): 2,
        ("doze", "snoozed"): 1,
        ("fail", "retrying"): 1,
        ("fail", "dead"): 1,
    }
    assert seen["sloppyjobs_job_duration_seconds_count", "say"] == 2
    assert seen["sloppyjobs_job_duration_seconds_count", "fail"] == 2
    assert seen["sloppyjobs_worker_turns_total",] > 0


def test_attempts_that_lost_their_worker_are_counted(jobs: Jobs, start: Start, eventually: Eventually) -> None:
    for name, attempts in (("once", 1), ("twice", 2)):
        jobs.declare(name, retry=Retry(max_attempts=attempts))
        jobs.enqueue(name)
    assert len(jobs.claim("gone", limit=2, lease=0.05)) == 2
    worker = start(metrics_port=0)
    settled = "sloppyjobs_attempts_settled_total"
    eventually(lambda: scrape(worker).get((settled, "once", "dead")) == 1)
    eventually(lambda: scrape(worker).get((settled, "twice", "lost")) == 1)


def test_depth_age_and_running_are_what_they_are_when_asked(jobs: Jobs, start: Start, eventually: Eventually) -> None:
    going = threading.Event()
    jobs.define("hold", lambda ctx, payload: going.wait(60) and None, queue="busy")
    jobs.declare("elsewhere", queue="idle")
    for _ in range(3):
        jobs.enqueue("elsewhere")
    jobs.enqueue("hold")
    worker = start(metrics_port=0, concurrency=2)
    eventually(lambda: scrape(worker)["sloppyjobs_worker_running",] == 1)
    seen = scrape(worker)
    assert seen["sloppyjobs_queue_depth", "idle"] == 3
    assert seen["sloppyjobs_queue_depth", "busy"] == 0
    assert seen["sloppyjobs_queue_wait_seconds", "idle"] > 0
    assert seen["sloppyjobs_worker_concurrency",] == 2
    going.set()


def test_many_scrapes_read_the_queues_once(
    jobs: Jobs, start: Start, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    monkeypatch.setattr(worker_metrics, "CACHE_SECONDS", 60.0)
    jobs.declare("elsewhere", queue="idle")
    jobs.enqueue("elsewhere")
    worker = start(metrics_port=0)
    assert scrape(worker)["sloppyjobs_queue_depth", "idle"] == 1
    jobs.enqueue("elsewhere")
    assert scrape(worker)["sloppyjobs_queue_depth", "idle"] == 1


def test_the_registry_of_the_application_is_left_alone(jobs: Jobs, start: Start) -> None:
    before = {family.name for family in REGISTRY.collect()}
    start(metrics_port=0)
    start(metrics_port=0)
    assert {family.name for family in REGISTRY.collect()} == before


def test_a_scrape_is_answered_while_the_database_is_not(jobs: Jobs, start: Start, monkeypatch: Any) -> None:
    worker = start(metrics_port=0)

    def unreachable(*_: Any, **__: Any) -> Any:
        raise ConnectionError("no route to the database")

    monkeypatch.setattr(type(jobs.admin), "list_queues", unreachable)
    seen = scrape(worker)
    assert ("sloppyjobs_worker_running",) in seen
    assert not any(key[0] == "sloppyjobs_queue_depth" for key in seen)


def test_health_is_good_while_the_loop_turns_and_bad_when_it_stalls(
    jobs: Jobs, start: Start, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observation, "STALL_TIMEOUT", 1.0)
    worker = start(metrics_port=0, poll_interval=0.1)
    status, text = get(f"{worker.metrics_url}/healthz")
    assert (status, json.loads(text)["status"]) == (200, "ok")
    stalled = threading.Event()
    sweep = jobs.storage.sweep

    def hang(*arguments: Any) -> Any:
        stalled.wait(60)
        return sweep(*arguments)

    monkeypatch.setattr(jobs.storage, "sweep", hang)
    eventually(lambda: get(f"{worker.metrics_url}/healthz")[0] == 503)
    stalled.set()
    eventually(lambda: get(f"{worker.metrics_url}/healthz")[0] == 200)


def test_nothing_else_is_served_and_nothing_after_the_end(jobs: Jobs, start: Start) -> None:
    worker = start(metrics_port=0)
    url = worker.metrics_url
    assert url is not None
    assert get(f"{url}/")[0] == 404
    worker.stop()
    assert worker.metrics_url is None
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{url}/healthz", timeout=2)


def test_of_several_ports_the_first_free_one_is_taken(jobs: Jobs, start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        other = free_port()
        assert start(metrics_port=[port, other]).metrics_url == f"http://127.0.0.1:{other}"
        with pytest.raises(JobsError, match=f"port {port}"):
            start(metrics_port=port)


@pytest.mark.parametrize("port", [-1, 70_000, [], "9000"])
def test_ports_that_do_not_exist_are_refused(jobs: Jobs, port: Any) -> None:
    with pytest.raises(InvalidOption):
        jobs.create_worker(metrics_port=port)


def test_without_metrics_prometheus_is_not_imported() -> None:
    code = "import sys; from sloppyjobs import Jobs; Jobs('sqlite://').create_worker(); print(sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "prometheus_client" not in ran.stdout
    assert "'http.server'" not in ran.stdout


APPLICATION = """
import logging, os
from sloppyjobs import Jobs

jobs = Jobs(os.environ["URL"])

@jobs.define("say")
def say(ctx, payload):
    logging.getLogger("shop").info("said")
"""


@pytest.mark.slow
def test_the_command_serves_each_process_on_a_port_of_its_own_and_logs_json(
    jobs: Jobs, tmp_path: Path, sqlite_url: str, eventually: Eventually
) -> None:
    (tmp_path / "shop_app.py").write_text(APPLICATION)
    first = free_ports(2)
    options = ["--processes", "2", "--metrics-port", str(first), "--log-format", "json", "--capture-logs", "info"]
    with (tmp_path / "log").open("w") as log:
        worker = warm_start.Popen(
            [sys.executable, "-m", "sloppyjobs.cli", "--app", "shop_app:jobs", "worker", *options],
            cwd=tmp_path,
            env={**os.environ, "URL": sqlite_url},
            stderr=log,
        )
    try:

        def healthy(port: int) -> bool:
            try:
                return get(f"http://127.0.0.1:{port}/healthz")[0] == 200
            except urllib.error.URLError:
                return False

        eventually(lambda: healthy(first) and healthy(first + 1), seconds=60)
        jobs.declare("say")
        job = jobs.enqueue("say")
        jobs.wait(job.id, timeout=30)
        key = ("sloppyjobs_attempts_settled_total", "say", "succeeded")
        urls = [f"http://127.0.0.1:{port}" for port in (first, first + 1)]
        eventually(lambda: sum(scrape(url).get(key, 0) for url in urls) == 1)
        assert [line.message for line in jobs.admin.logs(job.id)] == ["said"]
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    written = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    (said,) = [line for line in written if line["logger"] == "shop"]
    assert (said["job_id"], said["job_name"], said["queue"], said["attempt"]) == (job.id, "say", "default", 1)
