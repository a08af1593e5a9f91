"""Connections on which nothing passes any more are given up, and new ones do the work."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from proxy import FaultyProxy
from silence import BOUND, LONG, give_up_and_go_on, keep_leases_and_go_on
from sqlalchemy import create_engine, make_url, text

from sloppyjobs import Jobs, StorageUnavailable, storage
from sloppyjobs.storage.dialects.postgres.connections import CONNECT_ARGS, connect_args
from sloppyjobs.storage.ports.findings import Finding


@pytest.fixture
def jobs(proxied_url: str) -> Iterator[Jobs]:
    joined = "&" if "?" in proxied_url else "?"
    made = Jobs(storage.postgres(f"{proxied_url}{joined}connect_timeout=2", answer_timeout=BOUND))
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
    with pytest.raises(StorageUnavailable, match="may have been done") as raised:
        jobs.enqueue("greet")
    assert raised.value.maybe_done is True
    assert time.monotonic() - begun < LONG
    with pytest.raises(StorageUnavailable, match="timeout expired") as raised:
        jobs.get("job_1")
    assert raised.value.maybe_done is False


def test_what_takes_long_is_not_given_up_while_something_comes(postgres_url: str) -> None:
    made = storage.postgres(postgres_url, answer_timeout=3)
    slow = "SELECT g, pg_sleep(0.5), repeat('x', 20000) FROM generate_series(1, 8) g"
    with made.engine.connect() as connection:
        assert len(connection.execute(text(slow)).all()) == 8
    made.close()


def test_a_statement_that_is_given_up_does_not_go_on_waiting_in_the_server(
    jobs: Jobs, postgres_url: str, eventually: Callable[..., Any]
) -> None:
    waiting = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    jobs.enqueue("greet")
    thread = threading.Thread(target=jobs.enqueue, args=("greet",))
    with psycopg.connect(postgres_url) as holder, psycopg.connect(postgres_url, autocommit=True) as onlooker:
        holder.execute("LOCK TABLE sloppy_jobs IN ACCESS EXCLUSIVE MODE")
        seen: set[int] = set()
        thread.start()

        def only_the_last_one_waits() -> bool:
            found = onlooker.execute(waiting).fetchall()
            seen.update(pid for (pid,) in found)
            return len(seen) >= 3 and len(found) <= 1

        eventually(only_the_last_one_waits)
    thread.join(60)
    assert len(jobs.admin.list_jobs().items) == 2


@pytest.mark.parametrize("ours", [True, False], ids=["our engine", "the application's engine"])
def test_a_worker_keeps_its_leases_and_goes_on(
    proxy: FaultyProxy, proxied_url: str, postgres_url: str, *, ours: bool
) -> None:
    keep_leases_and_go_on(proxy, proxied_url, postgres_url, ours=ours)


def test_a_silent_listener_is_noticed(proxy: FaultyProxy, proxied_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Jobs(storage.postgres(proxied_url, answer_timeout=3))
    jobs.declare("greet")
    watcher: Any = jobs.storage.watch()
    monkeypatch.setattr("sloppyjobs.storage.dialects.postgres.watcher.PROBE_SECONDS", 0.2)
    assert watcher.wait(0)
    assert not watcher.wait(0.5), "nothing has happened, and the server answers"
    proxy.black_hole()
    with pytest.raises(psycopg.OperationalError, match="gave no answer within 3 s"):
        while True:
            watcher.wait(0.1)
    assert watcher.wait(0), "it listens again"
    jobs.enqueue("greet")
    assert watcher.wait(60)
    watcher.close()
    jobs.storage.close()


def test_a_migration_waits_for_as_long_as_it_must(jobs: Jobs, postgres_url: str) -> None:
    done = threading.Event()
    thread = threading.Thread(target=lambda: (jobs.storage.init(), done.set()))
    with psycopg.connect(postgres_url) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(hashtext('sloppy_job_schema'))")
        held = holder.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted").fetchone()
        assert held == (1,)
        thread.start()
        assert not done.wait(3 * BOUND)
    assert done.wait(30)
    thread.join()


# What libpq is told


def test_connections_of_our_making_have_keepalives_and_timeouts(proxied_url: str) -> None:
    made = storage.postgres(proxied_url)
    with made.engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        given = driver.info.get_parameters()
        assert {name: int(given[name]) for name in CONNECT_ARGS} == CONNECT_ARGS
    made.close()


def test_what_the_url_says_wins(proxied_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = "&" if "?" in proxied_url else "?"
    made = storage.postgres(f"{proxied_url}{joined}keepalives_idle=77&tcp_user_timeout=1234&connect_timeout=3")
    with made.engine.connect() as connection:
        given = connection.connection.driver_connection.info.get_parameters()  # type: ignore[union-attr]
        assert (given["keepalives_idle"], given["tcp_user_timeout"], given["connect_timeout"]) == ("77", "1234", "3")
        assert given["keepalives_interval"] == "5"
    made.close()
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "4")
    assert "connect_timeout" not in connect_args(make_url("postgresql+psycopg://host/db"))
    assert connect_args(make_url("postgresql+pg8000://host/db")) == {}


def test_a_worker_sets_keepalives_where_the_application_has_set_none(
    proxied_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    def idle_of(connection: Any) -> int:
        driver = connection.connection.driver_connection
        with socket.socket(fileno=os.dup(driver.fileno())) as end:
            return end.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)

    url = proxied_url.replace("postgresql://", "postgresql+psycopg://")
    for connect, expected in ({}, 5), ({"keepalives_idle": 99}, 99):
        engine = create_engine(url, connect_args=connect)
        separate = storage.postgres(engine).with_own_connections()
        with separate.engine.connect() as connection:
            assert idle_of(connection) == expected
        with engine.connect() as connection:
            assert idle_of(connection) != 5, "the application's own connections are left alone"
        separate.close()
        engine.dispose()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_doctor_notes_an_engine_of_the_application_that_waits_for_ever(proxied_url: str, postgres_url: str) -> None:
    def noted(target: Any) -> Finding:
        made = storage.postgres(target)
        (found,) = [one for one in made.doctor.diagnose() if one.check == "connections"]
        made.engine.dispose()
        return found

    url = proxied_url.replace("postgresql://", "postgresql+psycopg://")
    plain, careful = noted(create_engine(url)), noted(create_engine(url, connect_args=CONNECT_ARGS))
    assert plain.status == "warn" and "connect_timeout, keepalives_idle, tcp_user_timeout" in plain.detail
    assert plain.hint is not None and "'tcp_user_timeout': 10000" in plain.hint
    assert careful.status == "ok"
    assert noted(proxied_url).status == "ok", "an engine of our making"
    local = create_engine(postgres_url.replace("postgresql://", "postgresql+psycopg://"))
    assert noted(local).status == "ok" or make_url(postgres_url).query.get("host") is None
