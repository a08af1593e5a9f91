"""Connections to MariaDB on which nothing passes any more are given up, and new ones do the work."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pymysql
import pytest
from proxy import FaultyProxy
from sqlalchemy import create_engine, make_url

from sloppyjobs import Jobs, StorageUnavailable, storage
from sloppyjobs.storage.dialects.mariadb.dialect import LOCK_WAIT

BOUND = 1.0
"""Seconds that the producers of these tests wait for an answer; ten unless one says otherwise."""

LONG = 60.0
"""What nobody here ever waits for; without a bound it would be for ever."""


@pytest.fixture
def proxy(mariadb_url: str) -> Iterator[FaultyProxy]:
    """In front of the test's own database; ``proxied_url`` leads through it."""
    server = make_url(mariadb_url)
    with FaultyProxy((str(server.host), server.port or 3306)) as running:
        yield running


@pytest.fixture
def proxied_url(proxy: FaultyProxy, mariadb_url: str) -> str:
    """The test's database, through the proxy."""
    return proxy.url(mariadb_url)


@pytest.fixture
def jobs(proxied_url: str) -> Iterator[Jobs]:
    made = Jobs(storage.mariadb(f"{proxied_url}?connect_timeout=2", answer_timeout=BOUND))
    made.define("greet", lambda _ctx, _payload: "hello")
    yield made
    made.storage.close()


CALLS: dict[str, Callable[[Jobs], object]] = {
    "enqueue": lambda jobs: jobs.enqueue("greet", idempotency_key="once"),
    "enqueue_many": lambda jobs: jobs.enqueue_many([("greet", {})] * 2),
    "enqueue_many with keys": lambda jobs: jobs.enqueue_many([("greet", {}, {"idempotency_key": "k"})]),
    "overview": lambda jobs: jobs.admin.overview(),
    "lock": lambda jobs: jobs.locks("me").acquire("nightly"),
    "claim": lambda jobs: jobs.claim("worker"),
    "pause_queue": lambda jobs: jobs.admin.pause_queue("default"),
}


def test_producers_and_commands_give_up_and_go_on(jobs: Jobs, proxy: FaultyProxy) -> None:
    for name, call in CALLS.items():
        jobs.enqueue("greet")
        jobs.admin.list_locks()
        lost = proxy.black_hole()
        assert lost, name
        begun = time.monotonic()
        assert call(jobs), name
        assert time.monotonic() - begun < LONG, name
        for link in lost:
            link.reset()


def test_where_nothing_passes_at_all_it_is_an_error_within_the_documented_bound(
    jobs: Jobs, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sloppyjobs.storage.database.RETRY_SECONDS", 3 * BOUND)
    jobs.enqueue("greet")
    proxy.black_hole()
    proxy.black_hole_new = True
    begun = time.monotonic()
    with pytest.raises(StorageUnavailable) as raised:
        jobs.enqueue("greet")
    assert raised.value.maybe_done is False, "COMMIT was not sent"
    assert time.monotonic() - begun < LONG
    with pytest.raises(StorageUnavailable) as raised:
        jobs.get("job_1")
    assert raised.value.maybe_done is False


def test_who_waits_for_a_lock_is_not_taken_for_a_silent_server(
    proxied_url: str, proxy: FaultyProxy, mariadb_url: str
) -> None:
    """The wait for a lock is shorter than that for an answer: the connection is kept, and the work is tried again."""
    jobs = Jobs(storage.mariadb(proxied_url, answer_timeout=20))
    jobs.declare("greet")
    job, links = jobs.enqueue("greet"), proxy.links
    parts = make_url(mariadb_url)
    holder = pymysql.connect(host=parts.host, port=parts.port or 3306, user=parts.username, database=parts.database)
    with holder, holder.cursor() as cursor:
        cursor.execute("SELECT id FROM sloppy_jobs WHERE id = %s FOR UPDATE", (job.id,))
        thread = threading.Thread(target=jobs.admin.cancel, args=(job.id,))
        thread.start()
        thread.join(LOCK_WAIT + 1)
        assert thread.is_alive(), "it goes on trying"
        holder.commit()
        thread.join(LONG)
    assert jobs.get(job.id).status == "cancelled"
    assert set(links) <= set(proxy.links)
    jobs.storage.close()


@pytest.mark.parametrize("ours", [True, False], ids=["our engine", "the application's engine"])
def test_a_worker_keeps_its_leases_and_goes_on(
    proxy: FaultyProxy, proxied_url: str, mariadb_url: str, *, ours: bool
) -> None:
    engine = create_engine(proxied_url)
    jobs, onlooker = Jobs(proxied_url if ours else engine), Jobs(mariadb_url)
    running, leave = threading.Event(), threading.Event()

    @jobs.define("hold")
    def hold(_ctx: Any, _payload: Any) -> str:
        running.set()
        assert leave.wait(100)
        return "held"

    jobs.define("greet", lambda _ctx, _payload: "hello")
    onlooker.declare("hold")
    onlooker.declare("greet")
    # Without maintenance, whose thread may still wait for its answer when the test is over.
    worker = jobs.create_worker(lease=24, heartbeat=1, poll_interval=0.5, maintenance=False)
    worker.start()
    try:
        held = onlooker.enqueue("hold")
        assert running.wait(30)
        assert proxy.black_hole()
        # Claimed, run and settled on new connections, while the long one keeps its lease beyond its first one's end.
        assert onlooker.wait(onlooker.enqueue("greet").id, timeout=LONG).status == "succeeded"
        first = onlooker.get(held.id)
        assert first.status == "processing" and first.locked_until is not None
        deadline = time.monotonic() + LONG
        while (now := onlooker.get(held.id)).locked_until <= first.locked_until:  # type: ignore[operator]
            assert now.status == "processing" and time.monotonic() < deadline
            time.sleep(0.05)
        leave.set()
        done = onlooker.wait(held.id, timeout=LONG)
        assert (done.status, done.attempt_count) == ("succeeded", 1)
    finally:
        leave.set()
        worker.stop(timeout=60)
        jobs.storage.close()
        onlooker.storage.close()
        engine.dispose()


def test_connections_of_our_making_have_keepalives_and_a_timeout_to_connect(proxied_url: str) -> None:
    made = storage.mariadb(proxied_url)
    with made.engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        end = driver._sock
        assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 5
        assert driver.connect_timeout == 10
    made.close()


def test_no_answer_timeout_is_none_once_a_connection_is_made(mariadb_url: str) -> None:
    made = storage.mariadb(mariadb_url, answer_timeout=None)
    with made.engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        assert (driver._read_timeout, driver._write_timeout) == (None, None)
    made.close()
