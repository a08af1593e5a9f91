"""MariaDB beside PostgreSQL in the same run: drain and enqueue, each server with what it promises by default."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import OperationalError

from benchmarks import databases, subject
from benchmarks.report import Report, middle, ratio, spread
from benchmarks.rounds import Measurement, Results, alternate

ENVIRONMENT = "SLOPPYJOBS_BENCH_MARIADB_URL"
POSTGRES = "PostgreSQL"
SECONDS = 60.0

_numbers = itertools.count()


@contextmanager
def server(url: str | None) -> Iterator[str]:
    """The URL of a MariaDB: the given one, the environment's, or one of its own with its durable defaults."""
    if find_spec("pymysql") is None:
        raise click.ClickException("MariaDB is measured by PyMySQL: pip install -e '.[postgres,mysql,bench]'")
    given = url or os.environ.get(ENVIRONMENT)
    if given:
        yield given
        return
    if shutil.which("mariadb-install-db") is None:
        raise click.ClickException(f"no MariaDB is installed here: name one by --mariadb or {ENVIRONMENT}")
    with tempfile.TemporaryDirectory(prefix="mariadb") as directory:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        data, user = Path(directory) / "data", []
        data.mkdir()
        if os.geteuid() == 0:
            user = ["--user=mysql"]
            for place in (Path(directory), data):
                shutil.chown(place, "mysql")
        places = ["--no-defaults", *user, f"--datadir={data}"]
        install = ["mariadb-install-db", *places, "--auth-root-authentication-method=normal"]
        subprocess.run(install, check=True, capture_output=True)
        program = shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin")
        where = [f"--socket={directory}/socket", f"--port={port}", "--bind-address=127.0.0.1"]
        # Room for what a benchmark writes, as any server has that is used in earnest.
        settings = ["--innodb-buffer-pool-size=1G", "--innodb-log-file-size=1G"]
        started = subprocess.Popen(
            [str(program), *places, *where, *settings], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            found = f"mysql+pymysql://root@127.0.0.1:{port}/"
            _wait(found)
            yield found
        finally:
            started.terminate()
            started.wait()


def _wait(url: str) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return _execute(url, "DO 1")
        except OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _execute(url: str, statement: str) -> None:
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()


@contextmanager
def fresh(server_url: str) -> Iterator[str]:
    """A new, empty database on the server."""
    name = f"sloppy_bench_{os.getpid()}_{next(_numbers)}"
    _execute(server_url, f"CREATE DATABASE {name}")
    try:
        yield make_url(server_url).set(database=name).render_as_string(hide_password=False)
    finally:
        _execute(server_url, f"DROP DATABASE {name}")


def once(place: Any, action: str, filled: int, params: dict[str, Any]) -> dict[str, Any]:
    """Measure on a new database."""
    with place() as url:
        subject.run("ours", "prepare", url=url, jobs=filled)
        return subject.run("ours", action, url=url, **params)


def run(postgres: str, mariadb: str, jobs: int, rounds: int) -> list[Report]:
    """Drain, single enqueue and bulk enqueue on both."""
    report = Report(
        "mariadb: one process, beside PostgreSQL",
        ("kind", "database", "jobs/s", "lowest-highest", "x PostgreSQL", "client CPU us/job", "server CPU us/job"),
    )
    report.note(databases.describe(postgres))
    report.note(_describe(mariadb))
    places = {POSTGRES: partial(databases.fresh_postgres, postgres), "MariaDB": partial(fresh, mariadb)}
    for title, action, filled, params in (
        (f"drain by coroutines, {jobs:,} jobs", "drain", jobs, {"jobs": jobs, "handlers": "coroutines"}),
        (f"drain by 16 threads, {jobs:,} jobs", "drain", jobs, {"jobs": jobs, "handlers": "threads"}),
        (f"single enqueue, {jobs // 20:,} jobs", "enqueue_single", 0, {"jobs": jobs // 20}),
        (f"bulk enqueue by 1000, {jobs:,} jobs", "enqueue_bulk", 0, {"jobs": jobs, "call": 1000}),
    ):
        systems: dict[str, Measurement] = {
            name: partial(once, place, action, filled, params) for name, place in places.items()
        }
        _tabulate(report, title, alternate(systems, rounds, report))
    report.note(f"medians of {rounds} alternating rounds")
    return [report]


def _tabulate(report: Report, title: str, results: Results) -> None:
    rates = {name: middle(found, "per_second") for name, found in results.items()}
    for name, found in results.items():
        report.add(
            title,
            name,
            rates[name],
            spread(found, "per_second"),
            ratio(rates[name], rates.get(POSTGRES)),
            middle(found, "cpu_us_per_job"),
            middle(found, "server_us_per_job"),
        )


def _describe(url: str) -> str:
    engine = create_engine(url)
    with engine.connect() as connection:
        version, flush = connection.execute(text("SELECT version(), @@innodb_flush_log_at_trx_commit")).one()
    engine.dispose()
    return f"MariaDB {version}, innodb_flush_log_at_trx_commit {flush}"
