"""The caller's transaction: whether it is one of the jobs' database, and the storage that can write in it.

A session may come from another engine than ours, and by another driver: asynchronous, or one that an application uses.
The statements are then written for that driver, by a storage beside ours that only ever works in callers' transactions.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from sqlalchemy import Connection, Engine

from sloppyjobs import errors
from sloppyjobs.storage.dialects import DIALECTS, registered
from sloppyjobs.storage.shown_urls import shown

if TYPE_CHECKING:
    from sloppyjobs.storage.store import SqlStore


class Callers:
    """The engines of callers, as far as they are known to be of the storage's database."""

    def __init__(self, storage: SqlStore) -> None:
        self._storage = storage
        self._same: WeakSet[Engine] = WeakSet()
        self._beside: dict[tuple[str, bool], SqlStore] = {}
        self._lock = threading.Lock()

    def storage_for(self, connection: Connection) -> SqlStore:
        """The storage that writes on this connection. Raises ``InvalidOption`` where it leads to another database."""
        ours, theirs = self._storage.engine, connection.engine
        if theirs is ours or theirs.pool is ours.pool:
            return self._storage
        if theirs not in self._same:
            _refuse_async_driver(theirs)
            self._refuse_other_database(connection)
            self._same.add(theirs)
        driver = _driver(theirs)
        return self._storage if driver == _driver(ours) else self._for_driver(driver, theirs)

    def connection_of(self, session: Any) -> Connection:
        """The connection to this database of a session that may have connections to several."""
        found: Connection = session.connection(bind_arguments={"bind": self._storage.engine})
        return found

    def _for_driver(self, driver: tuple[str, bool], engine: Engine) -> SqlStore:
        with self._lock:
            if driver not in self._beside:
                # An engine of its own, which never connects, so that the application's may go when it is done with it.
                copy = Engine(engine.pool.recreate(), engine.dialect, engine.url)
                self._beside[driver] = self._storage.on_engine(copy)
            return self._beside[driver]

    def _refuse_other_database(self, connection: Connection) -> None:
        ours, theirs = self._storage.engine, connection.engine
        dialect = self._storage.dialect
        same = registered(ours.dialect.name) is registered(theirs.dialect.name) and (
            (dialect.place(ours.url) is not None and dialect.place(ours.url) == dialect.place(theirs.url))
            or _equal(self._storage.database.read(dialect.identity), dialect.identity(connection))
        )
        if not same:
            raise errors.InvalidOption(
                f"the session or connection is of another database, {shown(theirs.url)}; these jobs are in "
                f"{shown(ours.url)}. Pass one of that database, or none"
            )


def _equal(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
    """Whether what both say of themselves is the same; one may be allowed to say less."""
    return all(one == other for one, other in zip(ours, theirs, strict=False))


def _driver(engine: Engine) -> tuple[str, bool]:
    return engine.dialect.driver, engine.dialect.is_async


def _refuse_async_driver(engine: Engine) -> None:
    name, is_async = _driver(engine)
    known = {driver: f"{one.name}+{driver}://" for one in DIALECTS for driver in one.async_drivers}
    if is_async and name not in known:
        usable = " or ".join(f"create_async_engine('{url}…')" for url in sorted(known.values()))
        raise errors.InvalidOption(
            f"jobs cannot be enqueued in a transaction of the asynchronous driver {name}: use {usable}, or pass no "
            "session and no connection"
        )
