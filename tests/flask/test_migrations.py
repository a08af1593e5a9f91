"""Alembic's autogenerate in the host leaves our tables alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm_start
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import Column, Integer, MetaData, Table

from sloppyjobs.autogenerate import our_tables
from sloppyjobs.flask import include_object, include_object_for

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
        assert differences(db) == expected
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


def test_our_tables_are_known_by_their_version_table_whatever_their_prefix() -> None:
    ours = {
        (None, f"acme_{name}") for name in ("jobs", "job_schema", "job_events", "recurring_jobs", "job_of_tomorrow")
    }
    hosts = {(None, "jobs"), (None, "acme_orders"), ("other", "acme_jobs"), (None, "job_schema")}
    assert set(our_tables(ours | hosts)) == ours
    assert set(our_tables(hosts)) == set()


APPLICATION = """
from flask import Flask
from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy
from sloppyjobs.flask import SloppyJobs

db, jobs = SQLAlchemy(), SloppyJobs()

class Order(db.Model):
    id = db.Column(db.Integer, primary_key=True)

def create_app():
    app = Flask("shop")
    app.config["SQLALCHEMY_DATABASE_URI"] = "sqlite:///FILE"
    db.init_app(app)
    ORDER
    return app
"""
JOBS_FIRST = "jobs.init_app(app, db); Migrate(app, db)"
MIGRATE_FIRST = "Migrate(app, db, render_as_batch=True); jobs.init_app(app, db, prefix='acme_')"


@pytest.mark.slow
@pytest.mark.parametrize("order", [JOBS_FIRST, MIGRATE_FIRST])
def test_flask_migrate_leaves_our_tables_without_being_told(tmp_path: Path, order: str) -> None:
    text = APPLICATION.replace("FILE", str(tmp_path / "shop.db")).replace("ORDER", order)
    (tmp_path / "shop_db.py").write_text(text)

    def flask(*arguments: str) -> str:
        ran = warm_start.run(
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
    assert "drop_" not in revision.read_text().split("def downgrade")[0]
    assert "job_" not in revision.read_text()
    assert "create_table('order'" in revision.read_text()
    flask("db", "upgrade")
    said = flask("db", "migrate", "-m", "nothing")
    assert "tables of sloppyjobs stay" in said
    assert "No changes" in said
    assert "nothing" not in flask("jobs", "list")


ENVIRONMENT = """
from alembic import context
from sqlalchemy import Column, Integer, MetaData, Table, create_engine

import sloppyjobs.autogenerate

sloppyjobs.autogenerate.register()
metadata = MetaData()
Table("orders", metadata, Column("id", Integer, primary_key=True))

with create_engine("URL").connect() as connection:
    context.configure(connection=connection, target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()
"""


@pytest.mark.slow
def test_plain_alembic_leaves_our_tables_after_one_line(tmp_path: Path, database_url: str) -> None:
    def alembic(*arguments: str) -> None:
        command = [sys.executable, "-m", "alembic", *arguments]
        ran = warm_start.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr

    alembic("init", "migrations")
    url = database_url.replace("postgresql://", "postgresql+psycopg://")
    (tmp_path / "migrations" / "env.py").write_text(ENVIRONMENT.replace("URL", url))
    alembic("revision", "--autogenerate", "-m", "orders")
    (revision,) = (tmp_path / "migrations" / "versions").glob("*.py")
    assert "create_table('orders'" in revision.read_text()
    assert "sloppy_" not in revision.read_text()
