"""Named locks for applications."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from sloppyjobs import errors
from sloppyjobs.domain import options
from sloppyjobs.storage import SqlStorage


class Locks:
    """Locks on behalf of one owner. Acquiring again what the owner holds prolongs it."""

    def __init__(self, storage: SqlStorage, owner: str) -> None:
        self._storage = storage
        self.owner = options.text("owner", owner)

    def acquire(self, name: str, ttl: float | timedelta = 30) -> bool:
        """Take the lock for ``ttl`` seconds; False when somebody else holds it."""
        return self._storage.locks.acquire(options.text("name", name), self.owner, _ttl(ttl))

    def extend(self, name: str, ttl: float | timedelta = 30) -> bool:
        """Prolong a lock that is held to ``ttl`` seconds from now; False when it is lost."""
        return self._storage.locks.extend(options.text("name", name), self.owner, _ttl(ttl))

    def release(self, name: str) -> bool:
        """Give the lock back; False when it was not held."""
        return self._storage.locks.release(options.text("name", name), self.owner)


@contextmanager
def held_lock(storage: SqlStorage, name: str, token: str, ttl: float | timedelta) -> Iterator[Locks]:
    """Hold a lock for the length of a block; the value can extend it."""
    locks = Locks(storage, token)
    if not locks.acquire(name, ttl):
        raise errors.LockConflict(f"the lock {name!r} is held by somebody else")
    try:
        yield locks
    finally:
        locks.release(name)


def _ttl(ttl: float | timedelta) -> float:
    return options.seconds("ttl", ttl, zero=False)
