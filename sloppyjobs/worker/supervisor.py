"""Several worker processes under one parent, which starts a crashed one again.

The parent forks before it has threads or connections, does no work of its own, and hands signals on.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sloppyjobs.worker import signals

log = logging.getLogger("sloppyjobs.supervisor")

SHORT_LIFE = 5.0
"""A child that lives shorter than this is started again more and more slowly."""

LONGEST_PAUSE = 30.0
GRACE = 5.0


@dataclass
class _Seat:
    """One of the processes to keep running."""

    number: int
    pid: int | None = None
    started: float = 0.0
    crashes: int = 0
    start_at: float = 0.0
    told: bool = False
    """Whether it was told to stop."""


def supervise(start: Callable[[], None], processes: int, shutdown_timeout: float = 30.0) -> int:
    """Run ``start`` in so many child processes until SIGTERM or SIGINT; returns the exit code.

    Children drain on the signal, and give back at once on a second one; what still lives some seconds after
    ``shutdown_timeout`` is killed.
    """
    if threading.active_count() > 1:
        log.warning("the supervisor forks a process that has threads; start workers before them")
    return _Supervisor(start, processes, shutdown_timeout).run()


def _leave_with(parent: int) -> None:
    """Drain when the parent has gone without a word, so that no worker is left that nobody supervises."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        log.error("the supervisor has gone; draining")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=look, name="sloppyjobs-parent", daemon=True).start()


class _Supervisor:
    def __init__(self, start: Callable[[], None], processes: int, shutdown_timeout: float) -> None:
        self._start = start
        self._seats = [_Seat(number + 1) for number in range(processes)]
        self._shutdown_timeout = shutdown_timeout
        self._stopping = False
        self._repeated = signals.Repeated()

    def run(self) -> int:
        before = {number: signal.signal(number, self._stop) for number in signals.STOP}
        try:
            while not self._stopping:
                self._fill_seats()
                self._reap()
                time.sleep(0.1)
            return self._wind_down()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, _frame: object) -> None:
        again = self._repeated()
        if again is None:
            return
        log.info("%s: stopping %d workers", signal.Signals(number).name, len(self._living()))
        self._stopping = True
        self._tell(self._living(), signals.GIVE_BACK if again else signal.SIGTERM)

    def _fill_seats(self) -> None:
        for seat in self._seats:
            if seat.pid is None and not self._stopping and time.monotonic() >= seat.start_at:
                seat.started = time.monotonic()
                seat.pid = self._fork(seat)

    def _fork(self, seat: _Seat) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        # Blocked until the child has handlers of its own: a signal that met the parent's there would be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, signals.STOP)
        pid = os.fork()
        if pid != 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, signals.STOP)
            log.info("worker process %d has pid %d", seat.number, pid)
            return pid
        code = 1
        try:
            for number in signals.STOP:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, signals.STOP)
            signals.supervised_from_now_on()
            _leave_with(parent)
            self._start()
            code = 0
        except BaseException:
            log.exception("worker process %d failed", seat.number)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            # Not sys.exit: the parent's cleanup handlers are not the child's to run.
            os._exit(code)

    def _reap(self) -> None:
        for seat in self._living():
            assert seat.pid is not None
            found, status = os.waitpid(seat.pid, os.WNOHANG)
            if found == 0:
                continue
            lived = time.monotonic() - seat.started
            seat.pid = None
            seat.crashes = seat.crashes + 1 if lived < SHORT_LIFE else 0
            pause = min(LONGEST_PAUSE, 0.5 * 2**seat.crashes) if seat.crashes else 0.0
            seat.start_at = time.monotonic() + pause
            if not self._stopping:
                ended = os.waitstatus_to_exitcode(status)
                how = signal.Signals(-ended).name if ended < 0 else f"exit code {ended}"
                log.error("worker process %d ended with %s; starting it again in %.1f s", seat.number, how, pause)

    def _wind_down(self) -> int:
        kill_at = time.monotonic() + self._shutdown_timeout + GRACE
        # A child that was forked while the signal arrived has not been told yet.
        self._tell([seat for seat in self._living() if not seat.told], signal.SIGTERM)
        while self._living():
            if time.monotonic() > kill_at:
                log.error("killing %d workers that did not stop in time", len(self._living()))
                self._tell(self._living(), signal.SIGKILL)
            self._reap()
            time.sleep(0.05)
        return 0

    def _living(self) -> list[_Seat]:
        return [seat for seat in self._seats if seat.pid is not None]

    def _tell(self, seats: Sequence[_Seat], number: signal.Signals) -> None:
        for seat in seats:
            assert seat.pid is not None
            seat.told = True
            try:
                os.kill(seat.pid, number)
            except ProcessLookupError:
                log.debug("worker process %d has gone already", seat.number)
