"""Alembic's autogenerate in the host leaves our tables alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import Column, Integer, MetaData, Table

from sloppyjobs.flask import SloppyJobs, include_object, include_object_for

Make = Callable[..., Flask]


def differences(db: SQLAlchemy, **options: Any) -> set[tuple[str, str]]:
    """What autogenerate would do, as the operation and the name of what it is about."""
    with db.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=options)
        found = [one[0] if isinstance(one, list) else one for one in compare_metadata(context, db.metadata)]
    return {(one[0], one[1].name) for one in found}


def old_table_of_the_host(db: SQLAlchemy, name: str) -> None:
    Table(name, MetaData(), Column("id", Integer, primary_key=True)).create(db.engine)


@pytest.mark.parametrize("prefix", ["sloppy_", "acme_"])
def test_autogenerate_drops_the_hosts_old_tables_and_none_of_ours(db: SQLAlchemy, make_app: Make, prefix: str) -> None:
    class Order(db.Model):  # type: ignore[name-defined, misc]
        id = Column(Integer, primary_key=True)

    with make_app(prefix=prefix).app_context():
        old_table_of_the_host(db, "old")
        old_table_of_the_host(db, f"{prefix}of_the_host")
        expected = {("add_table", "order"), ("remove_table", "old"), ("remove_table", f"{prefix}of_the_host")}
        assert len(differences(db)) > 15, "without the filter our tables would be dropped"
        assert differences(db, include_object=include_object) == expected
    assert include_object_for(prefix)(None, f"{prefix}job_schema", "table", True, None) is False


def test_a_table_that_the_host_declares_itself_is_the_hosts(db: SQLAlchemy, make_app: Make) -> None:
    class JobTitle(db.Model):  # type: ignore[name-defined, misc]
        __tablename__ = "sloppy_job_titles"
        id = Column(Integer, primary_key=True)

    with make_app().app_context():
        assert differences(db, include_object=include_object) == {("add_table", "sloppy_job_titles")}
        db.create_all()
        assert differences(db, include_object=include_object) == set()


def test_the_prefix_is_the_usual_one_outside_of_applications() -> None:
    assert include_object(None, "sloppy_jobs", "table", True, None) is False
    assert include_object(None, "sloppy_jobs", "table", False, None) is True
    assert include_object(None, "orders", "table", True, None) is True


APPLICATION = """
from flask import Flask
from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy
from sloppyjobs.flask import SloppyJobs, include_object

db, jobs = SQLAlchemy(), SloppyJobs()

class Order(db.Model):
    id = db.Column(db.Integer, primary_key=True)

def create_app():
    app = Flask("shop")
    app.config["SQLALCHEMY_DATABASE_URI"] = "sqlite:///FILE"
    db.init_app(app)
    jobs.init_app(app, db)
    Migrate(app, db, include_object=include_object)
    return app
"""


@pytest.mark.slow
def test_flask_migrate_and_our_own_migrations_live_side_by_side(tmp_path: Path, jobs: SloppyJobs) -> None:
    (tmp_path / "shop_db.py").write_text(APPLICATION.replace("FILE", str(tmp_path / "shop.db")))

    def flask(*arguments: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-m", "flask", "--app", "shop_db", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout + ran.stderr

    flask("jobs", "init")
    flask("db", "init")
    flask("db", "migrate", "-m", "orders")
    (revision,) = (tmp_path / "migrations" / "versions").glob("*.py")
    assert "sloppy_" not in revision.read_text()
    assert "create_table('order'" in revision.read_text()
    flask("db", "upgrade")
    assert "No changes" in flask("db", "migrate", "-m", "nothing")
    assert "nothing" not in flask("jobs", "list")
