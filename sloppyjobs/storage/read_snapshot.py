"""Reads of one page: one connection, one transaction, one instant.

Each read on its own would check out a connection, begin, set its bounds, ask the clock and end; in a snapshot that is
done once. Nothing may be written meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

T = TypeVar("T")


class Snapshot:
    """The reads of one page. Its connection is opened by the first read, and given up with a read that fails."""

    def __init__(self, engine: Engine, begin: Callable[[Connection], datetime]) -> None:
        self.engine = engine
        self._begin = begin
        self._connection: Connection | None = None
        self._now: datetime | None = None
        self.seen: dict[Any, Any] = {}
        """What one read has found out for the next."""

    def run(self, work: Callable[[Connection], T]) -> T:
        """Read on the connection that all share."""
        try:
            if self._connection is None:
                self._connection = self.engine.connect()
                self._now = self._begin(self._connection)
            return work(self._connection)
        except SQLAlchemyError:
            # A transaction in which something failed answers no more; the next read begins another.
            self.close()
            raise

    def now(self, connection: Connection) -> datetime | None:
        """The instant of this snapshot, if the connection is its own."""
        return self._now if connection is self._connection else None

    def close(self) -> None:
        """Give the connection back."""
        connection, self._connection, self._now = self._connection, None, None
        if connection is not None:
            connection.close()


in_force: ContextVar[Snapshot | None] = ContextVar("sloppyjobs_snapshot", default=None)
"""The snapshot of this thread or task, on whatever database; mostly there is none."""


@contextmanager
def opened(snapshot: Snapshot) -> Iterator[Snapshot]:
    """Let the reads of this thread or task share a snapshot."""
    token = in_force.set(snapshot)
    try:
        yield snapshot
    finally:
        in_force.reset(token)
        snapshot.close()
