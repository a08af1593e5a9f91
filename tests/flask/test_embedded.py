"""A worker inside the server's processes: one in each that serves, none in those that do not."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import warm_start
from flask import Flask

from sloppyjobs import InvalidOption, Jobs
from sloppyjobs.flask import SloppyJobs, embedded
from sloppyjobs.flask.embedded import VARIABLE, enabled_settings

Make = Callable[..., Flask]
Eventually = Callable[..., Any]

APPLICATION = """
import os, sys, time
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sloppyjobs.flask import SloppyJobs, embedded

db, jobs = SQLAlchemy(), SloppyJobs()

@jobs.define("note")
def note(ctx, payload):
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(f"{ctx.job_id} {os.getpid()}\\n")

jobs.declare_recurring("often", "note", every=1)

def create_app():
    app = Flask("shop")
    app.config["SQLALCHEMY_DATABASE_URI"] = os.environ["URL"]
    db.init_app(app)
    jobs.init_app(app, db)
    app.get("/")(lambda: str(os.getpid()))
    if os.environ.get("EXPLICIT"):
        jobs.start_embedded_worker(app)
    return app

if __name__ == "__main__":
    app = create_app()
    time.sleep(float(os.environ.get("LATE", 0)) * (os.environ.get("WERKZEUG_RUN_MAIN") != "true"))
    app.run(debug=True, port=int(sys.argv[1]))
"""


class Server:
    """A server in processes of its own, and what it left behind."""

    def __init__(self, folder: Path, port: int) -> None:
        self.jobs = Jobs(f"sqlite:///{folder / 'shop.db'}")
        self.notes = folder / "notes"
        self.url = f"http://127.0.0.1:{port}/"
        self.process: subprocess.Popen[bytes]

    def get(self) -> int | None:
        """The process that answers; None while nobody does."""
        try:
            with urllib.request.urlopen(self.url, timeout=10) as answer:
                return int(answer.read())
        except OSError:
            return None

    def workers(self) -> dict[int, str]:
        """The state of every worker by its process."""
        return {worker.pid: worker.liveness for worker in self.jobs.admin.list_workers()}


@contextmanager
def served(folder: Path, command: list[str], **environment: str) -> Iterator[Server]:
    """The application under a server, until it is told to end."""
    (folder / "shop_served.py").write_text(APPLICATION)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Server(folder, port)
    server.jobs.storage.init()
    server.notes.touch()
    variables = {"URL": f"sqlite:///{folder / 'shop.db'}", "NOTES": str(server.notes), "PYTHONPATH": str(folder)}
    server.process = warm_start.Popen(
        [sys.executable, "-m", *(part.replace("PORT", str(port)) for part in command)],
        cwd=folder,
        env={**os.environ, **variables, **environment},
        start_new_session=True,
    )
    try:
        yield server
    finally:
        server.process.send_signal(signal.SIGTERM)
        try:
            server.process.wait(60)
        finally:
            end_group(server.process.pid)
            server.jobs.storage.close()


def end_group(group: int) -> None:
    """End what a server has left behind, such as the child of the reloader."""
    for number in [signal.SIGTERM] + [0] * 100 + [signal.SIGKILL]:
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            return
        time.sleep(0.1)


GUNICORN = ["gunicorn", "--bind", "127.0.0.1:PORT", "--workers", "2", "--threads", "2", "shop_served:create_app()"]


@pytest.mark.slow
@pytest.mark.parametrize("preload", [True, False], ids=["preload", "no-preload"])
@pytest.mark.parametrize("how", [VARIABLE, "EXPLICIT"])
def test_each_process_of_gunicorn_has_a_worker_and_schedules_fire_once(
    tmp_path: Path, eventually: Eventually, preload: bool, how: str
) -> None:
    with served(tmp_path, GUNICORN + ["--preload"] * preload, **{how: "1"}) as server:
        pids: set[int] = set()

        def both_answer() -> bool:
            pids.update(filter(None, [server.get() for _ in range(8)]))
            return len(pids) == 2

        eventually(both_answer, seconds=60)
        eventually(lambda: server.workers().keys() == pids, seconds=60)
        assert server.process.pid not in server.workers(), "the master works on nothing"
        eventually(lambda: len(server.notes.read_text().splitlines()) >= 4, seconds=60)
    assert set(server.workers().values()) == {"stopped"}, "they said goodbye when their processes ended"
    fired = list(server.jobs.fires("often", page_size=500))
    assert len({job.occurrence_at for job in fired}) == len(fired) >= 4
    assert set(Counter(line.split()[0] for line in server.notes.read_text().splitlines()).values()) == {1}
    server.jobs.storage.close()


@pytest.mark.slow
@pytest.mark.parametrize("how", [VARIABLE, "EXPLICIT"])
@pytest.mark.parametrize(
    "command",
    [["flask", "--app", "shop_served", "run", "--debug", "--port", "PORT"], ["shop_served", "PORT"]],
    ids=["flask-run", "app-run"],
)
def test_under_the_reloader_only_the_process_that_serves_has_a_worker(
    tmp_path: Path, eventually: Eventually, command: list[str], how: str
) -> None:
    with served(tmp_path, command, **{how: "1"}) as server:
        serving = eventually(server.get, seconds=60)
        eventually(lambda: server.notes.read_text().splitlines(), seconds=60)
        assert serving != server.process.pid
        assert list(server.workers()) == [serving]


@pytest.mark.slow
def test_a_script_that_starts_the_reloader_late_loses_its_worker(tmp_path: Path, eventually: Eventually) -> None:
    late = str(embedded.UNDECIDED_SECONDS + 2)
    with served(tmp_path, ["shop_served", "PORT"], EXPLICIT="1", LATE=late) as server:
        eventually(lambda: server.workers().get(server.process.pid) == "stopped", seconds=90)
        eventually(lambda: server.workers().get(server.get() or 0) == "running", seconds=60)


def test_nothing_starts_before_the_first_request(
    jobs: SloppyJobs, make_app: Make, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    jobs.define("say", lambda ctx, payload: "said")
    before = threading.active_count()
    app = make_app()
    app.get("/")(lambda: "hello")
    job = jobs.enqueue("say")
    assert threading.active_count() == before
    client = app.test_client()
    for _ in range(3):
        assert client.get("/").text == "hello"
    assert jobs.wait(job.id, 60).result == "said"
    assert len(jobs.admin.list_workers()) == 1
    jobs.bound(app).embedded.stop()
    assert jobs.admin.list_workers()[0].liveness == "stopped"
    eventually(lambda: threading.active_count() <= before + 2)


def test_an_explicit_start_works_soon_with_the_settings_given(jobs: SloppyJobs, make_app: Make) -> None:
    jobs.define("say", lambda ctx, payload: "said")
    app = make_app()
    assert jobs.start_embedded_worker(app, concurrency=3) is True
    assert jobs.wait(jobs.enqueue("say").id, 60).result == "said"
    assert jobs.admin.list_workers()[0].concurrency == 3


def test_a_request_does_not_suffer_when_there_are_no_tables_and_work_begins_when_there_are(
    jobs: SloppyJobs, make_app: Make, caplog: pytest.LogCaptureFixture, eventually: Eventually
) -> None:
    jobs.define("say", lambda ctx, payload: "said")
    app = make_app(init=False)
    app.get("/")(lambda: "hello")
    jobs.bound(app).embedded.start_at_first_request({})
    began = time.monotonic()
    assert app.test_client().get("/").text == "hello"
    assert time.monotonic() - began < 2
    eventually(lambda: "starting the embedded worker failed" in caplog.text)
    jobs.storage.init()
    assert jobs.wait(jobs.enqueue("say").id, timeout=30).result == "said"


def test_settings_that_cannot_work_are_said_once(
    jobs: SloppyJobs, make_app: Make, caplog: pytest.LogCaptureFixture, eventually: Eventually
) -> None:
    jobs.start_embedded_worker(make_app(), concurrency=0)
    eventually(lambda: "cannot have these settings" in caplog.text)
    assert "concurrency=0" in caplog.text


@pytest.mark.parametrize(
    ("value", "settings"),
    [
        ("1", {}),
        (True, {}),
        ("0", None),
        ("", None),
        (False, None),
        (None, None),
        ({"concurrency": 1}, {"concurrency": 1}),
    ],
)
def test_the_variable_and_the_configuration_decide(value: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    app = Flask("shop")
    app.config[VARIABLE] = value
    assert enabled_settings(app) == settings


def test_a_value_that_means_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "maybe")
    with pytest.raises(InvalidOption, match=VARIABLE):
        enabled_settings(Flask("shop"))
