"""Prints how many of our files a job enters on its way: each in which a function is called, helpers too.

    python docs/generators/way.py [URL]

The URL is of an empty database; a SQLite file that is removed again unless one is given. What happens only the first
time is left out: each step is done once before it is counted. A whole pass of a worker is the same way for a job, and
what the worker does beside: schedules, alerts, bulk commands. ``--files`` lists the files in their order.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from flask import Flask
from flask.testing import FlaskClient

from sloppyjobs import Jobs
from sloppyjobs.worker.run_once import run_once
from webui import AllowAll, create_blueprint

ROOT = Path(__file__).parents[2]
PACKAGES = ("sloppyjobs/", "webui/")


@contextmanager
def entered() -> Iterator[list[str]]:
    """The files of ours in which functions are called inside, by whatever thread, in their order."""
    files: dict[str, None] = {}

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(ROOT)):
            files[Path(name).relative_to(ROOT).as_posix()] = None

    found: list[str] = []
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        found += list(files)


def ways(url: str) -> dict[str, list[str]]:
    """The files of each step, on this database."""
    jobs = Jobs(url)
    jobs.init()
    jobs.define("greet", lambda _ctx, _payload: None)
    app = Flask("shop")
    app.secret_key = "for sessions"  # noqa: S105
    app.register_blueprint(create_blueprint(jobs, AllowAll()), url_prefix="/jobs")
    client, worker = app.test_client(), jobs.create_worker(concurrency=1)
    job = jobs.enqueue("greet", {"to": "ann"})
    steps: dict[str, Callable[[], object]] = {
        "enqueue": lambda: jobs.enqueue("greet", {"to": "ann"}),
        "claim, run, settle": lambda: run_once(worker._loop),
        "a whole pass of a worker": worker.run_once,
        "its page": lambda: _page(client, f"/jobs/jobs/{job.id}"),
    }
    found: dict[str, list[str]] = {}
    for name, step in steps.items():
        step()
        jobs.enqueue("greet", {"to": "ann"})
        with entered() as files:
            step()
        found[name] = [file for file in files if file.startswith(PACKAGES)]
    jobs.storage.close()
    return found


def _page(client: FlaskClient, address: str) -> None:
    """Ask for a page, which must be there: the way to an error page is a shorter one."""
    assert client.get(address).status_code == 200


def main() -> None:
    """Print them."""
    given = [argument for argument in sys.argv[1:] if argument != "--files"]
    with tempfile.TemporaryDirectory() as folder:
        found = ways(given[0] if given else f"sqlite:///{folder}/way.db")
    for name, files in found.items():
        print(f"{name}: {len(files)} files")  # noqa: T201
        if "--files" in sys.argv:
            print(*(f"  {file}" for file in files), sep="\n")  # noqa: T201


if __name__ == "__main__":
    main()
