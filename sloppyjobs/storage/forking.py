"""What becomes of connections when the process forks."""

from __future__ import annotations

import gc
import os
import weakref

from sqlalchemy import Engine

from sloppyjobs.storage.dialects import in_memory

# A connection must never be used, nor closed, on both sides of a fork: SQLite can lose an acknowledged commit,
# and a server would see two clients on one socket. The child starts with an empty pool and keeps the parent's
# connections alive, unused, so that no destructor touches them.
_engines: weakref.WeakSet[Engine] = weakref.WeakSet()
_inherited: list[object] = []


def never_touch(connections: object) -> None:
    """Keep what a forked child has inherited until it ends."""
    _inherited.append(connections)


def forget_connections_after_fork(engine: Engine) -> None:
    """Let a forked child begin with an empty pool."""
    _engines.add(engine)


def forget_inherited_connections() -> None:
    """In a forked child: begin with empty pools of all engines, those of the application's other databases included.

    Nobody else knows which engines an application has made, and used, before it was forked.
    """
    for found in gc.get_objects():
        # Not isinstance, which asks proxies what they stand for.
        if issubclass(type(found), Engine):
            _forget(found)


def _forget(engine: Engine) -> None:
    if in_memory(engine):
        return  # a fork copies a database in memory, and it would be lost with its connection
    never_touch(engine.pool)
    engine.dispose(close=False)


def _in_forked_child() -> None:
    for engine in list(_engines):
        _forget(engine)


os.register_at_fork(after_in_child=_in_forked_child)
