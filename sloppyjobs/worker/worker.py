"""The worker: a turnstile, the threads that serve it, and its life from registration to farewell."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sloppyjobs import errors
from sloppyjobs.admin.dead_groups import advance_retry_runs
from sloppyjobs.domain import options
from sloppyjobs.domain.log_lines import get_logger
from sloppyjobs.domain.model import WorkerInfo
from sloppyjobs.internals import internals
from sloppyjobs.retention import maintain
from sloppyjobs.storage.ports import MAINTENANCE, answer_timeout
from sloppyjobs.worker import signals
from sloppyjobs.worker.leases import Leases
from sloppyjobs.worker.loop import Turnstile
from sloppyjobs.worker.middleware import Surroundings
from sloppyjobs.worker.observe.observation import Observation
from sloppyjobs.worker.reports import WorkerReports
from sloppyjobs.worker.run_once import run_once
from sloppyjobs.worker.settings import Duration, Settings
from sloppyjobs.worker.startup import ToldToStop, is_unavailable, wait_for_database
from sloppyjobs.worker.threads import Background, Outage

if TYPE_CHECKING:
    from sloppyjobs.jobs import Jobs

log = get_logger("sloppyjobs.worker")

TICK_SECONDS = 1.0
RETRY_RUNS_SECONDS = 2.0
"""How often a worker looks whether a retry of a cause of death has something to do."""
SHORTEST_TICK = 0.1
LISTEN_SECONDS = 0.5
MAINTENANCE_SECONDS = 60.0
LAST_TRIES_SECONDS = 5.0
"""How long a worker that leaves tries to settle with a database that does not answer."""


class Worker:
    """Runs jobs. ``run`` blocks until SIGTERM or SIGINT, ``start``/``stop`` use a thread, ``run_once`` is for tests.

    Leases of running jobs are renewed every ``heartbeat`` seconds. ``concurrency`` is how many handlers run at once,
    of functions and of coroutines each. ``prefetch`` is how many more jobs are held ready; by default as many as will
    start within about 50 ms by the measured run time. With ``recurring`` the worker fires schedules, with
    ``maintenance`` it removes old jobs. ``capture_logs`` (True, or a level) keeps with each job what loggers say inside
    its handler. On ``metrics_port`` it serves ``/metrics`` and ``/healthz``; of several ports, on the first that is
    free. A database that cannot be used when the worker starts is waited for; with ``exit_if_unavailable`` that is an
    error. Settings that cannot work raise ``InvalidOption``.
    """

    @options.known_only("create_worker", besides=("self", "jobs"))
    def __init__(
        self,
        jobs: Jobs,
        *,
        queues: Iterable[str] = ("*",),
        concurrency: int = 10,
        id: str | None = None,
        lease: Duration = 30,
        heartbeat: Duration = 5,
        poll_interval: Duration = 1,
        shutdown_timeout: Duration = 30,
        recurring: bool = True,
        maintenance: bool = True,
        prefetch: int | None = None,
        capture_logs: bool | int | str | None = None,
        metrics_port: int | Sequence[int] | None = None,
        metrics_host: str = "127.0.0.1",
        exit_if_unavailable: bool = False,
    ) -> None:
        self.settings = Settings.checked(
            queues=queues,
            concurrency=concurrency,
            lease=lease,
            heartbeat=heartbeat,
            poll_interval=poll_interval,
            shutdown_timeout=shutdown_timeout,
            prefetch=prefetch,
        )
        self.id = internals(jobs).ids.new("worker") if id is None else options.text("id", id)
        self.recurring = recurring
        self.maintenance = maintenance
        self.exit_if_unavailable = exit_if_unavailable
        self.jobs = jobs
        # Handlers may hold every connection of the application's; leases are renewed all the same.
        self.storage = jobs.storage.apart()
        self.reports = WorkerReports(self.storage, self.id, self.settings.lease, jobs.enqueue)
        self.observation = Observation(
            jobs, self.id, capture_logs=capture_logs, metrics_port=metrics_port, metrics_host=metrics_host
        )
        self._turnstile = self._new_turnstile()
        self._thread: threading.Thread | None = None
        self._synchronised = False
        self._arriving = False
        self._looked_at = -RETRY_RUNS_SECONDS

    def run(self) -> None:
        """Work until SIGTERM or SIGINT, then drain: finish what runs, give back what does not finish in time.

        A second signal, a second or more later, gives back at once (of a supervised worker: one to its supervisor).
        A database that cannot be used yet is waited for;
        ``SchemaMissing`` and ``SchemaVersionMismatch`` are raised at once.
        """
        self._check_schema()
        self.observation.open(lambda: self._turnstile)
        with signals.handled(self._told_to_stop):
            try:
                self._arriving = True
                self._live()
            except ToldToStop:
                log.info("worker %s was told to stop before its database could be used", self.id)

    def start(self) -> None:
        """Work in a thread until ``stop``."""
        if self._thread is not None:
            raise errors.JobsError("this worker has been started already")
        self._check_schema()
        self.observation.open(lambda: self._turnstile)
        self._thread = threading.Thread(target=self._live, name="sloppyjobs-worker", daemon=True)
        self._thread.start()

    def stop(self, timeout: Duration | None = None) -> bool:
        """Stop claiming, finish what runs, and release what has not finished after ``timeout`` seconds.

        Returns whether everything that was running could finish.
        """
        limit = self.settings.shutdown_timeout if timeout is None else options.seconds("timeout", timeout)
        self._turnstile.drain(limit)
        if self._thread is None:
            return True
        self._thread.join(limit + 2 * LAST_TRIES_SECONDS)
        finished = not self._thread.is_alive() and self._turnstile.given_up == 0
        self._thread = None
        self._turnstile = self._new_turnstile()
        return finished

    def run_once(self) -> int:
        """One pass over what is due now, one job after the other in claim order; returns how many were executed."""
        return self._pass().total()

    def run_until_idle(self) -> Counter[str]:
        """Passes until nothing is due, what handlers enqueue included; returns how many attempts had which outcome.

        Outcomes are those of the metrics: ``succeeded``, ``retrying``, ``dead``, ``cancelled``, ``snoozed``.
        """
        ended: Counter[str] = Counter()
        while passed := self._pass():
            ended += passed
        return ended

    def _pass(self) -> Counter[str]:
        try:
            self.storage.ensure_schema()
            advance_retry_runs(self.storage, self.jobs.definitions)
            if self.recurring:
                self._synchronise()
                self.jobs.tick_recurring(owner=self.id)
            with self.observation.logging():
                return run_once(self._turnstile)
        finally:
            self._hang_up()

    @property
    def metrics_url(self) -> str | None:
        """Where ``/metrics`` and ``/healthz`` are served, while they are."""
        return self.observation.metrics_url

    def info(self) -> WorkerInfo:
        """What this worker says of itself."""
        from sloppyjobs import __version__  # noqa: PLC0415 - the package imports this module lazily

        return WorkerInfo(
            id=self.id,
            hostname=socket.gethostname(),
            pid=os.getpid(),
            queues=self.settings.queues,
            names=tuple(sorted(self.jobs.definitions.handled())),
            concurrency=self.settings.concurrency,
            heartbeat=self.settings.heartbeat,
            version=__version__,
            status="draining" if self._turnstile.draining else "running",
            running=self._turnstile.running(),
            stuck=self._turnstile.stuck.reported(),
        )

    def _new_turnstile(self) -> Turnstile:
        return Turnstile(
            self.id,
            self.storage,
            self.jobs.definitions,
            self.reports,
            self.settings,
            Surroundings(internals(self.jobs).hooks),
            self.observation.aftermath,
            internals(self.jobs).find,
        )

    def _check_schema(self) -> None:
        try:
            self.storage.ensure_schema()
        except Exception as error:
            if self.exit_if_unavailable or not is_unavailable(error):
                self._hang_up()
                raise

    def _arrive(self) -> None:
        self.storage.ensure_schema()
        self.storage.workers.register(self.info())
        self.storage.redactions.write(self.jobs.definitions.redactions)

    def _has_arrived(self, turnstile: Turnstile) -> bool:
        """Whether the worker is known to the database; False when it was told to stop before."""
        try:
            if self.exit_if_unavailable:
                self._arrive()
                return True
            return wait_for_database(self._arrive, lambda: turnstile.draining, turnstile.sleep)
        finally:
            self._arriving = False

    def _live(self) -> None:
        try:
            with self.observation.logging():
                self._work()
        finally:
            self.observation.close()
            self._hang_up()

    def _work(self) -> None:
        turnstile, outage = self._turnstile, Outage("the worker's turn")
        if not self._has_arrived(turnstile):
            return
        servants = self._servants(turnstile)
        for servant in servants:
            servant.start()
        turnstile.turned_at = time.monotonic()
        log.info("worker %s works on %s", self.id, ", ".join(self.settings.queues))
        try:
            with answer_timeout(at_most=self.settings.turn_timeout):
                while not turnstile.drained:
                    self._turn(turnstile, outage)
        finally:
            for servant in servants:
                servant.stop()
            turnstile.close()
            self._leave()

    def _turn(self, turnstile: Turnstile, outage: Outage) -> None:
        try:
            turnstile.turn()
            outage.succeeded()
            turnstile.turned()
            turnstile.wait()
        except Exception as error:
            pause = outage.failed(error)
            if turnstile.overdue(LAST_TRIES_SECONDS):
                turnstile.forsake()
            else:
                time.sleep(min(pause, 0.5) if turnstile.draining else pause)

    def _leave(self) -> None:
        try:
            self.storage.workers.stop(self.id)
        except Exception as error:
            log.warning("worker %s could not say goodbye: %s", self.id, error)
        log.info("worker %s has stopped", self.id)

    def _hang_up(self) -> None:
        """Close the connections that nobody else uses."""
        if self.storage is not self.jobs.storage:
            self.storage.close()

    def _servants(self, turnstile: Turnstile) -> list[Background]:
        watcher = self.storage.watch()

        def listen() -> float:
            if watcher.wait(LISTEN_SECONDS):
                turnstile.wake()
            return 0.0

        servants = [
            Background("leases", "renewing the leases", Leases(turnstile, self.info).step),
            Background("news", "listening for new jobs", listen, watcher.close),
        ]
        tick = self._tick if self.recurring else self._retry_runs
        servants.append(Background("tick", "the tick of schedules and retries", tick))
        if self.maintenance:
            servants.append(Background("maintenance", "removing old jobs", self._maintain))
        return servants

    def _retry_runs(self) -> float:
        """Advance the retries of causes of death; when to look again."""
        wait = self._looked_at + RETRY_RUNS_SECONDS - time.monotonic()
        if wait > 0:
            return wait
        self._looked_at = time.monotonic()
        advance_retry_runs(self.storage, self.jobs.definitions)
        return RETRY_RUNS_SECONDS

    def _tick(self) -> float:
        """Look first: most seconds have nothing to fire."""
        self._retry_runs()
        self._synchronise()
        due_in = self.storage.firing.next_in()
        if due_in is not None and due_in <= 0:
            self.jobs.tick_recurring(owner=self.id)
            return SHORTEST_TICK
        return TICK_SECONDS if due_in is None else max(SHORTEST_TICK, min(TICK_SECONDS, due_in))

    def _synchronise(self) -> None:
        """Write the schedules that the code declares, once in the worker's life."""
        if not self._synchronised:
            self.jobs.schedules.sync()
            self._synchronised = True

    def _maintain(self) -> float:
        with answer_timeout(at_least=MAINTENANCE):
            maintain(self.jobs, owner=self.id)
        return MAINTENANCE_SECONDS

    def _told_to_stop(self, number: int, give_back: bool) -> None:
        log.info("%s: %s", signal.Signals(number).name, "giving back at once" if give_back else "draining")
        self._turnstile.drain(0.0 if give_back else self.settings.shutdown_timeout)
        if self._arriving:
            raise ToldToStop
