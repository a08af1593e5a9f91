"""Connections to MariaDB and MySQL: how the drivers are found, what ours are set to, and when they are given up.

A network that swallows everything looks like a server that thinks. A connection of our own making is given up when a
statement gets no sign of life for some seconds. PyMySQL looks at its timeout before each read, so it can differ from
statement to statement; mysqlclient knows one for the whole connection, which must do for the longest of them.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import PoolResetState

from sloppyjobs import errors
from sloppyjobs.storage.answer_timeout import IDLE_TRANSACTION, MAINTENANCE, in_force
from sloppyjobs.storage.driver import close_with_failed

DEFAULT = "pymysql"
"""The driver for a URL that names none."""

PINNED = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
"""For the next transaction, whatever the session's own is."""

CONNECT_SECONDS = 10

_SOCKET_OPTIONS = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
_OURS = "sloppyjobs_read_committed"
_COMMITTED = "sloppyjobs_committed"


def own_engine(url: URL) -> Engine:
    """An engine of our own. Raises ``DriverMissing``, which names the extra, where the driver is not installed."""
    name, _, driver = url.drivername.partition("+")
    driver = driver or DEFAULT
    options = {option: value for option, value in _connect_args(driver, url).items() if option not in url.query}
    try:
        engine = create_engine(
            url.set(drivername=f"{name}+{driver}"),
            pool_size=10,
            max_overflow=50,
            pool_use_lifo=True,
            pool_reset_on_return=None,
            connect_args=options,
        )
    except ImportError as error:
        extra = "pip install 'sloppyjobs[mysql]'"
        if driver == DEFAULT:
            raise errors.DriverMissing(f"MariaDB and MySQL need PyMySQL, which is not installed: {extra}") from error
        raise errors.DriverMissing(
            f"the URL asks for the driver {driver}, which is not installed: install it, or {extra} "
            f"and use a {name}:// URL"
        ) from error
    event.listen(engine, "reset", _end_transaction)
    return engine


def _end_transaction(driver: Any, record: Any, state: PoolResetState) -> None:
    """As the pool would by itself, but not after a commit of ours: that rollback is a round trip for nothing."""
    committed = record is not None and record.info.pop(_COMMITTED, False)
    if not (committed or state.transaction_was_reset):
        driver.rollback()


def _connect_args(driver: str, url: URL) -> dict[str, Any]:
    arguments: dict[str, Any] = {"charset": "utf8mb4", "connect_timeout": CONNECT_SECONDS}
    if driver == "mysqldb":
        arguments |= {"read_timeout": int(MAINTENANCE), "write_timeout": int(MAINTENANCE)}
    elif driver == DEFAULT:
        # Its timeout to connect ends with the handshake of TCP: a server that is silent then is waited for here.
        seconds = int(str(url.query.get("connect_timeout", CONNECT_SECONDS)))
        arguments |= {"read_timeout": seconds, "write_timeout": seconds}
    return arguments


def watched(engine: Engine, seconds: float | None, lock_wait: float) -> None:
    """Set the connections that this engine opens from now on to what the jobs need, and let them be given up."""

    def connected(driver: Any, record: Any) -> None:
        _keep_alive(driver)
        cursor = driver.cursor()
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        # Shorter than the wait for an answer: who waits for a lock is not given up, but tries again.
        cursor.execute(f"SET SESSION innodb_lock_wait_timeout = {max(1, round(lock_wait))} {_end_idle_transactions()}")
        cursor.close()
        driver.commit()
        if seconds is None and hasattr(driver, "_read_timeout"):
            driver._read_timeout = driver._write_timeout = None
        record.info[_OURS] = True

    def taken(driver: Any, _record: Any, _proxy: Any) -> None:
        if seconds is not None and hasattr(driver, "_read_timeout"):
            limit = in_force(seconds)
            driver._read_timeout = driver._write_timeout = None if math.isinf(limit) else limit

    event.listen(engine, "connect", connected)
    event.listen(engine, "checkout", taken)
    close_with_failed(engine)


def _end_idle_transactions() -> str:
    """Let the server end the transaction of a client that is frozen, whose locks keep others from its jobs.

    Unless the server or the URL says something else. Only MariaDB has this setting; to MySQL it is a comment.
    """
    setting = "idle_transaction_timeout"
    return f"/*M!100300 , {setting} = IF(@@{setting} = 0, {round(IDLE_TRANSACTION)}, @@{setting}) */"


@contextmanager
def read_committed(engine: Engine) -> Iterator[Connection]:
    """A connection in a transaction at READ COMMITTED, also on an engine of another level or in autocommit mode."""
    with engine.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        if not connection.connection.info.get(_OURS) or "isolation_level" in engine.get_execution_options():
            cursor = driver.cursor()
            cursor.execute(PINNED)
            cursor.close()
        with _in_transactions(connection), connection.begin():
            yield connection
        connection.connection.info[_COMMITTED] = True


def autocommits(connection: Connection) -> bool:
    """Whether each statement on the connection is a transaction of its own."""
    driver: Any = connection.connection.dbapi_connection
    return bool(driver.get_autocommit())


@contextmanager
def _in_transactions(connection: Connection) -> Iterator[None]:
    if not autocommits(connection):
        yield
        return
    driver: Any = connection.connection.dbapi_connection
    driver.autocommit(False)
    try:
        yield
    finally:
        if not connection.invalidated:
            driver.autocommit(True)


def _keep_alive(driver: Any) -> None:
    """Let the system end a connection whose packets nobody acknowledges; PyMySQL alone shows its socket."""
    end = getattr(driver, "_sock", None)
    if not isinstance(end, socket.socket) or end.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _SOCKET_OPTIONS.items():
            if hasattr(socket, name):
                end.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
