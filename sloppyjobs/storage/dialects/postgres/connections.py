"""PostgreSQL connections of our own making notice that the other side is gone, and are given up.

A network that swallows everything looks like a server that thinks. Four means, each for what the others do not see:

- TCP keepalives and ``tcp_user_timeout``: the system ends a connection whose packets nobody acknowledges.
- An answer timeout: a statement that gets no sign of life is given up, and its connection closed. It also ends
  connections to a proxy that acknowledges everything and passes on nothing.
- The other way round, the server ends a transaction that asks for nothing for some seconds: its client is frozen, and
  its locks keep others from their jobs.
- Connections are not kept when one of them has failed, because what ended it mostly ended the others too; nor when the
  URL asks for a server that can be written to, and one of them has said that it cannot any more.
"""

from __future__ import annotations

import os
import socket
import time
import weakref
from collections.abc import Generator
from contextlib import suppress
from typing import Any

from sqlalchemy import URL, Engine, event

from sloppyjobs.storage.answer_timeout import IDLE_TRANSACTION, in_force
from sloppyjobs.storage.dialects.postgres import drivers
from sloppyjobs.storage.dialects.postgres.drivers import driver_name, sqlstate
from sloppyjobs.storage.driver import close_with_failed

DENIED = "42501"
"""The SQLSTATE of what the user has no right to."""

READ_ONLY = "25006"
"""The SQLSTATE of a write on a server that can only be read."""

CONNECT_ARGS: dict[str, int] = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""What libpq is told where the URL says nothing else; in seconds, but the last in milliseconds."""

IDLE_SETTING = "idle_in_transaction_session_timeout"

CANCEL_SECONDS = 1.0
"""How long the server is asked to forget a statement that was given up."""

_SOCKET_OPTIONS = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}


def is_read_only(error: object) -> bool:
    """Whether the server can only be read: a standby, or a primary that has become one."""
    return sqlstate(error) == READ_ONLY


def connect_args(url: URL) -> dict[str, int]:
    """The defaults that the URL leaves to us."""
    if driver_name(url) not in ("psycopg", "psycopg2"):
        return {}
    given = set(url.query) | ({"connect_timeout"} if "PGCONNECT_TIMEOUT" in os.environ else set())
    return {name: value for name, value in CONNECT_ARGS.items() if name not in given}


def watched(engine: Engine, seconds: float | None) -> None:
    """Let the connections that this engine opens from now on give up a silent server; None: only the TCP means."""

    def connected(driver: Any, _record: Any) -> None:
        _keep_alive(driver)
        if seconds is not None and _is_psycopg(driver):
            _bound_answers(driver, seconds)
        _end_idle_transactions(driver)

    # Before the listeners that are there already, some of which execute statements.
    event.listen(engine, "connect", connected, insert=True)
    writable = engine.url.query.get("target_session_attrs") in ("read-write", "primary")
    # Nothing but a write would fail there, and who only reads would see the past for ever.
    close_with_failed(engine, says_read_only if writable else None)


def parameters_of(driver: Any) -> dict[str, Any]:
    """What libpq was told when this connection was opened; empty for drivers that do not use it."""
    info: Any = getattr(driver, "info", None)
    if hasattr(info, "get_parameters"):
        return dict(info.get_parameters())
    return dict(getattr(info, "dsn_parameters", None) or {})


def says_read_only(driver: Any) -> bool:
    """Whether the server has reported, with its latest answer, that it can only be read; from version 14 on it does."""
    status = getattr(getattr(driver, "info", None), "parameter_status", None)
    return status is not None and "on" in (status("default_transaction_read_only"), status("in_hot_standby"))


def is_local(driver: Any) -> bool:
    """Whether the connection is a socket of this machine's file system, which no network can swallow."""
    with suppress(OSError, AttributeError), socket.socket(fileno=os.dup(driver.fileno())) as end:
        return end.family not in (socket.AF_INET, socket.AF_INET6)
    return False


def _keep_alive(driver: Any) -> None:
    """Set on the socket what an application's own way to connect has left out."""
    if CONNECT_ARGS.keys() & parameters_of(driver).keys() - {"connect_timeout"}:
        return
    with suppress(OSError, AttributeError), socket.socket(fileno=os.dup(driver.fileno())) as end:
        if end.family not in (socket.AF_INET, socket.AF_INET6):
            return
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _SOCKET_OPTIONS.items():
            if hasattr(socket, name):
                end.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _end_idle_transactions(driver: Any) -> None:
    """Unless the server, the role or the URL says something else.

    Nor behind a pooler, where it would hold for others too; that one tells libpq a process which is not this.
    """
    pid = getattr(getattr(driver, "info", None), "backend_pid", None)
    if pid is None or IDLE_SETTING in str(parameters_of(driver).get("options")):
        return
    drivers.run_alone(
        driver,
        f"SELECT set_config('{IDLE_SETTING}', '{round(IDLE_TRANSACTION * 1000)}', false) "
        f"WHERE current_setting('{IDLE_SETTING}') = '0' AND pg_backend_pid() = {pid}",
    )


def _is_psycopg(driver: Any) -> bool:
    # Nothing else has this module's connections, and it is imported by then if they are its own.
    return any(kind.__module__.partition(".")[0] == "psycopg" for kind in type(driver).__mro__)


def _bound_answers(driver: Any, seconds: float) -> None:
    """Every wait of psycopg goes through the connection's ``wait``; there is no setting for how long."""
    itself, wait = weakref.ref(driver), type(driver).wait

    def bounded(waiting: Generator[Any, Any, Any], *arguments: Any, **options: Any) -> Any:
        connection = itself()
        return wait(connection, _until_silent(waiting, connection, seconds), *arguments, **options)

    driver.wait = bounded


def _until_silent(waiting: Generator[Any, Any, Any], driver: Any, seconds: float) -> Generator[Any, Any, Any]:
    """The same wait, given up when the socket was not ready for so long. It costs nothing while there is progress."""
    silent_since: float | None = None
    try:
        wanted = next(waiting)
        while True:
            # psycopg says "not ready" every tenth of a second.
            ready = yield wanted
            if ready:
                silent_since = None
            elif silent_since is None:
                silent_since = time.monotonic()
            elif time.monotonic() - silent_since > (limit := in_force(seconds)):
                _give_up(driver, limit)
            wanted = waiting.send(ready)
    except StopIteration as done:
        return done.value


def _give_up(driver: Any, seconds: float) -> None:
    """Close the connection, and ask the server, on another one, to forget the statement: it may wait for a lock."""
    with suppress(Exception):
        # Older libraries know only a way to cancel that blocks.
        if driver.pgconn.transaction_status != _IDLE and _cancels_safely():
            driver.cancel_safe(timeout=min(CANCEL_SECONDS, seconds))
    driver.close()
    raise driver.OperationalError(f"the server gave no answer within {seconds:g} s")


_IDLE = 0
"""libpq's word for a connection outside any transaction."""


def _cancels_safely() -> bool:
    from psycopg import capabilities  # noqa: PLC0415 - only PostgreSQL needs it

    return bool(capabilities.has_cancel_safe())
