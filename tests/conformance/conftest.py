"""The databases of the conformance suite."""

from __future__ import annotations

import os

import pytest

DATABASES = {"sqlite": "ready_sqlite_url", "postgres": "postgres_url", "mariadb": "mariadb_url"}
if os.environ.get("SLOPPYJOBS_TEST_SQLSERVER_URL"):
    DATABASES["sqlserver"] = "sqlserver_url"

NEED_ROW_LOCKS = {"test_a_parent_that_ends_while_its_child_is_written_is_seen"}
"""Tests of what only the locks of rows keep from happening."""


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of an initialised database; the test runs once on each kind that is supported."""
    if request.param == "sqlserver" and request.function.__name__ in NEED_ROW_LOCKS:
        request.getfixturevalue("sqlserver").skip_unless_rows_are_locked()
    url: str = request.getfixturevalue(DATABASES[request.param])
    return url
