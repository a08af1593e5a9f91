"""How long a statement of ours waits for a sign of life from the database."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

DEFAULT = 10.0
"""Seconds of silence after which a connection is given up; short enough for another try within a web request."""

MAINTENANCE = 60.0
"""The same for the removal of old jobs: a statement touches thousands of rows, and nobody waits for it."""

IDLE_TRANSACTION = 10.0
"""Seconds after which a server ends a transaction that asks for nothing: its client is frozen, and holds locks."""

NO_LIMIT = math.inf
"""For migrations, which may have to wait for a lock or to build an index."""

_bounds: ContextVar[tuple[float, float]] = ContextVar("sloppyjobs_answer_timeout", default=(0.0, math.inf))


@contextmanager
def answer_timeout(*, at_least: float = 0.0, at_most: float = math.inf) -> Iterator[None]:
    """Bound the timeout, in this thread or task, whatever was set for the connections that it uses."""
    token = _bounds.set((at_least, max(at_least, at_most)))
    try:
        yield
    finally:
        _bounds.reset(token)


def in_force(usual: float) -> float:
    """The seconds to wait now, on a connection that would wait for ``usual``."""
    least, most = _bounds.get()
    return max(least, min(most, usual))
