"""Processes that start at once create the tables once; one that is interrupted leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import inspect

from sloppyjobs import Jobs, storage
from sloppyjobs.storage.schema.version import VERSION


def init(url: str, number: int, begin: Callable[[], object]) -> int:
    jobs = Jobs(url)
    begin()
    version = jobs.storage.init()
    jobs.declare("greet")
    jobs.enqueue("greet", number)
    return version


EMPTY = {"sqlite": "sqlite_url", "postgres": "empty_postgres_url", "mariadb": "empty_mariadb_url"}
if os.environ.get("SLOPPYJOBS_TEST_SQLSERVER_URL"):
    EMPTY["sqlserver"] = "empty_sqlserver_url"


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest) -> str:
    """The URL of a database without our tables."""
    url: str = request.getfixturevalue(EMPTY[request.param])
    return url


@pytest.mark.parametrize("empty_url", EMPTY, indirect=True)
def test_eight_processes_that_start_at_once_create_the_tables_once(empty_url: str, crowd: Any) -> None:
    assert crowd("init", empty_url) == [VERSION] * 8
    jobs = Jobs(empty_url)
    assert sorted(claim.payload for claim in jobs.claim("w1", limit=10)) == list(range(8))
    jobs.storage.close()


def test_an_interrupted_migration_leaves_nothing_behind(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted = storage.from_url(empty_url)
    run = interrupted.migrations._run_alembic

    def stumble(*given: Any) -> None:
        run(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(interrupted.migrations, "_run_alembic", stumble)
    with pytest.raises(KeyboardInterrupt):
        interrupted.init()
    assert inspect(interrupted.engine).get_table_names() == []
    monkeypatch.undo()
    assert interrupted.init() == VERSION
    interrupted.close()


if __name__ == "__main__":
    from crowd import main

    main(globals())
