"""Workers and producers as processes, their history, and the check at the end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from cluster.application import connect
from cluster.processes import PATIENCE, Failed, kill_tree, start, tail, wait_for
from cluster.progress import say
from sloppyjobs.storage.ports.records import AttemptRecord
from sloppyjobs.testing import history
from sloppyjobs.testing.history import entries

ROOT = Path(__file__).parent.parent
MORE = 1_000
"""Jobs that are enqueued and run between two steps."""


class Load:
    """What the application does while its databases are broken."""

    def __init__(
        self, folder: Path, urls: Sequence[str], *, pooler: bool = False, check_url: str | None = None
    ) -> None:
        self.folder = folder
        self.urls = urls
        self.check_url = check_url or urls[0]
        self.log = history.Log(folder / "history.log")
        self._options = ["--pooler"] if pooler else []
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._turn = 0

    def prepare(self) -> None:
        """Create the tables, and a schedule that fires every second."""
        jobs = connect(self.check_url)
        jobs.init()
        history.Client(jobs, self.log).recurring("every-second", "work", every=1, misfire="catch-up-limited")
        jobs.storage.close()

    def start(self, workers: int, producers: int) -> None:
        """Start so many of each; the processes take turns with the URLs."""
        for number in range(workers):
            self._start("worker", number)
        for number in range(producers):
            self._start("producer", number)
        self.wait_for_jobs("the first jobs", 50)
        say(f"{workers} workers and {producers} producers are at work")

    def _start(self, role: str, number: int) -> None:
        url = self.urls[number % len(self.urls)]
        name = f"{role}-{number}"
        command = [sys.executable, "-m", "cluster.application", role, url, str(self.log.path), *self._options]
        self._running[name] = start(command, log=self.folder / f"{name}.log", folder=ROOT)

    def kill_worker(self, number: int) -> None:
        """Kill a worker (-9) that is running handlers, and start another in its place."""
        worker = self._running.pop(f"worker-{number}")

        def stopped_at_work() -> int:
            worker.send_signal(signal.SIGSTOP)
            held = self._running_handlers(worker.pid)
            if not held:
                worker.send_signal(signal.SIGCONT)
            return held

        held = wait_for(f"worker {number} runs something", stopped_at_work)
        kill_tree(worker)
        self._start("worker", number)
        say(f"worker {number} is killed (-9) with {held} running, and another one started")

    def _running_handlers(self, pid: int) -> int:
        ours = [entry for entry in self.log.entries() if entry.pid == pid]
        begun = {(entry.job_id, entry.attempt) for entry in ours if isinstance(entry, entries.Started)}
        return len(begun - {(entry.job_id, entry.attempt) for entry in ours if isinstance(entry, entries.Ended)})

    def acknowledged(self) -> int:
        """How many enqueues were acknowledged so far."""
        return len(self.log.of_kind(entries.Enqueued))

    def ended(self) -> int:
        """How many handlers have ended so far."""
        return len(self.log.of_kind(entries.Ended))

    def wait_for_jobs(self, what: str = "jobs go on", more: int = MORE) -> None:
        """Wait until so many more jobs were enqueued, and so many more handlers have run."""
        asked, done = self.acknowledged() + more, self.ended() + more

        def going_on() -> bool:
            self._look_for_deaths()
            return self.acknowledged() >= asked and self.ended() >= done

        wait_for(what, going_on)

    def _look_for_deaths(self) -> None:
        for name, process in self._running.items():
            if process.poll() is not None:
                raise Failed(f"{name} ended with {process.returncode}:\n{tail(self.folder / f'{name}.log')}")

    def finish(self, *, clock_skew: float = 0.0) -> None:
        """Stop the producers, let the workers finish, and check the history; ``Failed`` shows what was broken."""
        self._look_for_deaths()
        self._stop("producer")
        say("producers have stopped; workers finish what is left")
        jobs = connect(self.check_url)
        jobs.schedules.pause("every-second")
        history.check(jobs, within=PATIENCE)
        self._stop("worker")
        found = history.check(jobs, self.log, within=0, clock_skew=clock_skew)
        self._summary(jobs.storage.inspection.attempts())
        jobs.storage.close()
        if found:
            raise Failed(history.report(found, self.log))
        say(f"history: {len(history.INVARIANTS)} invariants, no violation")

    def _stop(self, role: str) -> None:
        mine = {name: process for name, process in self._running.items() if name.startswith(role)}
        for process in mine.values():
            process.send_signal(signal.SIGTERM)
        for name, process in mine.items():
            del self._running[name]
            if process.wait(PATIENCE) != 0:
                raise Failed(f"{name} ended with {process.returncode}:\n{tail(self.folder / f'{name}.log')}")

    def kill(self) -> None:
        """End whatever still runs."""
        for process in self._running.values():
            kill_tree(process)
        self._running.clear()

    def _summary(self, attempts: Sequence[AttemptRecord]) -> None:
        written = self.log.entries()
        answers = [entry.at for entry in written if isinstance(entry, entries.Enqueued)]
        failed = Counter(entry.error for entry in written if isinstance(entry, entries.EnqueueFailed))
        pause = max((later - earlier for earlier, later in pairwise(answers)), default=0.0)
        ends = Counter(attempt.status for attempt in attempts)
        errors = ", ".join(f"{number} {name}" for name, number in failed.items()) or "none"
        say(f"{len(answers)} enqueues acknowledged; errors of producers: {errors}")
        say(f"longest time without an acknowledged enqueue: {pause:.1f} s")
        say("attempts: " + ", ".join(f"{number} {status}" for status, number in sorted(ends.items())))
