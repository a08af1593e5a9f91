"""Named locks for applications."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from sloppyjobs import errors
from sloppyjobs.domain import options
from sloppyjobs.storage.ports import LockPort


class Locks:
    """Locks on behalf of one owner. Acquiring again what the owner holds prolongs it."""

    def __init__(self, locks: LockPort, owner: str) -> None:
        self._locks = locks
        self.owner = options.text("owner", owner)

    def acquire(self, name: str, ttl: float | timedelta = 30) -> bool:
        """Take the lock for ``ttl`` seconds; False when somebody else holds it."""
        return self._locks.acquire(options.text("name", name), self.owner, _ttl(ttl))

    def extend(self, name: str, ttl: float | timedelta = 30) -> bool:
        """Prolong a lock that is held to ``ttl`` seconds from now; False when it is lost."""
        return self._locks.extend(options.text("name", name), self.owner, _ttl(ttl))

    def release(self, name: str) -> bool:
        """Give the lock back; False when it was not held."""
        return self._locks.release(options.text("name", name), self.owner)


@contextmanager
def held_lock(locks: LockPort, name: str, token: str, ttl: float | timedelta) -> Iterator[Locks]:
    """Hold a lock for the length of a block; the value can extend it."""
    held = Locks(locks, token)
    if not held.acquire(name, ttl):
        raise errors.LockConflict(f"the lock {name!r} is held by somebody else")
    try:
        yield held
    finally:
        held.release(name)


def _ttl(ttl: float | timedelta) -> float:
    return options.seconds("ttl", ttl, zero=False)
