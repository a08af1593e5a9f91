"""A PostgreSQL behind a proxy that fails on command."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from proxy import FaultyProxy, server_address

from sloppyjobs import Jobs
from sloppyjobs.testing import history


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[FaultyProxy]:
    """In front of the test's own database; ``proxied_url`` leads through it."""
    with FaultyProxy(server_address(postgres_url)) as running:
        yield running


@pytest.fixture
def proxied_url(proxy: FaultyProxy, postgres_url: str) -> str:
    """The test's database, through the proxy."""
    return proxy.url(postgres_url)


@pytest.fixture(autouse=True)
def sound(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever was lost on the way: the tables keep every promise when the test ends."""
    names = [name for name in ("postgres_url", "mariadb_url") if name in request.fixturenames]
    urls = [request.getfixturevalue(name) for name in names]
    yield
    for url in urls:
        jobs = Jobs(url)
        history.assert_sound(jobs)
        jobs.storage.close()
