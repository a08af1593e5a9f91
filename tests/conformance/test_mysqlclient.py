"""The public conformance suite over MariaDB by mysqlclient, where it is installed: it is built for each machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import make_url

from sloppyjobs import storage
from sloppyjobs.storage import SqlStore
from sloppyjobs.storage.clock import Clock
from sloppyjobs.testing.conformance import *  # noqa: F403

pytest.importorskip("MySQLdb", reason="mysqlclient is not installed: it needs a compiler and Debian's libmariadb-dev")


@pytest.fixture(params=["mysqlclient"])
def make_storage(mariadb_url: str) -> Iterator[Callable[..., SqlStore]]:
    """Makes storages over the database, empty as it is."""
    made: list[SqlStore] = []

    def make(clock: Clock | None = None) -> SqlStore:
        made.append(storage.from_url(make_url(mariadb_url).set(drivername="mysql+mysqldb"), clock=clock))
        return made[-1]

    yield make
    for one in made:
        one.close()
