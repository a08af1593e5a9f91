"""A PostgreSQL behind a proxy that fails on command."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from proxy import FaultyProxy, server_address


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[FaultyProxy]:
    """In front of the test's own database; ``proxied_url`` leads through it."""
    with FaultyProxy(server_address(postgres_url)) as running:
        yield running


@pytest.fixture
def proxied_url(proxy: FaultyProxy, postgres_url: str) -> str:
    """The test's database, through the proxy."""
    return proxy.url(postgres_url)
