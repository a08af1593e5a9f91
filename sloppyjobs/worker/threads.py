"""The worker's own threads: each repeats one step, also after errors.

An outage is logged once, retried with a growing delay, and its end is logged too.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from sloppyjobs.domain.log_lines import get_logger

log = get_logger("sloppyjobs.worker")

LONGEST_BACKOFF = 15.0


def backoff(failures: int, longest: float = LONGEST_BACKOFF) -> float:
    """How many seconds to wait after so many failures in a row."""
    seconds: float = min(longest, 0.1 * 2 ** min(failures, 10))
    return seconds * (0.5 + random.random() / 2)  # noqa: S311


class Outage:
    """Counts failures in a row, so that only the beginning and the end of an outage are logged."""

    def __init__(self, what: str, longest_backoff: float = LONGEST_BACKOFF) -> None:
        self._what = what
        self._longest_backoff = longest_backoff
        self._failures = 0

    def failed(self, error: BaseException) -> float:
        """Count a failure; returns how long to wait before the next try."""
        self._failures += 1
        if self._failures == 1:
            log.error("%s failed and will be tried again: %s: %s", self._what, type(error).__name__, error)
            log.debug("the first failure", exc_info=error)
        return backoff(self._failures, self._longest_backoff)

    def succeeded(self) -> None:
        """Reset the count."""
        if self._failures:
            log.warning("%s works again after %d failed tries", self._what, self._failures)
            self._failures = 0


class BackgroundThread:
    """A thread that repeats ``step`` until stopped; the step returns how many seconds to wait."""

    def __init__(
        self,
        name: str,
        what: str,
        step: Callable[[], float],
        close: Callable[[], None] | None = None,
        *,
        longest_backoff: float = LONGEST_BACKOFF,
    ) -> None:
        self._step = step
        self._close = close
        self._outage = Outage(what, longest_backoff)
        self._stopped = threading.Event()
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name=f"sloppyjobs-{name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Do not wait any longer."""
        self._woken.set()

    def stop(self, timeout: float = 5.0) -> None:
        """End after the current step."""
        self._stopped.set()
        self._woken.set()
        self._thread.join(timeout)

    def _repeat(self) -> None:
        while not self._stopped.is_set():
            try:
                seconds = self._step()
            except Exception as error:
                seconds = self._outage.failed(error)
            else:
                self._outage.succeeded()
            self._woken.wait(seconds)
            self._woken.clear()
        if self._close is not None:
            self._close()
