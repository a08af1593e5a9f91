"""PostgreSQL by the drivers that take the plain path."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from kept_database import url_by
from sqlalchemy import Engine, create_engine

from sloppyjobs.jobs import Jobs

MakeJobs = Callable[..., Jobs]


@pytest.fixture(params=["psycopg2", "pg8000"])
def driver(request: pytest.FixtureRequest) -> str:
    """The name of a driver."""
    return str(request.param)


@pytest.fixture
def driver_url(driver: str, postgres_url: str) -> str:
    """The test's database by that driver."""
    return url_by(driver, postgres_url)


@pytest.fixture
def make_engine() -> Iterator[Callable[..., Engine]]:
    """Makes engines, which are disposed of at the end."""
    made: list[Engine] = []

    def make(url: str, **options: object) -> Engine:
        made.append(create_engine(url, **options))
        return made[-1]

    yield make
    for engine in made:
        engine.dispose()


@pytest.fixture
def make_jobs() -> Iterator[MakeJobs]:
    """Makes jobs over URLs and engines, which are closed at the end."""
    made: list[Jobs] = []

    def make(target: object) -> Jobs:
        made.append(Jobs(target))
        return made[-1]

    yield make
    for jobs in made:
        jobs.storage.close()
