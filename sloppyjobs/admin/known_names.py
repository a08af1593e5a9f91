"""Names of jobs and queues that exist, for somebody who knows only a part of one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

from sloppyjobs.admin.filters import scope_of
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.storage.ports import Store

QUEUES = 1_000
SETTLEMENTS = 10_000
"""How many queues, and rows of the counters, are read."""


class KnownNames(NamedTuple):
    """Names of jobs and of queues, each in order."""

    names: tuple[str, ...]
    queues: tuple[str, ...]


class NameAdmin:
    """What jobs and queues are called."""

    _storage: Store
    _definitions: Definitions

    def known_names(self, scope: Iterable[str] | None = None) -> KnownNames:
        """The jobs that are defined here or were settled lately, and the queues that were ever used.

        ``scope`` limits both to these queues. Bounded: of many thousands some are missing.
        """
        visible = scope_of(scope)
        queues, settled = self._storage.lists.names_seen(QUEUES, SETTLEMENTS)
        lanes = {*settled, *((one.queue, one.name) for one in self._definitions)}
        seen = {(queue, name) for queue, name in lanes if visible is None or queue in visible}
        used = {queue for queue in queues if visible is None or queue in visible}
        return KnownNames(tuple(sorted({name for _, name in seen})), tuple(sorted(used | {queue for queue, _ in seen})))


def like(given: str, known: Iterable[str], most: int = 5) -> list[str]:
    """The names that contain what was given, whatever its case, then those that differ by a slip of the hand."""
    names, part = list(known), given.casefold()
    found = [name for name in names if part in name.casefold()]
    found += [name for name in get_close_matches(given, names, n=most, cutoff=0.7) if name not in found]
    return found[:most]
