"""A user of the database that lacks a right gets our error, on every way to the database."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url, text

from sloppyjobs import Jobs, StorageUnavailable

READER = f"sloppy_reader_{os.getpid()}"
RIGHTS = "`sloppyjobs doctor` names the rights that are missing; nothing was changed"


@pytest.fixture(params=["postgres", "mariadb"])
def reader_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a database whose user may read the tables and no more."""
    mariadb = request.param == "mariadb"
    owner = make_url(request.getfixturevalue("new_mariadb_url" if mariadb else "postgres_url"))
    engine = create_engine(owner if mariadb else owner.set(drivername="postgresql+psycopg"))
    user, given = (f"{READER}@'%'", f"{owner.database}.*") if mariadb else (READER, "ALL TABLES IN SCHEMA public")
    with engine.begin() as connection:
        connection.execute(text(f"CREATE USER {user}{'' if mariadb else ' PASSWORD NULL'}"))
        connection.execute(text(f"GRANT SELECT ON {given} TO {user}"))
    jobs = Jobs(owner)
    jobs.declare("greet")
    jobs.enqueue("greet")
    jobs.storage.close()
    yield owner.set(username=READER, password=None).render_as_string(hide_password=False)
    with engine.begin() as connection:
        if not mariadb:
            connection.execute(text(f"DROP OWNED BY {READER}"))
        connection.execute(text(f"DROP USER {user}"))
    engine.dispose()


@pytest.mark.parametrize(
    "call",
    [
        lambda jobs: jobs.enqueue("greet", {"token": "hunter2"}),
        lambda jobs: jobs.enqueue_many([("greet", {"token": "hunter2"})] * 3),
        lambda jobs: jobs.enqueue_many([("greet", {"token": "hunter2"}, {"business_key": str(n)}) for n in range(3)]),
        lambda jobs: jobs.admin.pause_queue("default"),
        lambda jobs: jobs.claim("worker_1"),
        lambda jobs: jobs.lock("nightly").__enter__(),
        lambda jobs: jobs.create_worker().run_once(),
    ],
    ids=["enqueue", "bulk", "bulk with keys", "command", "claim", "lock", "worker"],
)
def test_a_user_that_may_only_read_is_told_so(reader_url: str, call: Callable[[Jobs], Any]) -> None:
    jobs = Jobs(reader_url)
    jobs.define("greet", lambda ctx, payload: None)
    with pytest.raises(StorageUnavailable, match=RIGHTS) as raised:
        call(jobs)
    assert (raised.value.denied, raised.value.maybe_done) == (True, False)
    assert "hunter2" not in str(raised.value)
    jobs.storage.close()


def test_a_worker_without_rights_does_not_wait_for_them(reader_url: str) -> None:
    jobs = Jobs(reader_url)
    jobs.define("greet", lambda ctx, payload: None)
    with pytest.raises(StorageUnavailable, match=RIGHTS):
        jobs.create_worker().run()
    jobs.storage.close()
