"""The databases of the conformance suite."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from kept_database import KeptDatabases, Server, WarmDatabase

DATABASES = {"sqlite": "ready_sqlite_url", "postgres": "postgres_url", "mariadb": "mariadb_url"}
if os.environ.get("SLOPPYJOBS_TEST_SQLSERVER_URL"):
    DATABASES["sqlserver"] = "sqlserver_url"

NEED_ROW_LOCKS = {"test_a_parent_that_ends_while_its_child_is_written_is_seen"}
"""Tests of what only the locks of rows keep from happening."""


@pytest.fixture(scope="session")
def warm_database(server: Server, kept_databases: KeptDatabases) -> Iterator[WarmDatabase]:
    """A database that is handed on with the connections to it: no test of the suite starts processes."""
    with WarmDatabase(server, kept_databases.template) as warm:
        yield warm


@pytest.fixture
def postgres_url(server: Server, warm_database: WarmDatabase) -> Iterator[str]:
    """The URL of a PostgreSQL database of the test's own, with the schema in place."""
    yield server.url_of(warm_database.take())
    warm_database.give_back()


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of an initialised database; the test runs once on each kind that is supported."""
    if request.param == "sqlserver" and request.function.__name__ in NEED_ROW_LOCKS:
        request.getfixturevalue("sqlserver").skip_unless_rows_are_locked()
    url: str = request.getfixturevalue(DATABASES[request.param])
    return url
