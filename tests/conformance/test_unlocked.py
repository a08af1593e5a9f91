"""The parts about claims, settlements and commands, over stores that lock nothing: conditional updates decide."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from plain_stores import UnlockedPostgres, UnlockedSqlite, opened

from sloppyjobs.storage import SqlStore
from sloppyjobs.storage.dialect import Dialect
from sloppyjobs.testing.conformance.admin_commands import *  # noqa: F403
from sloppyjobs.testing.conformance.claim import *  # noqa: F403
from sloppyjobs.testing.conformance.leases import *  # noqa: F403
from sloppyjobs.testing.conformance.settle import *  # noqa: F403
from sloppyjobs.testing.conformance.stepping import *  # noqa: F403
from sloppyjobs.testing.conformance.suspended_commands import *  # noqa: F403
from sloppyjobs.testing.conformance.suspending import *  # noqa: F403

KINDS: dict[str, type[Dialect]] = {"sqlite-unlocked": UnlockedSqlite, "postgres-unlocked": UnlockedPostgres}


@pytest.fixture(params=KINDS)
def make_storage(request: pytest.FixtureRequest) -> Iterator[Callable[..., SqlStore]]:
    """Makes stores over the test's database."""
    with opened(KINDS[request.param], request) as make:
        yield make
