"""What the tests of the suite are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import Clock, FakeClock
from sloppyjobs.storage.ports import Store
from sloppyjobs.testing.conformance.records import check_every_history

MakeStorage = Callable[..., Store]
START = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands at noon until the test moves it."""
    return FakeClock(START)


@pytest.fixture
def jobs(make_storage: MakeStorage, clock: Clock) -> Iterator[Jobs]:
    """Jobs on an empty database under the test's clock. What must always hold is checked when the test ends."""
    made = Jobs(make_storage(clock))
    yield made
    check_every_history(made)


@pytest.fixture
def live_jobs(make_storage: MakeStorage) -> Iterator[Jobs]:
    """Jobs on an empty database under the database's own clock. Checked in the same way when the test ends."""
    made = Jobs(make_storage())
    yield made
    check_every_history(made)
