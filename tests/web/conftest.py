"""An application with the UI mounted, and clients of every role."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from flask import Flask

from sloppyjobs import Jobs

sys.path.insert(0, str(Path(__file__).parent))
import scene
from hosts import Client, make_app


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    """Jobs in a SQLite file, with nothing in it."""
    made = Jobs(f"sqlite:///{tmp_path / 'jobs.db'}")
    made.storage.init()
    yield made
    made.storage.close()


@pytest.fixture(scope="session")
def played_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database after a believable day, to be copied by each test."""
    file = tmp_path_factory.mktemp("played") / "jobs.db"
    made = Jobs(f"sqlite:///{file}")
    made.storage.init()
    scene.play(made)
    made.storage.close()
    return file


@pytest.fixture
def played(played_file: Path, tmp_path: Path) -> Iterator[Jobs]:
    """Jobs after a believable day, with their handlers."""
    file = tmp_path / "played.db"
    with closing(sqlite3.connect(played_file)) as source, closing(sqlite3.connect(file)) as copy:
        source.backup(copy)
    made = Jobs(f"sqlite:///{file}")
    scene.define(made)
    yield made
    made.storage.close()


@pytest.fixture
def app(played: Jobs) -> Flask:
    """The host after a believable day."""
    return make_app(played)


@pytest.fixture
def admin(app: Flask) -> Client:
    """Somebody who may do everything."""
    return Client(app.test_client())


@pytest.fixture
def as_role(app: Flask) -> Callable[[str | None], Client]:
    """Clients of any role."""
    return lambda role: Client(app.test_client(), role)
