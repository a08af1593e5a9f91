"""A lease on the migrations, for databases where DDL ends the transaction, and with it every lock.

It is a row of the table of locks, with a holder and an end by the database's clock: every server of a cluster sees it,
which is not so of locks by name. The holder renews it while it migrates. Where the holder has died, the next one takes
it over when it has ended, and finishes what was begun.
"""

from __future__ import annotations

import os
import random
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, or_, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateTable

from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import Conflict, cursor_of

NAME = "sloppyjobs.migrations"
"""The name of the lock."""

SECONDS = 15.0
"""How long the lease lasts; it is renewed three times as often."""


class MigrationLease:
    """Lets one process migrate at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._locks = database.tables.locks
        self._owner = f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(8)}"
        self._ours_until = 0.0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait until nobody else migrates, and keep others from it; without a limit, as for a lock."""
        self._database.retry(lambda: self._database.write_once(self._make_table))
        while not self._database.retry(lambda: self._timed(self._take)):
            time.sleep(0.05 + random.random() * 0.1)  # noqa: S311
        over = threading.Event()
        renewing = threading.Thread(target=self._renew_until, args=(over,), name="sloppyjobs-migration", daemon=True)
        renewing.start()
        try:
            yield
        finally:
            over.set()
            renewing.join()
            self._database.retry(lambda: self._database.write_once(self._release))

    def ensure_held(self) -> None:
        """``Conflict`` where the lease has ended, because it could not be renewed: another one may migrate by now."""
        if time.monotonic() > self._ours_until:
            raise Conflict

    def _renew_until(self, over: threading.Event) -> None:
        # On a connection that the application's bound does not keep from us: the migration may take minutes.
        database = self._database.with_own_connections()
        try:
            while not over.wait(SECONDS / 3):
                try:
                    renewed = self._timed(self._renew, database)
                except DBAPIError:
                    continue  # the next try may go well; otherwise the lease ends
                if not renewed:
                    self._ours_until = 0.0
                    return
        finally:
            if database is not self._database:
                database.close()

    def _timed(self, step: Any, database: Database | None = None) -> bool:
        """Take or renew; the lease counts from before the statement, so that it ends here before it ends there."""
        before = time.monotonic()
        done: bool = (database or self._database).write_once(step)
        if done:
            self._ours_until = before + SECONDS
        return done

    # Steps, each in a transaction of its own

    def _make_table(self, connection: Connection) -> None:
        connection.execute(CreateTable(self._locks, if_not_exists=True))

    def _take(self, connection: Connection) -> bool:
        now = self._now(connection)
        values = {"owner": self._owner, "locked_until": now + timedelta(seconds=SECONDS), "updated_at": now}
        row = {"name": NAME, **values}
        if connection.execute(self._database.dialect.insert_if_absent(self._locks, tuple(row)), row).rowcount == 1:
            return True
        c = self._locks.c
        free = or_(c.owner == self._owner, c.locked_until <= now)
        return connection.execute(update(self._locks).where(c.name == NAME, free).values(values)).rowcount == 1

    def _renew(self, connection: Connection) -> bool:
        now, c = self._now(connection), self._locks.c
        ours = update(self._locks).where(c.name == NAME, c.owner == self._owner)
        values = {"locked_until": now + timedelta(seconds=SECONDS), "updated_at": now}
        return connection.execute(ours.values(values)).rowcount == 1

    def _release(self, connection: Connection) -> None:
        c = self._locks.c
        connection.execute(delete(self._locks).where(c.name == NAME, c.owner == self._owner))

    def _now(self, connection: Connection) -> datetime:
        """The database's own clock, also in a test that injects another: that one may stand still."""
        cursor = cursor_of(connection)
        cursor.execute(f"SELECT {self._database.dialect.now_sql}")
        moment = self._database.from_driver(cursor.fetchone()[0])
        assert moment is not None
        return moment
