"""Connections to a kept database that the tests of one process hand on to each other.

A PostgreSQL server starts a process for each connection, which reads the catalogue before its first statement: for most
tests of the conformance suite that took longer than all their statements. An engine of a later test gets the same
process of the server again, as a connection that is new to its driver and with everything discarded that a session can
hold. Engines ask the server about itself when they connect for the first time; they are told what the first one heard.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary, ref

from sqlalchemy import Dialect, Engine, event

_MOST = 8
"""Connections that are kept of one kind; few tests have more at once."""

Key = tuple[Hashable, ...]


class KeptConnections:
    """The connections to one database at a time, by any driver and with any settings."""

    def __init__(self) -> None:
        self._database: str | None = None
        self._test = 0
        self._first_seen: WeakKeyDictionary[Dialect, int] = WeakKeyDictionary()
        self._kept: dict[Key, list[Any]] = {}
        self._heard: dict[Hashable, dict[str, Any]] = {}
        event.listen(Engine, "do_connect", self._connect)

    def begin(self, database: str) -> None:
        """From now on the database belongs to a test that begins."""
        self._database = database
        self._test += 1

    @property
    def count(self) -> int:
        """How many are kept."""
        return sum(map(len, self._kept.values()))

    def drop(self) -> None:
        """Close what is kept."""
        for (driver, *_), kept in self._kept.items():
            for wire in kept:
                with suppress(Exception):
                    (wire.finish if driver == "psycopg" else wire.close)()
        self._kept.clear()

    def close(self) -> None:
        """Close what is kept, and keep nothing more."""
        self.drop()
        event.remove(Engine, "do_connect", self._connect)

    def _connect(self, dialect: Any, _record: Any, positional: Any, named: dict[str, Any]) -> Any:
        """For SQLAlchemy: a connection to the kept database; None for others, which it makes itself."""
        if self._database is None or self._database not in (named.get("dbname"), named.get("database")):
            return None
        if self._first_seen.setdefault(dialect, self._test) != self._test:
            # A thread that a test has left behind.
            raise dialect.loaded_dbapi.OperationalError("the database belongs to another test now")
        told = sorted((name, value) for name, value in named.items() if isinstance(value, str | int))
        key = (dialect.driver, *positional, *told)
        self._share_answers(dialect)
        kept = self._kept.get(key)
        if dialect.driver != "psycopg":
            dialect.do_close = lambda connection: self._close(key, connection)
            return kept.pop() if kept else dialect.connect(*positional, **named)
        connect = _rewired(kept.pop()).connect if kept else dialect.connect
        made = connect(*positional, **named)
        # Not only SQLAlchemy closes those.
        itself = ref(made)
        made.close = lambda: self._close(key, itself())
        return made

    def _close(self, key: Key, connection: Any) -> None:
        """In the place of closing it."""
        kept = self._kept.setdefault(key, [])
        wire = None
        if len(kept) < _MOST:
            with suppress(Exception):
                wire = _DISCARD[key[0]](connection)
        if wire is None:
            type(connection).close(connection)
        else:
            kept.append(wire)

    def _share_answers(self, dialect: Any) -> None:
        """Have the dialect told what another of its kind has heard when it asked the server about itself."""
        if "initialize" in vars(dialect):
            return
        before = dict(vars(dialect))
        plain = {name: value for name, value in before.items() if isinstance(value, str | int | tuple)}
        kind = (type(dialect), repr(sorted(plain.items())))

        def initialize(connection: Any) -> None:
            if kind in self._heard:
                vars(dialect).update(self._heard[kind])
                return
            type(dialect).initialize(dialect, connection)
            self._heard[kind] = {
                name: value
                for name, value in vars(dialect).items()
                if name not in before or before[name] is not value
                if isinstance(value, str | int | tuple | None)
            }

        dialect.initialize = initialize


def _rewired(wire: Any) -> Any:
    """psycopg's class, for a connection that is open already: to it a new one, with nothing prepared or registered."""
    import psycopg

    class Rewired(psycopg.Connection[Any]):
        @classmethod
        def _connect_gen(cls, *_arguments: Any, **_options: Any) -> Any:
            return cls(wire)
            yield

    return Rewired


def _discard_psycopg(connection: Any) -> Any:
    """What libpq knows the connection by, taken away from the object that had it."""
    from psycopg import pq

    wire = connection.pgconn
    if wire.status != pq.ConnStatus.OK or wire.pipeline_status != pq.PipelineStatus.OFF:
        return None
    for statement in (b"ROLLBACK", b"DISCARD ALL")[wire.transaction_status == pq.TransactionStatus.IDLE :]:
        if wire.exec_(statement).status != pq.ExecStatus.COMMAND_OK:
            return None
    wire.notice_handler = wire.notify_handler = None
    connection.pgconn = pq.PGconn()
    return wire


def _discard_psycopg2(connection: Any) -> Any:
    connection.reset()
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("DISCARD ALL")
    connection.autocommit = False
    del connection.notices[:], connection.notifies[:]
    return connection


def _discard_pg8000(connection: Any) -> Any:
    connection.rollback()
    connection.autocommit = True
    connection.run("DISCARD ALL")
    connection.autocommit = False
    connection.notices.clear()
    connection.notifications.clear()
    return connection


_DISCARD: dict[Hashable, Callable[[Any], Any]] = {
    "psycopg": _discard_psycopg,
    "psycopg2": _discard_psycopg2,
    "pg8000": _discard_pg8000,
}
"""By driver: puts an end to the session, and returns what is kept of the connection; None where it cannot be."""
