"""PostgreSQL with a standby: the primary is killed under load, and later demoted with its connections open."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from pathlib import Path

from cluster.load import ROOT, Load
from cluster.postgres import Server, url_of
from cluster.processes import kill_tree, start, wait_for
from cluster.progress import say, title
from sloppyjobs import Jobs


def run(folder: Path, ports: list[int]) -> None:
    """Both ways to lose a primary, with workers, producers and the admin pages on one URL with two hosts."""
    title("PostgreSQL: a primary and a synchronous standby")
    first, second = Server(folder, "first", ports[0]), Server(folder, "second", ports[1])
    third = Server(folder, "third", ports[0])
    pages = Pages(folder, url_of(first, second), ports[2])
    load = Load(folder, [url_of(first, second)])
    try:
        first.create()
        second.follow(first)
        say("first is the primary, second its standby (synchronous_commit = remote_apply)")
        load.prepare()
        pages.start()
        load.start(workers=3, producers=2)
        _killed(load, pages, first, second)
        third.follow(second)
        say("a new standby, third, follows second at the address of first")
        _demoted(load, pages, second, third)
        load.kill_worker(0)
        load.wait_for_jobs()
        load.finish()
    finally:
        load.kill()
        pages.stop()
        for server in (first, second, third):
            server.kill()


def _killed(load: Load, pages: Pages, primary: Server, standby: Server) -> None:
    load.wait_for_jobs("jobs before the fault")
    with load.log.fault("the primary is killed"):
        primary.kill()
        say(f"{primary.name} is killed (-9) under load")
        standby.promote()
    say(f"{standby.name} is promoted")
    load.wait_for_jobs()
    pages.show_new_jobs()
    say("workers, producers and the admin pages go on with the new primary")


def _demoted(load: Load, pages: Pages, primary: Server, standby: Server) -> None:
    with load.log.fault("the primary turns read-only with its connections open"):
        primary.fence()
        say(f"{primary.name} is read-only now (SQLSTATE 25006); its connections stay open")
        position = primary.value("SELECT pg_current_wal_lsn()")
        behind = f"SELECT pg_last_wal_replay_lsn() >= '{position}'"
        wait_for(f"{standby.name} has everything", lambda: standby.value(behind))
        standby.promote()
    say(f"{standby.name} is promoted; {primary.name} still answers, read-only")
    load.wait_for_jobs()
    pages.show_new_jobs()
    say("workers, producers and the admin pages have left it")


class Pages:
    """The admin pages as a process, ``sloppyjobs web``."""

    def __init__(self, folder: Path, url: str, port: int) -> None:
        self._url = url
        self._address = f"http://127.0.0.1:{port}"
        self._port = port
        self._log = folder / "pages.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Serve, and wait for the first page."""
        command = [sys.executable, "-m", "sloppyjobs", "--database", self._url, "web"]
        command += ["--bind", f"127.0.0.1:{self._port}"]
        self._process = start(command, log=self._log, folder=ROOT, environment={"SLOPPYJOBS_WEBUI_INSECURE": "1"})
        wait_for("the pages answer", lambda: self._get("/readyz") is not None)

    def show_new_jobs(self) -> None:
        """Wait until a job is shown that was enqueued just now, by the new primary."""
        jobs = Jobs(self._url)
        jobs.declare("noticed", queue="nobody")
        job = jobs.enqueue("noticed")
        wait_for("the pages show what the new primary has", lambda: self._shows(job.id))
        jobs.admin.cancel(job.id)
        jobs.storage.close()

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            kill_tree(self._process)

    def _shows(self, job_id: str) -> bool:
        page = self._get(f"/jobs/{job_id}")
        return page is not None and re.search(job_id, page) is not None

    def _get(self, path: str) -> str | None:
        try:
            with urllib.request.urlopen(self._address + path, timeout=60) as answer:
                found: str = answer.read().decode()
                return found
        except OSError:
            return None
