"""Fixtures for the tests of applications. Installing sloppyjobs makes them known to pytest.

``jobs_capture`` and ``jobs_inline`` work on the fixture ``jobs``, which the application's conftest defines::

    @pytest.fixture
    def jobs(jobs_storage):
        jobs = Jobs(jobs_storage)
        register_my_jobs(jobs)
        return jobs

    def test_signing_up_sends_a_welcome(jobs, jobs_capture):
        sign_up("ada@example.com")
        jobs_capture.assert_enqueued("send-welcome", payload={"to": "ada@example.com"})
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# Every test run imports this module, so what costs time is imported by the fixtures that need it.
if TYPE_CHECKING:
    from sloppyjobs.jobs import Jobs
    from sloppyjobs.storage.clock import FakeClock
    from sloppyjobs.storage.ports import Store
    from sloppyjobs.testing.capturing import Capture


@pytest.fixture
def jobs_clock() -> FakeClock:
    """A clock that stands at noon of 1 January 2030, UTC, until the test moves it."""
    from sloppyjobs.storage.clock import FakeClock  # noqa: PLC0415

    return FakeClock(datetime(2030, 1, 1, 12, tzinfo=UTC))


@pytest.fixture
def jobs_storage(tmp_path: Path, jobs_clock: FakeClock) -> Iterator[Store]:
    """An empty SQLite storage of the test's own, under ``jobs_clock``."""
    from sloppyjobs import storage  # noqa: PLC0415

    made = storage.sqlite(f"sqlite:///{tmp_path / 'sloppyjobs.db'}", clock=jobs_clock)
    made.init()
    yield made
    made.close()


@pytest.fixture
def jobs_capture(request: pytest.FixtureRequest) -> Iterator[Capture]:
    """What the test enqueues through the fixture ``jobs``; see ``sloppyjobs.testing.capture``."""
    from sloppyjobs.testing.capturing import capture  # noqa: PLC0415

    with capture(_jobs(request)) as captured:
        yield captured


@pytest.fixture
def jobs_inline(request: pytest.FixtureRequest) -> Iterator[None]:
    """Jobs of the fixture ``jobs`` run as soon as they are enqueued; see ``sloppyjobs.testing.inline``."""
    from sloppyjobs.testing.draining import inline  # noqa: PLC0415

    with inline(_jobs(request)):
        yield


def _jobs(request: pytest.FixtureRequest) -> Jobs:
    try:
        found: Jobs = request.getfixturevalue("jobs")
    except pytest.FixtureLookupError:
        missing = "a fixture named jobs that returns the application's Jobs"
        raise pytest.UsageError(f"{request.fixturename} needs {missing}: define it in conftest.py") from None
    return found
