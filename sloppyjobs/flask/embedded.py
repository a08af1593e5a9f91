"""A worker inside the server's own processes, for deployments that are too small for a process of its own.

A thread does not survive a fork, and a server may fork after the application was made. So the worker starts in the
process that serves, with its first request. Any number of processes may have one: a job is claimed by one of them, and
an occurrence of a schedule becomes one job.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from flask import Flask

from sloppyjobs.domain import options
from sloppyjobs.domain.log_lines import get_logger
from sloppyjobs.errors import InvalidOption

if TYPE_CHECKING:
    from sloppyjobs.jobs import Jobs
    from sloppyjobs.worker import Worker

log = get_logger("sloppyjobs.worker")

VARIABLE = "SLOPPYJOBS_EMBEDDED_WORKER"
UNDECIDED_SECONDS = 3.0
"""How long a script that starts a worker may take until it calls ``app.run``."""
WATCHED_SECONDS = 60.0
"""How long it is watched for doing so even later."""
DEFAULTS: Mapping[str, Any] = {"concurrency": 2, "shutdown_timeout": 10}
"""Few handlers, because they share the process with requests; and stopped before a server's own timeout."""


class EmbeddedWorker:
    """The worker of one application in this process. Making it starts nothing."""

    def __init__(self, jobs: Jobs, app: Flask) -> None:
        self._jobs = jobs
        self._app = app
        self._settings: dict[str, Any] = {}
        self._hooked = False
        self.forget()
        _embedded.add(self)

    def forget(self) -> None:
        """In a process that was forked: the parent's threads are not here."""
        self._lock = threading.Lock()
        self._pid: int | None = None
        self._starting: threading.Thread | None = None
        self._stopping = threading.Event()
        self._worker: Worker | None = None

    @property
    def worker(self) -> Worker | None:
        """The worker of this process, once it works."""
        return self._worker

    def start_at_first_request(self, settings: Mapping[str, Any]) -> None:
        """Start in every process that serves a request, when it serves its first."""
        self._settings = {**DEFAULTS, **settings}
        if not self._hooked:
            self._app.before_request(self._ensure)
            self._hooked = True

    def start(self, settings: Mapping[str, Any]) -> bool:
        """Start now, or with the first request where this process is not the one that serves."""
        self._settings = {**DEFAULTS, **settings}
        if serves_elsewhere():
            self.start_at_first_request(settings)
            return False
        self._ensure(sure=_in_reloaded_child() or _in_gunicorn_worker())
        return True

    def stop(self) -> None:
        """Stop claiming, finish or give back what runs."""
        with self._lock:
            worker, starting, self._pid = self._worker, self._starting, None
            self._worker = self._starting = None
            self._stopping.set()
        if starting is not None and starting is not threading.current_thread():
            starting.join(timeout=1)
        if worker is not None:
            worker.stop()

    def _ensure(self, *, sure: bool = True) -> None:
        if self._pid == os.getpid():
            return
        with self._lock:
            if self._pid == os.getpid():
                return
            self._pid = os.getpid()
            self._stopping = threading.Event()
            self._starting = threading.Thread(
                target=self._begin if sure else self._begin_unless_reloading, name="sloppyjobs-embedded", daemon=True
            )
            self._starting.start()
        atexit.register(self.stop)

    def _begin_unless_reloading(self) -> None:
        """A script that is about to call ``app.run(debug=True)`` will be the reloader's parent, and serve nobody."""
        stopping, until = self._stopping, time.monotonic() + WATCHED_SECONDS
        if _reloads_within(UNDECIDED_SECONDS, stopping):
            return
        self._begin()
        if _reloads_within(until - time.monotonic(), stopping):
            self.stop()

    def _begin(self) -> None:
        """Try until it works; a request never waits for the database of the jobs, nor fails with it."""
        from sloppyjobs.worker.threads import Outage  # noqa: PLC0415

        outage, stopping = Outage("starting the embedded worker"), self._stopping
        while not stopping.is_set():
            try:
                # The waiting is done here.
                worker = self._jobs.create_worker(**{"exit_if_unavailable": True, **self._settings})
                worker.start()
            except (InvalidOption, TypeError):
                log.exception("the embedded worker cannot have these settings; there will be none")
                return
            except Exception as error:
                stopping.wait(outage.failed(error))
                continue
            outage.succeeded()
            with self._lock:
                if not stopping.is_set():
                    self._worker = worker
                    return
            worker.stop(timeout=0)
            return


_embedded: weakref.WeakSet[EmbeddedWorker] = weakref.WeakSet()


def _in_forked_child() -> None:
    for one in list(_embedded):
        one.forget()


os.register_at_fork(after_in_child=_in_forked_child)


def enabled_settings(app: Flask) -> Mapping[str, Any] | None:
    """What configuration or environment say: None for no embedded worker, or its settings."""
    wanted = app.config.get(VARIABLE, os.environ.get(VARIABLE))
    if isinstance(wanted, Mapping):
        return wanted
    if wanted is None or wanted is False or str(wanted).strip().lower() in ("", "0", "false", "no", "off"):
        return None
    if wanted is True or str(wanted).strip().lower() in ("1", "true", "yes", "on"):
        return {}
    raise options.refuse(VARIABLE, wanted, "must be 1 or 0, or in the configuration a dict of worker settings")


def serves_elsewhere() -> bool:
    """Whether another process than this one is going to serve the requests, as far as that can be known."""
    by_command = os.environ.get("FLASK_RUN_FROM_CLI") == "true" and not _in_reloaded_child()
    return by_command or _in_gunicorn_master() or _runs_handlers()


def _runs_handlers() -> bool:
    """A process that was started for handlers makes the application again, and is no place for a worker."""
    child: Any = sys.modules.get("sloppyjobs.worker.runners.child")
    return child is not None and child.in_child()


def _in_reloaded_child() -> bool:
    return os.environ.get("WERKZEUG_RUN_MAIN") == "true"


def _reloads_within(seconds: float, stopping: threading.Event) -> bool:
    """Whether this process turns out to be the parent of the debug reloader, which starts another one to serve."""
    until = time.monotonic() + seconds
    while not _in_reloader():
        left = until - time.monotonic()
        if left <= 0 or stopping.wait(min(left, 0.1)):
            return False
    return not _in_reloaded_child()


def _in_reloader() -> bool:
    main = sys._current_frames().get(threading.main_thread().ident or 0)
    return "werkzeug._reloader" in _modules_from(main)


def _in_gunicorn_master() -> bool:
    """An application that gunicorn loads before it forks is called by its arbiter, and by no worker of its."""
    return "gunicorn.arbiter" in _modules_from(sys._getframe()) and not _in_gunicorn_worker()


def _in_gunicorn_worker() -> bool:
    return any(name.startswith("gunicorn.workers") for name in _modules_from(sys._getframe()))


def _modules_from(frame: FrameType | None) -> Iterator[str]:
    """The modules of a call, and of those that called it."""
    while frame is not None:
        yield str(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
