"""The databases of the conformance suite."""

from __future__ import annotations

import os

import pytest

DATABASES = {"sqlite": "ready_sqlite_url", "postgres": "postgres_url", "mariadb": "mariadb_url"}
if os.environ.get("SLOPPYJOBS_TEST_SQLSERVER_URL"):
    DATABASES["sqlserver"] = "sqlserver_url"


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of an initialised database; the test runs once on each kind that is supported."""
    url: str = request.getfixturevalue(DATABASES[request.param])
    return url
