"""Connections to MariaDB on which nothing passes any more are given up, and new ones do the work."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest
from proxy import FaultyProxy
from silence import BOUND, LONG, give_up_and_go_on, keep_leases_and_go_on
from sqlalchemy import make_url

from sloppyjobs import Jobs, StorageUnavailable, storage
from sloppyjobs.storage.dialects.mariadb.dialect import LOCK_WAIT


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


def test_producers_and_commands_give_up_and_go_on(jobs: Jobs, proxy: FaultyProxy) -> None:
    give_up_and_go_on(jobs, proxy)


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
    keep_leases_and_go_on(proxy, proxied_url, mariadb_url, ours=ours)


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
