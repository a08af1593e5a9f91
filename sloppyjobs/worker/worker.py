"""The worker: a loop, the threads beside it, and its life from registration to deregistration."""

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
from sloppyjobs.admin.begun_commands import advance_commands
from sloppyjobs.alerting.evaluation import evaluate
from sloppyjobs.alerting.rules import QUEUE as ALERT_QUEUE
from sloppyjobs.domain import deploys, options
from sloppyjobs.domain.log_lines import get_logger
from sloppyjobs.domain.model import WorkerInfo
from sloppyjobs.internals import internals
from sloppyjobs.storage.ports import answer_timeout, may_recover
from sloppyjobs.worker import signals
from sloppyjobs.worker.leases import Leases
from sloppyjobs.worker.loop import WorkerLoop
from sloppyjobs.worker.memory import resident_bytes
from sloppyjobs.worker.middleware import MiddlewareChain
from sloppyjobs.worker.observe.observation import Observation
from sloppyjobs.worker.periodic import PeriodicWork
from sloppyjobs.worker.reports import WorkerReports
from sloppyjobs.worker.run_once import run_once
from sloppyjobs.worker.settings import Duration, Settings
from sloppyjobs.worker.startup import StopRequested, wait_for_database
from sloppyjobs.worker.storage import WorkerStorage
from sloppyjobs.worker.threads import LONGEST_BACKOFF, BackgroundThread, Outage

if TYPE_CHECKING:
    from sloppyjobs.jobs import Jobs

log = get_logger("sloppyjobs.worker")

LISTEN_SECONDS = 0.5
LAST_TRIES_SECONDS = 5.0
"""How long a stopping worker tries to settle with a database that does not answer."""


class Worker:
    """Runs jobs. ``run`` blocks until SIGTERM or SIGINT, ``start``/``stop`` use a thread, ``run_once`` is for tests.

    Leases of running jobs are renewed every ``heartbeat`` seconds. ``concurrency`` is how many handlers run at once,
    of functions and of coroutines each. ``prefetch`` is how many more jobs are held ready; by default as many as will
    start within about 50 ms by the measured run time. With ``recurring`` the worker fires schedules, with
    ``maintenance`` it removes old jobs. ``capture_logs`` (True, or a level) keeps with each job what loggers say inside
    its handler. On ``metrics_port`` it serves ``/metrics`` and ``/healthz``; of several ports, on the first that is
    free. A database that cannot be used when the worker starts is waited for; with ``exit_if_unavailable`` that is an
    error. ``app_version`` is the application's, by default that of the ``Jobs``, or ``SLOPPYJOBS_APP_VERSION`` of the
    environment. Settings that cannot work raise ``InvalidOption``.
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
        app_version: str | None = None,
    ) -> None:
        self.settings = Settings.checked(
            queues=_with_alerts(queues, jobs),
            concurrency=concurrency,
            lease=lease,
            heartbeat=heartbeat,
            poll_interval=poll_interval,
            shutdown_timeout=shutdown_timeout,
            prefetch=prefetch,
        )
        self.id = internals(jobs).ids.new("worker") if id is None else options.text("id", id)
        self.recurring = options.truth("recurring", recurring)
        self.maintenance = options.truth("maintenance", maintenance)
        self.exit_if_unavailable = options.truth("exit_if_unavailable", exit_if_unavailable)
        self.app_version = _app_version(app_version, jobs)
        self.jobs = jobs
        # Handlers may hold every connection of the application's; leases are renewed all the same.
        storage = jobs.storage.with_own_connections()
        self.storage: WorkerStorage = storage
        sealing = internals(jobs).sealing
        self.reports = WorkerReports(self.storage, self.id, self.settings.lease, jobs, sealing)
        self.observation = Observation(
            jobs, self.id, capture_logs=capture_logs, metrics_port=metrics_port, metrics_host=metrics_host
        )
        self._loop = self._new_loop()
        self._thread: threading.Thread | None = None
        self._starting = False
        self._has_row = False
        self._periodic = PeriodicWork(
            jobs,
            self.id,
            storage,
            lambda: advance_commands(storage, self.jobs.definitions),
            lambda owner: evaluate(storage, jobs.alerts, jobs.definitions, internals(jobs).sealing, owner),
        )

    def run(self) -> bool:
        """Work until SIGTERM or SIGINT, then drain: finish what runs, release what does not finish in time.

        So it does when an operator stops it; the result says whether that was why.

        A second signal, a second or more later, releases at once (of a supervised worker: one to its supervisor).
        A database that cannot be used yet is waited for;
        ``SchemaMissing`` and ``SchemaVersionMismatch`` are raised at once.
        """
        self._check_schema()
        self.observation.open(lambda: self._loop)
        with signals.handled(self._stop_requested):
            try:
                self._starting = True
                self._run()
            except StopRequested:
                log.info("worker %s was told to stop before it had started", self.id)
        return self._loop.left_for_operator

    def start(self) -> None:
        """Work in a thread until ``stop``."""
        if self._thread is not None:
            raise errors.JobsError("this worker has been started already")
        self._check_schema()
        self.observation.open(lambda: self._loop)
        self._thread = threading.Thread(target=self._run, name="sloppyjobs-worker", daemon=True)
        self._thread.start()

    def stop(self, timeout: Duration | None = None) -> bool:
        """Stop claiming, finish what runs, and release what has not finished after ``timeout`` seconds.

        Returns whether everything that was running could finish.
        """
        limit = self.settings.shutdown_timeout if timeout is None else options.seconds("timeout", timeout)
        self._loop.drain(limit)
        if self._thread is None:
            return True
        self._thread.join(limit + 2 * LAST_TRIES_SECONDS)
        finished = not self._thread.is_alive() and self._loop.unfinished_at_exit == 0
        self._thread = None
        self._loop = self._new_loop()
        return finished

    def run_once(self) -> int:
        """One pass over what is due now, one job after the other in claim order; returns how many were executed."""
        return self._pass().total()

    def run_until_idle(self) -> Counter[str]:
        """Passes until nothing is due, what handlers enqueue included; returns how many attempts had which outcome.

        Outcomes are those of the metrics: ``succeeded``, ``retrying``, ``dead``, ``cancelled``, ``snoozed``,
        ``suspended``.
        """
        ended: Counter[str] = Counter()
        while passed := self._pass():
            ended += passed
        return ended

    def _pass(self) -> Counter[str]:
        try:
            self.storage.ensure_schema()
            self._periodic.run_all_due(recurring=self.recurring)
            with self.observation.logging():
                return run_once(self._loop)
        finally:
            self._close_connections()

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
            status="draining" if self._loop.draining else "quiet" if self._loop.quiet else "running",
            running=self._loop.tasks.running(),
            stuck=self._loop.tasks.stuck.reported(),
            memory=resident_bytes(),
            done=self._loop.done,
            failed=self._loop.failed,
            app_version=self.app_version,
            application=self.jobs.schedules.application,
        )

    def _new_loop(self) -> WorkerLoop:
        return WorkerLoop(
            self.id,
            self.storage,
            self.jobs.definitions,
            self.reports,
            self.settings,
            MiddlewareChain(internals(self.jobs).hooks),
            self.observation.settlement_hooks,
            internals(self.jobs).find,
            internals(self.jobs).sealing,
        )

    def _check_schema(self) -> None:
        try:
            self.storage.ensure_schema()
        except Exception as error:
            if self.exit_if_unavailable or not may_recover(error):
                self._close_connections()
                raise

    def _register(self) -> None:
        self.storage.ensure_schema()
        self.storage.workers.register(self.info())
        self._has_row = True
        self.storage.redactions.write(self.jobs.definitions.redactions)
        # Before the first claim, which must know them.
        self._periodic.sync_limits()

    def _registered(self, loop: WorkerLoop) -> bool:
        """Whether the worker is known to the database; False when it was told to stop before."""
        try:
            if self.exit_if_unavailable:
                self._register()
                return True
            return wait_for_database(self._register, lambda: loop.draining, loop.sleep)
        except StopRequested:
            self._starting = False
            if self._has_row:
                self._deregister()
            raise
        finally:
            self._starting = False

    def _run(self) -> None:
        try:
            with self.observation.logging():
                self._run_loop()
        finally:
            self.observation.close()
            self._close_connections()

    def _run_loop(self) -> None:
        loop, outage = self._loop, Outage("the worker's turn")
        if not self._registered(loop):
            return
        threads = self._background_threads(loop)
        for thread in threads:
            thread.start()
        loop.turned_at = time.monotonic()
        log.info("worker %s works on %s", self.id, ", ".join(self.settings.queues))
        for problem in self.jobs.definitions.upcast_problems():
            log.warning(problem)
        try:
            with answer_timeout(at_most=self.settings.turn_timeout):
                while not loop.drained:
                    self._turn(loop, outage)
        finally:
            for thread in threads:
                thread.stop()
            loop.close()
            self._deregister()

    def _turn(self, loop: WorkerLoop, outage: Outage) -> None:
        try:
            loop.turn()
            outage.succeeded()
            loop.turned()
            loop.wait()
        except Exception as error:
            pause = outage.failed(error)
            if loop.overdue(LAST_TRIES_SECONDS):
                loop.abandon_all()
            else:
                time.sleep(min(pause, 0.5) if loop.draining else pause)

    def _deregister(self) -> None:
        try:
            self.storage.workers.stop(self.id)
        except Exception as error:
            log.warning("worker %s could not be deregistered: %s", self.id, error)
        log.info("worker %s has stopped", self.id)

    def _close_connections(self) -> None:
        """Close the connections that nobody else uses."""
        if self.storage is not self.jobs.storage:
            self.storage.close()

    def _background_threads(self, loop: WorkerLoop) -> list[BackgroundThread]:
        watcher = self.storage.watch()

        def listen() -> float:
            if watcher.wait(LISTEN_SECONDS):
                loop.news()
            return 0.0

        threads = [
            # A longer pause after an outage could cost leases that would have survived it.
            BackgroundThread(
                "leases",
                "renewing the leases",
                Leases(loop, self.info).step,
                longest_backoff=min(LONGEST_BACKOFF, self.settings.heartbeat),
            ),
            BackgroundThread("news", "listening for new jobs", listen, watcher.close),
        ]
        tick = self._periodic.tick if self.recurring else self._periodic.retry_runs
        threads.append(BackgroundThread("tick", "the tick of schedules and retries", tick))
        if self.jobs.alerts:
            threads.append(BackgroundThread("alerts", "looking for what to tell", self._periodic.alerts))
        if self.maintenance:
            threads.append(BackgroundThread("maintenance", "removing old jobs", self._periodic.maintain))
        return threads

    def _stop_requested(self, number: int, release: bool) -> None:
        self._loop.drain(0.0 if release else self.settings.shutdown_timeout)
        log.info("%s: %s", signal.Signals(number).name, "giving back at once" if release else "draining")
        if self._starting:
            raise StopRequested


def _app_version(given: str | None, jobs: Jobs) -> str | None:
    """What the worker is told, else what its ``Jobs`` says, else what the environment says."""
    if given is not None:
        return deploys.app_version("app_version", given)
    if jobs.app_version is not None:
        return jobs.app_version
    named = os.environ.get(deploys.VERSION_VARIABLE)
    return deploys.app_version(deploys.VERSION_VARIABLE, named) if named else None


def _with_alerts(queues: Iterable[str], jobs: Jobs) -> Iterable[str]:
    """Every worker of an application with rules for alerts delivers them, whatever queues it takes from."""
    if not jobs.alerts or isinstance(queues, str) or not isinstance(queues, Iterable):
        return queues
    given = tuple(queues)
    return given if "*" in given or ALERT_QUEUE in given or not given else (*given, ALERT_QUEUE)
