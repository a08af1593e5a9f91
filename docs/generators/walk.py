"""Which of our files one job passes through: ``python docs/generators/walk.py [database URL]``.

Each step is done once before, so that what happens at the first time only (imports, compiled statements, the check of
the schema) does not count. A file counts once for each step, in the order in which it is first entered.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from flask import Flask

from sloppyjobs import Jobs
from webui import AllowAll, create_blueprint

ROOT = Path(__file__).parents[2]


@contextmanager
def entered() -> Iterator[list[str]]:
    """The files of ours in which functions are called inside, in their order."""
    files: dict[str, None] = {}

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith((f"{ROOT}/sloppyjobs/", f"{ROOT}/webui/")):
            files[Path(name).relative_to(ROOT).as_posix()] = None

    found: list[str] = []
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        found += files


def steps(url: str) -> dict[str, Callable[[], Any]]:
    """What happens to a job, each step as a function that can be called again."""
    jobs = Jobs(url)
    jobs.init()
    jobs.define("greet", lambda ctx, payload: None)
    app = Flask("walk")
    app.secret_key = "walk"  # noqa: S105
    app.register_blueprint(create_blueprint(jobs, policy=AllowAll()), url_prefix="/jobs")
    client = app.test_client()

    def page() -> None:
        job = next(iter(jobs.admin.list_jobs()))
        assert client.get(f"/jobs/jobs/{job.id}").status_code == 200

    return {
        "enqueue": lambda: jobs.enqueue("greet", {"to": "ann"}),
        "claim, run, settle": lambda: jobs.create_worker(concurrency=1).run_once(),
        "its page": page,
    }


def main(url: str = "sqlite://") -> None:
    """Print the files of each step."""
    by_name = steps(url)
    enqueue = by_name["enqueue"]
    for name, step in by_name.items():
        step()
        if name == "claim, run, settle":
            enqueue()
        with entered() as files:
            step()
        print(f"{name}: {len(files)} files")
        for file in files:
            print(f"  {file}")


if __name__ == "__main__":
    main(*sys.argv[1:])
