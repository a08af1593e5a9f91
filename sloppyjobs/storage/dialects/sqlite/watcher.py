"""News from other processes: SQLite counts the commits of others."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from sloppyjobs.storage.dialects.sqlite.transactions import MEMORY
from sloppyjobs.storage.driver import detached
from sloppyjobs.storage.same_file import SameFile


class ChangeWatcher:
    """Asks every few milliseconds whether another connection has committed, which costs microseconds."""

    EVERY = 0.015
    IDLE_EVERY = 0.05
    """Where nothing has happened for a while, looking less often is enough."""
    IDLE_AFTER = 0.3

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._driver: Any = None
        self._seen: int | None = None
        self._last_change = time.monotonic()
        name = engine.url.database
        self._file = None if name in MEMORY or name.startswith("file:") else SameFile(Path(name))

    def wait(self, seconds: float) -> bool:
        if self._engine.url.database in MEMORY:
            # One connection is all there is: looking would keep the others from it.
            time.sleep(min(seconds, self.EVERY))
            return True
        if self._file is not None and self._file.was_replaced():
            self.close()
            # Or the next connection would be one of the pool's, which leads to the old file.
            self._engine.dispose()
            self._file.accept()
            # Its number may be the same, and there may have been commits before it is first read.
            self._seen = None
        until = time.monotonic() + seconds
        while True:
            version = self._version()
            changed, self._seen = version != self._seen, version
            now = time.monotonic()
            if changed:
                self._last_change = now
                return True
            if now >= until:
                return False
            time.sleep(self.EVERY if now - self._last_change < self.IDLE_AFTER else self.IDLE_EVERY)

    def close(self) -> None:
        if self._driver is not None:
            driver, self._driver = self._driver, None
            driver.close()

    def _version(self) -> int:
        if self._driver is None:
            self._driver = detached(self._engine)
        number: int = self._driver.execute("PRAGMA data_version").fetchone()[0]
        return number
