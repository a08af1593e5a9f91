"""The parts of the conformance suite where storage code differs, over the statements that all databases share."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kept_database import KeptDatabase, url_by
from plain_stores import (
    FASTER,
    NEEDED,
    PostgresPlain,
    PostgresUnlocked,
    SqlitePlain,
    SqliteUnlocked,
    faster,
    overridden,
    plain,
)
from sqlalchemy import make_url

from sloppyjobs import storage
from sloppyjobs.storage import SqlStorage
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.dialects.postgres import PlainPostgresStorage
from sloppyjobs.storage.dialects.sqlite import SqliteStorage
from sloppyjobs.testing.conformance.admin_commands import *  # noqa: F403
from sloppyjobs.testing.conformance.claim import *  # noqa: F403
from sloppyjobs.testing.conformance.enqueue import *  # noqa: F403
from sloppyjobs.testing.conformance.leases import *  # noqa: F403
from sloppyjobs.testing.conformance.locks import *  # noqa: F403
from sloppyjobs.testing.conformance.run import *  # noqa: F403
from sloppyjobs.testing.conformance.schedules import *  # noqa: F403
from sloppyjobs.testing.conformance.settle import *  # noqa: F403
from sloppyjobs.testing.conformance.sql_enqueueing import *  # noqa: F403

KINDS: dict[str, type[SqlStorage]] = {
    "sqlite-plain": SqlitePlain,
    "sqlite-unlocked": SqliteUnlocked,
    "postgres-plain": PostgresPlain,
    "postgres-unlocked": PostgresUnlocked,
}


@pytest.fixture(scope="module")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An initialised SQLite file, to be copied by each test."""
    path = tmp_path_factory.mktemp("plain") / "template.db"
    made = storage.sqlite(f"sqlite:///{path}")
    made.init()
    made.close()
    return path


@pytest.fixture(scope="module")
def kept_database(postgres_server: str, postgres_template: str) -> Iterator[KeptDatabase]:
    """A PostgreSQL database for all tests of this module."""
    with KeptDatabase(postgres_server, postgres_template) as kept:
        yield kept


WRONG = {
    "test_jobs_that_are_alike_are_written_as_if_one_by_one": "the common insert writes one instant for all of a batch",
}
"""What the common code does wrong on PostgreSQL; not strict, because it is being mended."""


@pytest.fixture(params=KINDS)
def plain_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The kind of store, and the URL of its database, which is empty."""
    reason = WRONG.get(request.node.originalname)
    if reason is not None and request.param.startswith("postgres"):
        request.applymarker(pytest.mark.xfail(reason=reason, strict=False))
    if request.param.startswith("sqlite"):
        shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "jobs.db")
        yield request.param, f"sqlite:///{tmp_path / 'jobs.db'}"
    else:
        kept: KeptDatabase = request.getfixturevalue("kept_database")
        yield request.param, url_by("psycopg", kept.url)
        kept.empty()


@pytest.fixture
def make_storage(plain_url: tuple[str, str]) -> Iterator[Callable[..., SqlStorage]]:
    """Makes stores over the test's database."""
    made: list[SqlStorage] = []

    def make(clock: Clock | None = None) -> SqlStorage:
        kind: Any = KINDS[plain_url[0]]
        made.append(kind(make_url(plain_url[1]), clock=clock))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("dialect", [SqliteStorage, PlainPostgresStorage])
def test_whatever_a_dialect_does_faster_is_taken_away(dialect: type[SqlStorage]) -> None:
    unknown = overridden(dialect) - NEEDED - FASTER
    assert unknown == set(), "say in plain_stores.py whether they are needed or only faster"
    made = plain(dialect)
    assert faster(dialect) != set()
    assert all(getattr(made, name) is getattr(SqlStorage, name) for name in faster(dialect))
