"""The public conformance suite over PostgreSQL by the drivers that take the plain path.

They take the same path. So ``make test`` runs the suite once by each: with the newest libraries by pg8000, with the
oldest by psycopg2, the one that most applications have had for longest. ``tests/drivers`` runs by both with both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from kept_database import url_by
from shared_statements import share_placeholders
from sqlalchemy import create_engine

from sloppyjobs import storage
from sloppyjobs.storage import SqlStore
from sloppyjobs.storage.clock import Clock
from sloppyjobs.testing.conformance import *  # noqa: F403

DRIVERS = os.environ.get("SLOPPYJOBS_TEST_DRIVERS", "psycopg2 pg8000").split()
"""Those by which the suite runs."""


@pytest.fixture(params=DRIVERS)
def make_storage(request: pytest.FixtureRequest, postgres_url: str) -> Iterator[Callable[..., SqlStore]]:
    """Makes storages over the database, empty as it is, on engines of an application."""
    made: list[SqlStore] = []
    # Without this, pg8000 reads the certificates of the whole world for each connection, which takes longest of all.
    options = {"connect_args": {"ssl_context": False}} if request.param == "pg8000" else {}
    if request.param == "pg8000":
        share_placeholders()

    def make(clock: Clock | None = None) -> SqlStore:
        engine = create_engine(url_by(request.param, postgres_url), **options)
        made.append(storage.from_url(engine, clock=clock))
        return made[-1]

    yield make
    for one in made:
        one.engine.dispose()
