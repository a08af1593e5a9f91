"""Which driver a URL gets, and what is refused at binding, in words that hold no password."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm_start
from kept_database import url_by
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool

from sloppyjobs import Jobs, errors, storage

MakeJobs = Callable[..., Jobs]
SECRET = "hunter2-secret"


def test_a_plain_url_takes_psycopg_3_first() -> None:
    assert storage.from_url("postgresql://localhost/app").engine.dialect.driver == "psycopg"
    assert storage.from_url("postgres://localhost/app").engine.dialect.driver == "psycopg"


def test_a_plain_url_takes_psycopg2_where_psycopg_3_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    made = storage.from_url("postgresql://localhost/app")
    assert made.engine.dialect.driver == "psycopg2"


@pytest.mark.parametrize("url", ["postgresql://localhost/app", "postgresql+psycopg://localhost/app"])
def test_without_any_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    for name in ("psycopg", "psycopg2"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(errors.DriverMissing, match=r"sloppyjobs\[postgres\]"):
        Jobs(url)


def test_a_driver_that_is_named_and_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pg8000", None)
    with pytest.raises(errors.DriverMissing, match=r"pg8000.*sloppyjobs\[postgres\]"):
        Jobs("postgresql+pg8000://localhost/app")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (f"postgresql+asyncpg://u:{SECRET}@localhost/app", r"asyncpg is an asynchronous driver.*postgresql://.*async"),
        (f"postgresql+psycopg_async://u:{SECRET}@localhost/app", r"psycopg_async is an asynchronous driver"),
        ("sqlite+aiosqlite:///app.db", r"aiosqlite is an asynchronous driver.*sqlite://"),
        (f"postgresql://u:{SECRET}@localhost:{SECRET}/app", r"port is not a number"),
        (f"postgresql://u:{SECRET}:{SECRET}@localhost:54x2/app", r"port is not a number"),
        (f"postgresql+nonesuch://u:{SECRET}@localhost/app", r"postgresql\+nonesuch"),
        (f"u:{SECRET}@localhost/app", r"not a database URL"),
        (f"host=localhost password={SECRET}", r"not a database URL"),
    ],
)
def test_a_url_that_cannot_work_is_refused_at_binding_and_by_the_commands(url: str, words: str) -> None:
    with pytest.raises(errors.InvalidOption, match=f"(?s){words}") as refused:
        Jobs(url)
    told: BaseException | None = refused.value
    while told is not None:
        assert SECRET not in f"{told!r}{told}"
        told = None if told.__suppress_context__ else told.__cause__ or told.__context__
    done = warm_start.run(
        [sys.executable, "-m", "sloppyjobs.cli", "--database", url, "status"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stdout + done.stderr


def test_asynchronous_engines_are_refused_at_binding() -> None:
    engine = create_async_engine("sqlite+aiosqlite:///app.db")
    for target in (engine, engine.sync_engine):
        with pytest.raises(errors.InvalidOption, match="aiosqlite is an asynchronous driver"):
            Jobs(target)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'nonesuch' / 'app.db'}"
    jobs = Jobs(url)
    jobs.declare("greet")
    for ask in (jobs.storage.init, lambda: jobs.enqueue("greet")):
        with pytest.raises(errors.StorageUnavailable, match=r"there is no folder .*nonesuch"):
            ask()
    assert not (tmp_path / "nonesuch").exists()


def test_a_second_engine_of_the_same_file_takes_part(
    tmp_path: Path, make_jobs: MakeJobs, make_engine: Callable
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    jobs = make_jobs(f"sqlite:///{tmp_path / 'folder' / 'app.db'}")
    jobs.storage.init()
    jobs.declare("greet")
    for url in ("folder/app.db", "folder/../folder/app.db", "link/app.db"):
        with Session(make_engine(f"sqlite:///{tmp_path / url}")) as session:
            job = jobs.enqueue("greet", session=session)
            session.commit()
        assert jobs.get(job.id).status == "queued"
    uri = make_engine(f"sqlite:///file:{tmp_path / 'folder' / 'app.db'}?uri=true")
    with uri.begin() as connection:
        assert jobs.enqueue("greet", connection=connection).status == "queued"


def test_a_connection_of_another_file_is_refused(tmp_path: Path, make_jobs: MakeJobs, make_engine: Callable) -> None:
    jobs = make_jobs(f"sqlite:///{tmp_path / 'jobs.db'}")
    jobs.storage.init()
    jobs.declare("greet")
    for other in (make_engine(f"sqlite:///{tmp_path / 'app.db'}"), make_engine("sqlite://", poolclass=StaticPool)):
        with other.connect() as connection, pytest.raises(errors.InvalidOption, match=r"another database.*jobs\.db"):
            jobs.enqueue("greet", connection=connection)
        with Session(other) as session, pytest.raises(errors.InvalidOption, match="another database"):
            jobs.enqueue_many([("greet", 1)], session=session)
    assert list(jobs.admin.list_jobs()) == []


def test_two_databases_in_memory_are_two(make_jobs: MakeJobs, make_engine: Callable) -> None:
    engine = make_engine("sqlite://", poolclass=StaticPool)
    jobs = make_jobs(engine)
    jobs.storage.init()
    jobs.declare("greet")
    with engine.begin() as connection:
        jobs.enqueue("greet", connection=connection)
    with (
        make_engine("sqlite://").connect() as connection,
        pytest.raises(errors.InvalidOption, match="another database"),
    ):
        jobs.enqueue("greet", connection=connection)


def test_a_session_of_another_postgresql_database_is_refused(
    postgres_url: str, empty_postgres_url: str, sqlite_url: str, make_jobs: MakeJobs, make_engine: Callable
) -> None:
    jobs = make_jobs(postgres_url)
    jobs.declare("greet")
    for url in (url_by("psycopg", empty_postgres_url), url_by("psycopg2", empty_postgres_url), sqlite_url):
        with Session(make_engine(url)) as session:
            with pytest.raises(errors.InvalidOption, match="another database") as refused:
                jobs.enqueue("greet", session=session)
            assert make_url(postgres_url).database in str(refused.value)


def test_the_same_postgresql_database_by_another_way_takes_part(
    postgres_url: str, make_jobs: MakeJobs, make_engine: Callable, tcp_url: str
) -> None:
    jobs = make_jobs(postgres_url)
    jobs.declare("greet")
    with Session(make_engine(tcp_url)) as session:
        job = jobs.enqueue("greet", session=session)
        session.commit()
    assert jobs.get(job.id).status == "queued"


@pytest.fixture
def tcp_url(postgres_url: str) -> Any:
    """The test's database through a TCP port, where its own URL leads through a socket."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "chaos"))
    from proxy import FaultyProxy, server_address

    with FaultyProxy(server_address(postgres_url)) as running:
        yield url_by("psycopg", running.url(postgres_url))
