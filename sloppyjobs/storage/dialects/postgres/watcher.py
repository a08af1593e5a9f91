"""News from other processes: LISTEN, on a connection that does nothing else."""

from __future__ import annotations

import selectors
import time
from abc import ABC, abstractmethod
from typing import Any

from sqlalchemy import Engine

from sloppyjobs.storage.driver import detached
from sloppyjobs.storage.watcher import NoWatcher, Watcher

PROBE_SECONDS = 10.0
"""An idle server and a lost one are equally silent, so the server is asked now and then."""


def watcher(engine: Engine, channel: str) -> Watcher:
    """Waits for notifications where the driver can; elsewhere the worker's polling has to do."""
    match engine.dialect.driver:
        case "psycopg":
            return _PsycopgListener(engine, channel)
        case "psycopg2":
            return _Psycopg2Listener(engine, channel)
        case _:
            return NoWatcher()


class _Listener(ABC):
    """A connection that only listens. A lost one is opened again by the next wait."""

    def __init__(self, engine: Engine, channel: str) -> None:
        self._engine = engine
        self._channel = channel
        self._driver: Any = None
        self._pool: Any = None
        self._probe_at = 0.0

    def wait(self, seconds: float) -> bool:
        try:
            return self._wait(seconds)
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        if self._driver is not None:
            driver, self._driver = self._driver, None
            driver.close()

    @abstractmethod
    def notified(self, driver: Any, seconds: float) -> bool:
        """Wait for a notification on this connection of the driver's own."""

    def _wait(self, seconds: float) -> bool:
        if self._pool is not self._engine.pool:
            # The storage has closed its connections, because of a server that is gone or cannot be written to.
            self.close()
        if self._driver is None:
            self._listen()
            # Whatever was announced while nobody listened is news as well.
            return True
        if self.notified(self._driver, seconds):
            return True
        if time.monotonic() > self._probe_at:
            self._driver.cursor().execute("SELECT 1")
            self._probe_at = time.monotonic() + PROBE_SECONDS
        return False

    def _listen(self) -> None:
        self._pool = self._engine.pool
        self._driver = driver = detached(self._engine)
        driver.autocommit = True
        driver.cursor().execute('LISTEN "' + self._channel.replace('"', '""') + '"')
        self._probe_at = time.monotonic() + PROBE_SECONDS


class _PsycopgListener(_Listener):
    """psycopg 3."""

    def notified(self, driver: Any, seconds: float) -> bool:
        return any(True for _ in driver.notifies(timeout=seconds, stop_after=1))


class _Psycopg2Listener(_Listener):
    """psycopg2."""

    def notified(self, driver: Any, seconds: float) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(driver, selectors.EVENT_READ)
            if not selector.select(seconds):
                return False
        driver.poll()
        news = bool(driver.notifies)
        driver.notifies.clear()
        return news
