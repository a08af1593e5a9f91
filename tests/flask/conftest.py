"""Applications that every test leaves behind without open connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask_sqlalchemy import SQLAlchemy

from sloppyjobs.flask import SloppyJobs

Make = Callable[..., Flask]


@pytest.fixture
def db() -> SQLAlchemy:
    """A Flask-SQLAlchemy of the test's own."""
    return SQLAlchemy()


@pytest.fixture
def jobs() -> SloppyJobs:
    """Jobs that are not bound yet."""
    return SloppyJobs()


@pytest.fixture
def make_app(tmp_path: Path, prepare_sqlite: Callable[[Path], str], db: SQLAlchemy, jobs: SloppyJobs) -> Iterator[Make]:
    """Makes applications, each with a SQLite file and the tables in place."""
    made: list[Flask] = []

    def make(name: str = "app", *, bind_key: str | None = None, init: bool = True, **options: Any) -> Flask:
        app = Flask(name)
        files = {None: tmp_path / f"{name}.db", "work": tmp_path / f"{name}-work.db"}
        if init and bind_key in files and "prefix" not in options and not files[bind_key].exists():
            prepare_sqlite(files[bind_key])
        app.config["SQLALCHEMY_DATABASE_URI"] = f"sqlite:///{files[None]}"
        app.config["SQLALCHEMY_BINDS"] = {"work": f"sqlite:///{files['work']}"}
        app.secret_key = "for a test"
        db.init_app(app)
        jobs.init_app(app, db, bind_key, **options)
        if init:
            jobs.bound(app).storage.init()
        made.append(app)
        return app

    yield make
    for app in made:
        jobs.bound(app).embedded.stop()
        with app.app_context():
            db.session.remove()
            for engine in db.engines.values():
                engine.dispose()
