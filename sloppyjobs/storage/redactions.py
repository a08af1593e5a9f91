"""The keys that definitions want hidden, kept with the jobs: who shows a job need not have its definition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, event, select

from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.ports.jobs import Redaction

MOST_KEYS = 10_000


class Redactions:
    """Secret keys are added and never taken back: a job that was enqueued with a secret keeps it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.written: set[Redaction] = set()
        """What is known to be in the table; this process need not write it again."""

    def write(self, wanted: Iterable[Redaction], connection: Connection | None = None) -> None:
        """Let these keys be hidden by everybody; in the caller's transaction, if there is one."""
        self.database.ensure_schema(connection)
        missing = sorted(set(wanted) - self.written)
        if not missing:
            return
        self.database.write(lambda c: self._write_redactions(c, missing), connection)
        if connection is None:
            self.written.update(missing)
        elif not connection.in_nested_transaction():
            _after_commit(connection, lambda: self.written.update(missing))

    def by_name(self, connection: Connection | None = None) -> Mapping[str, tuple[str, ...]]:
        """The secret keys of every job, by its name."""
        seen = self.database.seen()
        if "redactions" not in seen:
            self.database.ensure_schema(connection)
            seen["redactions"] = self.database.read(self._redactions, connection)
        found: Mapping[str, tuple[str, ...]] = seen["redactions"]
        return found

    def _write_redactions(self, connection: Connection, missing: list[Redaction]) -> None:
        insert = self.database.prepared(
            "write redaction", lambda: self.dialect.insert_if_absent(self.tables.redactions, ("name", "key"))
        )
        insert.many(cursor_of(connection), [{"name": name, "key": key} for name, key in missing])

    def _redactions(self, connection: Connection) -> dict[str, tuple[str, ...]]:
        c = self.tables.redactions.c
        keys = defaultdict[str, tuple[str, ...]](tuple)
        for name, key in connection.execute(select(c.name, c.key).order_by(c.name, c.key).limit(MOST_KEYS)):
            keys[name] += (key,)
        return dict(keys)


def _after_commit(connection: Connection, call: Callable[[], None]) -> None:
    """Call when the transaction that is open on the connection is committed; never, if it is rolled back."""
    waiting = [call]

    def committed(_connection: Any) -> None:
        if waiting:
            waiting.pop()()

    event.listen(connection, "commit", committed)
    event.listen(connection, "rollback", lambda _connection: waiting.clear())
