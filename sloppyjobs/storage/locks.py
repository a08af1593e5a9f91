"""Named locks with a time to live, kept in a table."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import Any

from sqlalchemy import Connection, delete, or_, select, update

from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of


class Locks:
    """Acquire, extend and release; every step is one conditional statement."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables

    def acquire(self, name: str, owner: str, ttl: float) -> bool:
        """Take the lock if it is free, expired, or the owner's already."""
        self.database.ensure_schema()
        return self.database.write(lambda c: self._acquire(c, name, owner, ttl))

    def extend(self, name: str, owner: str, ttl: float) -> bool:
        """Prolong a lock that is held and has not expired."""
        self.database.ensure_schema()
        return self.database.write(lambda c: self._extend(c, name, owner, ttl))

    def release(self, name: str, owner: str) -> bool:
        """Give the lock back; False when somebody else has it by now."""
        self.database.ensure_schema()
        runs = count()
        return self.database.write(lambda c: self._release(c, name, owner, rerun=next(runs) > 0))

    def _acquire(self, connection: Connection, name: str, owner: str, ttl: float) -> bool:
        locks = self.tables.locks
        now = self.database.now(connection)
        values = {"owner": owner, "locked_until": now + timedelta(seconds=ttl), "updated_at": now}
        # Insert first, then take over: the row is there in any case, so the second step cannot miss it.
        inserted = self.database.prepared("insert lock", self._insert_lock).run(
            cursor_of(connection),
            {
                "name": name,
                "owner": owner,
                "locked_until": self.database.to_driver(values["locked_until"]),  # type: ignore[arg-type]
                "updated_at": self.database.to_driver(now),
            },
        )
        if inserted == 1:
            return True
        free = or_(locks.c.owner == owner, locks.c.locked_until <= now)
        return connection.execute(update(locks).where(locks.c.name == name, free).values(values)).rowcount == 1

    def _release(self, connection: Connection, name: str, owner: str, *, rerun: bool) -> bool:
        locks = self.tables.locks
        if connection.execute(delete(locks).where(locks.c.name == name, locks.c.owner == owner)).rowcount == 1:
            return True
        # Where nobody has it, an earlier run released it and its answer was lost.
        return rerun and connection.execute(select(locks.c.name).where(locks.c.name == name)).first() is None

    def _extend(self, connection: Connection, name: str, owner: str, ttl: float) -> bool:
        locks = self.tables.locks
        now = self.database.now(connection)
        held = (locks.c.name == name, locks.c.owner == owner, locks.c.locked_until > now)
        values = {"locked_until": now + timedelta(seconds=ttl), "updated_at": now}
        return connection.execute(update(locks).where(*held).values(values)).rowcount == 1

    def _insert_lock(self) -> Any:
        return self.dialect.insert_if_absent(self.tables.locks, ("name", "owner", "locked_until", "updated_at"))
