"""What the tests of schedules share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from sloppyjobs.domain.model import Job
from sloppyjobs.jobs import Jobs
from sloppyjobs.testing.conformance.records import unless_refused


@pytest.fixture
def scheduler(jobs: Jobs) -> Jobs:
    """Jobs that know a job to schedule."""
    jobs.declare("sync")
    return jobs


def utc(text: str) -> datetime:
    """An instant, from its text without a zone."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def occurrences(fired: Sequence[Job]) -> list[datetime | None]:
    """The occurrences that jobs stand for."""
    return [job.occurrence_at for job in fired]


def damage(jobs: Jobs, name: str, **values: Any) -> None:
    """Change the row of a schedule behind the library's back."""
    with unless_refused():
        jobs.storage.inspection.set_schedule(name, **values)
