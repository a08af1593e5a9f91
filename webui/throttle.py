"""Failed logins, counted per client for a minute."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

WINDOW = 60.0
TRIES = 10
CLIENTS = 1024


class Throttle:
    """Closes for a client after ten failures in a minute, until the oldest of them is a minute old."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, list[float]] = OrderedDict()
        self._lock = threading.Lock()

    def failed(self, client: str) -> None:
        """Count a failure."""
        with self._lock:
            recent = [*self._recent(client), self._clock()]
            self._failures[client] = recent[-TRIES:]
            self._failures.move_to_end(client)
            while len(self._failures) > CLIENTS:
                self._failures.popitem(last=False)

    def closed(self, client: str) -> int:
        """For how many more seconds the client is refused; 0 when it is not."""
        with self._lock:
            recent = self._recent(client)
        return 0 if len(recent) < TRIES else max(1, math.ceil(recent[0] + WINDOW - self._clock()))

    def _recent(self, client: str) -> list[float]:
        since = self._clock() - WINDOW
        return [moment for moment in self._failures.get(client, ()) if moment > since]
