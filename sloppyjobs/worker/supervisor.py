"""Several worker processes under one parent, which restarts those that crash.

One that an operator stopped is not started again; when all have been stopped so, the parent ends, too.

The parent forks before it has threads, runs no jobs, and forwards signals. Its children use no connection of its.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sloppyjobs.domain.log_lines import get_logger
from sloppyjobs.storage import forget_inherited_connections
from sloppyjobs.worker import signals

log = get_logger("sloppyjobs.supervisor")

QUICK_EXIT_SECONDS = 5.0
"""A child that exits sooner than this is restarted with a growing delay."""

LONGEST_BACKOFF = 30.0
KILL_GRACE_SECONDS = 5.0
LEFT = 79
"""The exit code by which a child says that an operator stopped it."""


@dataclass
class _Child:
    """One of the processes to keep running."""

    number: int
    pid: int | None = None
    started: float = 0.0
    crashes: int = 0
    start_at: float = 0.0
    signalled: bool = False
    """Whether it was sent a signal to stop."""
    left: bool = False
    """Whether an operator stopped it."""


def supervise(start: Callable[[], bool | None], processes: int, shutdown_timeout: float = 30.0) -> int:
    """Run ``start`` in so many child processes until SIGTERM or SIGINT; returns the exit code.

    ``start`` returns True where an operator stopped its worker.

    Children drain on the signal, and release at once on a second one; what still runs some seconds after
    ``shutdown_timeout`` is killed.
    """
    if threading.active_count() > 1:
        log.warning("the supervisor forks a process that has threads; start workers before them")
    return _Supervisor(start, processes, shutdown_timeout).run()


def _drain_without(parent: int) -> None:
    """Drain when the parent has died, so that no worker is left without a supervisor."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        log.error("the supervisor has gone; draining")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="sloppyjobs-parent", daemon=True).start()


class _Supervisor:
    def __init__(self, start: Callable[[], bool | None], processes: int, shutdown_timeout: float) -> None:
        self._start = start
        self._children = [_Child(number + 1) for number in range(processes)]
        self._shutdown_timeout = shutdown_timeout
        self._stopping = False
        self._requests = signals.StopRequests()

    def run(self) -> int:
        previous = {number: signal.signal(number, self._stop) for number in signals.STOP}
        # A parent may have let it ignore this one, and then nobody is told how a child has ended.
        previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            while not self._stopping and not all(child.left for child in self._children):
                self._start_missing()
                self._reap()
                time.sleep(0.1)
            return self._shut_down()
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _stop(self, number: int, _frame: object) -> None:
        second = self._requests()
        if second is None:
            return
        log.info("%s: stopping %d workers", signal.Signals(number).name, len(self._alive()))
        self._stopping = True
        self._send(self._alive(), signals.RELEASE if second else signal.SIGTERM)

    def _start_missing(self) -> None:
        for child in self._children:
            if child.pid is None and not child.left and not self._stopping and time.monotonic() >= child.start_at:
                child.started = time.monotonic()
                try:
                    child.pid = self._fork(child)
                except OSError as error:
                    text = "worker process %d cannot be started, and is tried again in %.1f s: %s"
                    log.error(text, child.number, self._put_off(child), error)

    def _put_off(self, child: _Child) -> float:
        """Start the child later, the later the more often it has failed; returns in how many seconds."""
        child.crashes += 1
        seconds: float = min(LONGEST_BACKOFF, 0.5 * 2**child.crashes)
        child.start_at = time.monotonic() + seconds
        return seconds

    def _fork(self, child: _Child) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        # Blocked until the child has handlers of its own: one that the parent's handler received there would be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, signals.STOP)
        pid = -1
        try:
            pid = os.fork()
        finally:
            if pid != 0:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, signals.STOP)
        if pid != 0:
            log.info("worker process %d has pid %d", child.number, pid)
            return pid
        code = 1
        try:
            for number in signals.STOP:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, signals.STOP)
            signals.set_supervised()
            # What the application has opened while it was imported, as by create_all(), is the parent's.
            forget_inherited_connections()
            _drain_without(parent)
            code = LEFT if self._start() else 0
        except BaseException:
            log.exception("worker process %d failed", child.number)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            # Not sys.exit: the child must not run the parent's cleanup handlers.
            os._exit(code)

    def _reap(self) -> None:
        for child in self._alive():
            assert child.pid is not None
            found, status = os.waitpid(child.pid, os.WNOHANG)
            if found == 0:
                continue
            uptime = time.monotonic() - child.started
            child.pid = None
            if os.waitstatus_to_exitcode(status) == LEFT:
                child.left = True
                log.info("worker process %d was stopped by an operator; it is not started again", child.number)
                continue
            backoff = 0.0
            if uptime < QUICK_EXIT_SECONDS:
                backoff = self._put_off(child)
            else:
                child.crashes = 0
            if not self._stopping:
                ended = os.waitstatus_to_exitcode(status)
                how = signal.Signals(-ended).name if ended < 0 else f"exit code {ended}"
                log.error("worker process %d ended with %s; starting it again in %.1f s", child.number, how, backoff)

    def _shut_down(self) -> int:
        kill_at = time.monotonic() + self._shutdown_timeout + KILL_GRACE_SECONDS
        # A child that was forked while the signal arrived has not got it yet.
        self._send([child for child in self._alive() if not child.signalled], signal.SIGTERM)
        while self._alive():
            if time.monotonic() > kill_at:
                log.error("killing %d workers that did not stop in time", len(self._alive()))
                self._send(self._alive(), signal.SIGKILL)
            self._reap()
            time.sleep(0.05)
        return 0

    def _alive(self) -> list[_Child]:
        return [child for child in self._children if child.pid is not None]

    def _send(self, children: Sequence[_Child], number: signal.Signals) -> None:
        for child in children:
            assert child.pid is not None
            child.signalled = True
            try:
                os.kill(child.pid, number)
            except ProcessLookupError:
                log.debug("worker process %d has gone already", child.number)
