"""Failed logins, counted per client for a minute: in this process, and in the database for all of them.

The database holds a bounded number of rows, because clients share them: see ``_row``. While it does not answer, each
process counts for itself, so that an outage neither admits nor refuses everybody.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from flask import current_app

from sloppyjobs.errors import JobsError
from sloppyjobs.storage.ports import DatabaseError

log = logging.getLogger(__name__)

WINDOW = 60.0
TRIES = 10
CLIENTS = 1024
ADMIT_EVERY_SECONDS = 2.0
"""Of a client that is refused, one try in so many seconds is checked all the same."""
ROWS = 8192
"""Rows in the database for one kind of client, at most."""


class FailureCounter(Protocol):
    """What counts for all processes: ``jobs.admin``."""

    def failures(self, client: str, window: float = ...) -> tuple[int, float]:
        """How often a client failed, and the seconds until that is forgotten."""

    def count_failure(self, client: str, window: float = ...) -> None:
        """Count one failure more."""


class LocalThrottle:
    """Closes for a client after ten failures in a minute, until the oldest of them is a minute old."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, list[float]] = OrderedDict()
        self._admitted_at: OrderedDict[str, float] = OrderedDict()
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

    def admits_one_more(self, client: str) -> bool:
        """Whether this try of a refused client is checked all the same; the next one is not, for a while.

        Whoever knows the password comes in, although somebody else at the same address guesses; and guessing stays
        slow, because right and wrong tries take turns.
        """
        now = self._clock()
        with self._lock:
            if now - self._admitted_at.get(client, -math.inf) < ADMIT_EVERY_SECONDS:
                return False
            self._admitted_at[client] = now
            self._admitted_at.move_to_end(client)
            while len(self._admitted_at) > CLIENTS:
                self._admitted_at.popitem(last=False)
        return True

    def _recent(self, client: str) -> list[float]:
        since = self._clock() - WINDOW
        return [moment for moment in self._failures.get(client, ()) if moment > since]


class Throttle:
    """The same for all processes, once ``share`` has named a shared counter."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._local = LocalThrottle()
        self._shared: Callable[[], FailureCounter] | None = None
        self._reachable = True

    def share(self, counter: Callable[[], FailureCounter]) -> None:
        """Count there as well."""
        self._shared = counter

    def failed(self, client: str) -> None:
        """Count a failure."""
        self._local.failed(client)
        self._ask(lambda counter: counter.count_failure(_row(self._kind, client), WINDOW))

    def closed(self, client: str) -> int:
        """For how many more seconds the client is refused; 0 when it is not."""
        wait = self._local.closed(client)
        if wait:
            return wait
        number, seconds = self._ask(lambda counter: counter.failures(_row(self._kind, client), WINDOW)) or (0, 0.0)
        return max(1, math.ceil(seconds)) if number >= TRIES else 0

    def refuses(self, client: str) -> bool:
        """Whether a try is not even checked, because the client has failed too often."""
        return bool(self.closed(client)) and not self._local.admits_one_more(client)

    def _ask(self, question: Callable[[FailureCounter], tuple[int, float] | None]) -> tuple[int, float] | None:
        if self._shared is None:
            return None
        try:
            answer = question(self._shared())
        except (JobsError, DatabaseError) as error:
            if self._reachable:
                log.warning("failed logins are counted in this process alone: %s", type(error).__name__)
            self._reachable = False
            return None
        self._reachable = True
        return answer


def network(address: str | None) -> str:
    """The client behind an address. Whoever has one IPv6 address has 2^64 of them: all of these are one client."""
    try:
        found = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return "a local socket"
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is None:
            return str(ipaddress.ip_network((found, 64), strict=False))
        found = found.ipv4_mapped
    return str(found)


def _row(kind: str, client: str) -> str:
    """The row of a client, which others may share. Its number depends on the secret key: nobody can aim at a row."""
    key = str(current_app.secret_key or "").encode()[:64]
    digest = hashlib.blake2b(client.encode("utf-8", "replace"), key=key, digest_size=8).digest()
    return f"{kind} {int.from_bytes(digest) % ROWS}"
