"""The parts about jobs and workers over MariaDB, by single statements: those that MySQL gets, which takes no blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sloppyjobs import storage
from sloppyjobs.storage import SqlStore
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.dialects.mariadb.server import Server
from sloppyjobs.testing.conformance.claim import *  # noqa: F403
from sloppyjobs.testing.conformance.enqueue import *  # noqa: F403
from sloppyjobs.testing.conformance.leases import *  # noqa: F403
from sloppyjobs.testing.conformance.settle import *  # noqa: F403


@pytest.fixture(params=["mariadb-statements"])
def make_storage(mariadb_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., SqlStore]]:
    """Makes storages over the database, empty as it is."""
    monkeypatch.setattr(Server, "takes_blocks", False)
    made: list[SqlStore] = []

    def make(clock: Clock | None = None) -> SqlStore:
        made.append(storage.from_url(mariadb_url, clock=clock))
        return made[-1]

    yield make
    for one in made:
        one.close()
