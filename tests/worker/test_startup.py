"""A worker that starts while its database cannot be used: it waits, says so once, and goes on by itself."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import warm_start
from sqlalchemy import create_engine, event
from sqlalchemy.exc import OperationalError

from sloppyjobs import Jobs, SchemaMissing, storage

sys.path.insert(0, str(Path(__file__).parents[1] / "chaos"))
from proxy import FaultyProxy, server_address

Eventually = Callable[..., Any]

APPLICATION = """
import os
from sloppyjobs import Jobs

jobs = Jobs(os.environ["JOBS_URL"])


@jobs.define("note")
def note(ctx, payload):
    return "ran"
"""
WAITS = "the database cannot be used yet, and the worker waits for it"
PROMPT = 15.0
"""Seconds in which a worker that holds nothing has gone, on a machine that is very busy."""


class Service:
    """A worker in a process of its own, by the command line; what it says goes to a file."""

    def __init__(self, folder: Path, url: str, *options: str) -> None:
        (folder / "shop_that_starts.py").write_text(APPLICATION)
        self.said = folder / "said.txt"
        command = [sys.executable, "-m", "sloppyjobs.cli", "--app", "shop_that_starts:jobs", "worker", *options]
        with self.said.open("w") as output:
            self.process = warm_start.Popen(
                command, cwd=folder, env={**os.environ, "JOBS_URL": url}, stdout=output, stderr=output
            )

    def says(self, text: str) -> bool:
        assert self.process.poll() is None, self.said.read_text()
        return text in self.said.read_text()

    def terminate(self) -> tuple[int, float]:
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60), time.monotonic() - began


Serve = Callable[..., Service]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts workers, and ends them with the test."""
    started: list[Service] = []

    def start(url: str, *options: str) -> Service:
        started.append(Service(tmp_path, url, *options))
        return started[-1]

    yield start
    for service in started:
        if service.process.poll() is None:
            service.process.kill()
            service.process.wait(60)


@pytest.fixture
def producer(postgres_url: str) -> Iterator[Jobs]:
    """Enqueues past the proxy."""
    made = Jobs(postgres_url)
    made.declare("note")
    yield made
    made.storage.close()


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_worker_waits_for_a_server_that_is_down_and_then_works(
    postgres_url: str, producer: Jobs, serve: Serve, eventually: Eventually, processes: str
) -> None:
    jobs = producer
    job = jobs.enqueue("note")
    with FaultyProxy(server_address(postgres_url)) as proxy:
        proxy.refuse = True
        service = serve(proxy.url(postgres_url), "--processes", processes)
        eventually(lambda: service.says(WAITS))
        assert jobs.get(job.id).status == "queued"
        proxy.refuse = False
        assert jobs.wait(job.id, timeout=60).result == "ran"
        eventually(lambda: service.says("the database can be used now"))
        assert service.said.read_text().count(WAITS) <= int(processes)
        assert "Traceback" not in service.said.read_text()
        assert service.terminate()[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_worker_that_waits_for_its_database_leaves_at_once_when_told(
    tmp_path: Path, serve: Serve, eventually: Eventually, processes: str
) -> None:
    # Nothing listens there: the kernel has just given the port out, and taken it back.
    service = serve(f"postgresql://nobody@127.0.0.1:{_closed_port()}/nothing", "--processes", processes)
    eventually(lambda: service.says(WAITS))
    code, seconds = service.terminate()
    assert code == 0
    assert seconds < PROMPT


@pytest.mark.slow
def test_a_worker_can_be_asked_to_exit_instead(serve: Serve) -> None:
    service = serve(f"postgresql://nobody@127.0.0.1:{_closed_port()}/nothing", "--exit-if-unavailable")
    assert service.process.wait(60) == 1
    said = service.said.read_text()
    assert "127.0.0.1" in said
    assert "Traceback" not in said
    assert WAITS not in said


@pytest.mark.slow
def test_missing_tables_are_an_error_at_once(serve: Serve, sqlite_url: str, empty_postgres_url: str) -> None:
    for url in (sqlite_url, empty_postgres_url):
        service = serve(url)
        assert service.process.wait(60) == 1
        assert "SLOPPY_E_JOBS_SCHEMA_VERSION_MISMATCH" in service.said.read_text()


@pytest.mark.slow
def test_a_worker_on_a_read_only_file_says_so_in_plain_words_and_waits(
    tmp_path: Path, serve: Serve, eventually: Eventually
) -> None:
    file = tmp_path / "jobs.db"
    made = storage.sqlite(f"sqlite:///{file}")
    made.init()
    service = serve(f"sqlite:///file:{file}?mode=ro&uri=true")
    eventually(lambda: service.says(WAITS))
    assert service.says("is read-only: let this user write to it")
    code, seconds = service.terminate()
    assert code == 0
    assert seconds < PROMPT
    made.close()


class Switch:
    """A SQLite database that can be made read-only while it is in use."""

    def __init__(self, file: Path) -> None:
        self.read_only = False
        self.engine = create_engine(f"sqlite:///{file}")
        event.listen(self.engine, "checkout", self._set)

    def _set(self, driver: Any, _record: Any, _proxy: Any) -> None:
        driver.execute(f"PRAGMA query_only={int(self.read_only)}")


@pytest.fixture
def switch(tmp_path: Path) -> Iterator[Switch]:
    made = Switch(tmp_path / "jobs.db")
    storage.sqlite(made.engine).init()
    yield made
    made.engine.dispose()


@pytest.fixture
def read_only(switch: Switch) -> Jobs:
    jobs = Jobs(switch.engine)
    jobs.define("note", lambda ctx, payload: "ran")
    switch.read_only = True
    return jobs


def test_a_started_worker_works_when_its_file_can_be_written(
    read_only: Jobs, switch: Switch, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    worker = read_only.create_worker(poll_interval=0.1, recurring=False, maintenance=False)
    worker.start()
    eventually(lambda: WAITS in caplog.text)
    switch.read_only = False
    try:
        job = read_only.enqueue("note")
        assert read_only.wait(job.id, timeout=60).result == "ran"
        assert caplog.text.count(WAITS) == 1
    finally:
        worker.stop(timeout=0)


def test_a_started_worker_that_waits_is_stopped_at_once(
    read_only: Jobs, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    worker = read_only.create_worker(recurring=False, maintenance=False)
    worker.start()
    eventually(lambda: WAITS in caplog.text)
    began = time.monotonic()
    worker.stop(timeout=30)
    assert time.monotonic() - began < PROMPT


def test_an_enqueue_into_a_read_only_file_says_so(read_only: Jobs) -> None:
    with pytest.raises(OperationalError, match="is read-only: let this user write to it"):
        read_only.enqueue("note")


def test_a_worker_without_tables_does_not_start(sqlite_url: str) -> None:
    jobs = Jobs(sqlite_url)
    for start in (lambda worker: worker.run(), lambda worker: worker.start()):
        with pytest.raises(SchemaMissing):
            start(jobs.create_worker())
    jobs.storage.close()


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
